"""The losses that stand in the ledger, as exact numbers, by step."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from supervisor.sidecars.ledger.blocks import records
from supervisor.sidecars.ledger.reading import canonical
from supervisor.sidecars.ledger.replay import Lockstep


def standing(lockstep: Lockstep, first: int, last: int) -> dict[int, float | str]:
    """Those of the steps ``first`` to ``last`` that stand; a word for one that is not finite.

    Raises OSError, LedgerError.
    """
    found = ((step, lockstep.at(step)) for step in range(first, last + 1))
    lines = {step: at.line for step, at in found if at is not None}
    told = zip(lines, records(list(lines.values())), strict=True)
    return {step: loss_of(record) for step, record in told if record is not None}


def written(path: Path, spans: Iterable[tuple[int, int]]) -> dict[int, float | str]:
    """The same of all steps in any of the ``spans``, first to last, from the file on disk.

    Raises OSError.
    """
    wanted = {step for first, last in spans for step in range(first, last + 1)}
    fields = (entry.fields for entry in canonical(path)) if wanted else ()
    return {record["step"]: loss_of(record) for record in fields if record["step"] in wanted}


def loss_of(record: dict[str, object]) -> float | str:
    """The loss on a line, or the word for one that is not finite."""
    loss = record.get("loss")
    return loss if isinstance(loss, float) else str(record.get("nonfinite"))
