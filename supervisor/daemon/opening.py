"""Open the records of a run under its lock: the journal, the ledger, and what goes with them."""

from __future__ import annotations

import secrets
from pathlib import Path

from supervisor import clock
from supervisor.config import Config
from supervisor.core.messages import LedgerPosition
from supervisor.errors import LedgerError
from supervisor.perform import Parts, placing, say
from supervisor.perform.hooks import Hooks
from supervisor.sidecars import archive
from supervisor.sidecars.checkpoints import SealRecord
from supervisor.sidecars.events import EventLine, Events, Head, created, mark_of
from supervisor.sidecars.ledger import Cut, Ledger
from supervisor.sidecars.rewinds import RewindModel
from supervisor.sidecars.samples import Samples


def open_parts(
    config: Config, newest: SealRecord | None, rewound: RewindModel | None, *, fresh: bool
) -> Parts:
    """The open records, verified from the newest seal on; a ``fresh`` run's are created.

    Raises LedgerError for a ledger that is not the one the seals speak of, and OSError.
    """
    run = config.run
    events = Events.open(run / "events.jsonl", Head(*newest.events) if newest else None)
    hooks = Hooks(config.hooks)
    events.tell = hooks.tell
    try:
        first = _named(events, run, fresh=fresh)
        after = LedgerPosition(**newest.ledger._asdict()) if newest else None
        ledger = Ledger.open(config.ledger, mark_of(first), after, fresh=fresh)
    except BaseException:
        events.close()
        raise
    parts = Parts(
        config=config,
        run_id=str(first.facts["run"]),
        ledger=ledger,
        events=events,
        samples=Samples(config.samples, run / "archive"),
        newest_seal=newest.digest if newest else "",
        newest_bytes=newest.bin.bytes if newest else 0,
        hooks=hooks,
    )
    if rewound is not None:
        ledger.note_cut(Cut(rewound.to.step, LedgerPosition(**rewound.ledger.model_dump())))
    pivot = archive.read_pivot(run)
    if pivot is not None and pivot.stage == "installed" and pivot.pin and pivot.ledger:
        ledger.note_cut(Cut(pivot.pin.step, LedgerPosition(**pivot.ledger.model_dump())))
    placing.settle(run, parts.run_id, events)
    if newest is not None:
        ledger.mark(f"seal:{newest.digest[:32]}")  # its line may not have come to be
    if ledger.torn is not None:
        text = f"the ledger ended in a torn piece of {ledger.torn.bytes} bytes"
        say(f"{text}: it is completed, or closed off and kept; its steps are recorded", alarm=True)
    return parts


def _named(events: Events, run: Path, *, fresh: bool) -> EventLine:
    """The event that names the run; a fresh run is named now, unless it was when it was made."""
    path = run / "events.jsonl"
    if created(path) is None and fresh:
        events.append("run-created", {"run": secrets.token_hex(8)}, clock.wall())
        events.sync()
    first = created(path)
    if first is None:
        raise LedgerError(f"cannot use {path}: it does not name its run any more")
    return first
