"""Rewind a run to a sealed checkpoint: everything above it leaves the lineage, nothing the ledger.

    stage    what is durable                             what comes next
    begun    rewind.json: the target, the ledger's end   journal; checkpoints above move away
    done     all of that                                 the next attempt resumes from the target

It only goes forward: whoever dies on the way, the next one to take the run's lock completes it.
"""

from __future__ import annotations

from pathlib import Path

from supervisor import clock
from supervisor.config import Config
from supervisor.core.messages import LedgerPosition
from supervisor.errors import StepkeeperError
from supervisor.perform.unattended import by
from supervisor.sidecars import archive, attempts, rewinds
from supervisor.sidecars.checkpoints import (
    SealRecord,
    scan,
)
from supervisor.sidecars.checkpoints.superseding import supersede
from supervisor.sidecars.events import Events, created, mark_of
from supervisor.sidecars.ledger import Ledger
from supervisor.sidecars.rewinds import LineModel, RewindModel, TargetModel


def find_target(run: Path, step: int, do: str = "go to") -> tuple[SealRecord, SealRecord]:
    """The seal of ``step`` and the newest one. Raises StepkeeperError where that cannot be.

    ``do`` is what the operator wants to do with that step.
    """
    catalogue = scan(run / "checkpoints")
    sealed = catalogue.sealed
    target = next((seal for seal in sealed if seal.step == step), None)
    if target is None:
        why = next((r.reason for r in catalogue.refused if r.step == step), "")
        if not why and any(seal.step == step for seal in catalogue.retired):
            why = "it was deleted"
        raise StepkeeperError(
            f"cannot {do} step {step} of {run}: {why or 'no checkpoint of it is sealed'}; "
            f"{_nearest([seal.step for seal in sealed], step)}"
        )
    return target, sealed[0]


def _nearest(steps: list[int], step: int) -> str:
    below = max((s for s in steps if s < step), default=None)
    above = min((s for s in steps if s > step), default=None)
    found = [str(s) for s in (below, above) if s is not None]
    of = " and of step ".join(found)
    return f"the nearest one is of step {of}" if found else "none is sealed"


def refuse_unless_at_rest(run: Path) -> None:
    """Raise StepkeeperError where something about the run is not over yet."""
    pivot = archive.read_pivot(run)
    if pivot is not None:
        raise StepkeeperError(
            f"cannot rewind {run}: the pivot to policy {pivot.policy} is under way "
            f"({pivot.stage}); let stepkeeper run complete it, or cancel it"
        )
    last = attempts.last(run)
    if last is None or last.ended is None:
        what = "it has never started" if last is None else f"nobody saw attempt {last.attempt} end"
        hint = "" if last is None else "; let stepkeeper stop see to that first"
        raise StepkeeperError(f"cannot rewind {run}: {what}{hint}")


def rewind(config: Config, target: SealRecord, newest: SealRecord) -> RewindModel:
    """Go back to ``target``, under the run's lock. Raises StepkeeperError, OSError."""
    run = config.run
    last, first = attempts.last(run), created(run / "events.jsonl")
    if last is None or first is None:
        raise StepkeeperError(f"cannot rewind {run}: its records are not complete")
    ledger = Ledger.open(config.ledger, mark_of(first), LedgerPosition(*newest.ledger), fresh=False)
    try:
        end = ledger.position
    finally:
        ledger.close()
    record = RewindModel(
        stage="begun",
        to=TargetModel(step=target.step, sha256=target.bin.sha256, seal=target.digest),
        sealed=newest.step,
        attempt=last.attempt,
        ledger=LineModel(**end._asdict()),
        by=by(),
        time=clock.wall(),
    )
    rewinds.write(run, record)
    return complete(run) or record


def complete(run: Path) -> RewindModel | None:
    """The newest rewind, whole whatever a crash left of it. Raises StepkeeperError, OSError."""
    record = rewinds.read(run)
    if record is None or record.stage == "done":
        return record
    events = Events.open(run / "events.jsonl")
    try:
        facts = {
            "from": record.ledger.step,
            "to": record.to.step,
            "by": record.by,
            "seal": record.to.seal,
            "attempt": record.attempt,
            "ledger": record.ledger.model_dump(),
        }
        events.append("rewound", facts, record.time, once=True)
        events.sync()
    finally:
        events.close()
    supersede(run / "checkpoints", record.attempt + 1, record.to.step)
    record = record.model_copy(update={"stage": "done"})
    rewinds.write(run, record)
    return record
