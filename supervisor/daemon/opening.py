"""Open the records of a run under its lock: the journal, the ledger, and what goes with them."""

from __future__ import annotations

import secrets
from pathlib import Path

from supervisor import clock
from supervisor.config import Config
from supervisor.core.messages import LedgerPosition
from supervisor.errors import LedgerError
from supervisor.perform import Parts, placing, say
from supervisor.sidecars.checkpoints import SealRecord
from supervisor.sidecars.events import Events, Head, created
from supervisor.sidecars.ledger import Ledger
from supervisor.sidecars.samples import Samples


def open_parts(config: Config, newest: SealRecord | None, *, fresh: bool) -> Parts:
    """The open records, verified from the newest seal on; a ``fresh`` run's are created.

    Raises LedgerError for a ledger that is not the one the seals speak of, and OSError.
    """
    run = config.run
    events = Events.open(run / "events.jsonl", Head(*newest.events) if newest else None)
    try:
        run_id = _run_id(events, run, fresh=fresh)
        after = LedgerPosition(**newest.ledger._asdict()) if newest else None
        ledger = Ledger.open(config.ledger, run_id, after, fresh=fresh)
    except BaseException:
        events.close()
        raise
    parts = Parts(
        config=config,
        run_id=run_id,
        ledger=ledger,
        events=events,
        samples=Samples(config.samples, run / "archive"),
        newest_seal=newest.digest if newest else "",
    )
    placing.settle(run, run_id, events)
    if newest is not None:
        ledger.mark(f"seal:{newest.digest[:32]}")  # its line may not have come to be
    if ledger.torn is not None:
        text = f"the ledger ended in a torn piece of {ledger.torn.bytes} bytes"
        say(f"{text}: it is completed, or closed off and kept; its steps are recorded", alarm=True)
    return parts


def _run_id(events: Events, run: Path, *, fresh: bool) -> str:
    first = created(run / "events.jsonl")
    if first is not None:
        return str(first.facts["run"])
    if not fresh:
        raise LedgerError(f"cannot use {run / 'events.jsonl'}: it does not name its run any more")
    run_id = secrets.token_hex(8)
    events.append("run-created", {"run": run_id}, clock.wall())
    events.sync()
    return run_id
