"""Whether a loss is a spike: far above what its own arm's losses were.

The score is the modified z of Iglewicz and Hoaglin (How to Detect and Handle Outliers, 1993):
(x - median) / (1.4826 MAD), MAD the median of the distances from the median; 1.4826 makes it the
standard deviation where losses are Gaussian. Half of the window may be spikes before it breaks
down. Only what is above the median counts: a low loss harms nobody.
"""

from __future__ import annotations

from typing import NamedTuple

GAUSSIAN = 1.4826
TINY = 1e-9
BUCKET = 20  # steps for which a window is judged by once


class Reference(NamedTuple):
    """What an arm's losses were: their median, and their deviation with its floor."""

    median: float
    deviation: float

    def score(self, loss: float) -> float:
        """Robust deviations above the median, at most 1e9."""
        return min((loss - self.median) / self.deviation, 1e9)


class Window(NamedTuple):
    """The last losses of an arm, each with its step.

    ``reference`` was taken at the arm's first loss in the ``bucket`` of steps; None of too few.
    """

    losses: tuple[tuple[int, float], ...] = ()
    bucket: int = -1
    reference: Reference | None = None


def reference(losses: list[float], floor: float, least: int) -> Reference | None:
    """Of these losses; the deviation is at least ``floor`` of the median. None of too few."""
    if len(losses) < least:
        return None
    ordered = sorted(losses)
    median = _median(ordered)
    # Falling, then rising: two runs, which are merged and not sorted again.
    mad = _median(sorted([abs(loss - median) for loss in ordered]))
    return Reference(median, max(GAUSSIAN * mad, floor * abs(median), TINY))


def _median(ordered: list[float]) -> float:
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[middle]
    return (ordered[middle - 1] + ordered[middle]) / 2
