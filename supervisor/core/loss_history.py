"""Whether the losses that a checkpoint holds are those of the ledger, which stands either way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from supervisor.core.messages import LossDifference, LossHistory


def difference(
    histories: Sequence[LossHistory], ledger: Mapping[int, float | str]
) -> LossDifference | None:
    """The first step at which any of the histories holds another loss than the ledger's line.

    ``ledger`` gives the loss of a step, or the word for one that is not finite. Steps that it does
    not give are not compared; numbers are compared exactly.
    """
    found: dict[int, tuple[float | str, float | str]] = {}
    for history in histories:
        for step, value in enumerate(history.values, history.first):
            told = ledger.get(step, value)
            if value != told:
                found.setdefault(step, (value, told))
    if not found:
        return None
    step = min(found)
    return LossDifference(step, *found[step], len(found))


def steps_of(histories: Sequence[LossHistory]) -> tuple[int, int]:
    """The first and the last step that any of them speaks of; (1, 0) for none."""
    told = [history for history in histories if history.values]
    first = min((history.first for history in told), default=1)
    last = max((history.first + len(history.values) - 1 for history in told), default=0)
    return first, last
