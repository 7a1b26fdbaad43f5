"""The losses of this lineage up to the present step, as far back as they are known.

Eight bytes a step. A ``.bin`` gives those that its companion has, the other formats all.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import Any

from trainer.contract.checkpoint_format import MOST_LOSSES
from trainer.contract.wire import nonfinite


class Losses:
    """Losses of consecutive steps; ``last`` is the step of the newest, 0 before any."""

    def __init__(self) -> None:
        self.last = 0
        self._values = array("d")

    def add(self, step: int, loss: float) -> None:
        """One more; where ``step`` does not follow the last one, what was known ends there."""
        if step != self.last + 1:
            del self._values[:]
        self._values.append(loss)
        self.last = step

    def replace(self, step: int, values: Iterable[float]) -> None:
        """What is known up to ``step``."""
        self._values = array("d", values)
        self.last = step

    def whole(self) -> array[float]:
        """A copy of all that are known."""
        return self._values[:]

    def since(self, step: int) -> dict[str, Any] | None:
        """Those after ``step``, as a companion holds them; None where there are none."""
        count = min(self.last - step, len(self._values), MOST_LOSSES)
        if count <= 0:
            return None
        values = [nonfinite(loss) or loss for loss in self._values[-count:]]
        return {"first": self.last - count + 1, "values": values}


def read_losses(record: dict[str, Any] | None, step: int) -> list[float]:
    """Losses up to ``step`` from a companion; none where it keeps none that end there."""
    if record is None or record["first"] + len(record["values"]) - 1 != step:
        return []
    return [float(value) for value in record["values"]]
