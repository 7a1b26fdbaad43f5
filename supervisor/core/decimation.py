"""Fewer points of a long series for a chart, the extremes of every stretch among them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

_LEAST = 4  # the first and the last point, and one stretch's extremes between them


def decimate(values: Sequence[float], most: int) -> list[int]:
    """The places of at most ``most`` points, ascending, that stand for the whole series.

    The first and the last are among them, and of each of equally long stretches in between the
    lowest and the highest: a line through them shows every excursion that a line through all
    would, and each is a value of the series itself. A series that is short enough is kept whole.
    ``values`` are finite. Raises ValueError for a ``most`` below 4.
    """
    if most < _LEAST:
        raise ValueError(f"cannot keep {most} points: {_LEAST} or more")
    count = len(values)
    if count <= most:
        return list(range(count))
    kept = [0]
    for start, stop in stretches(1, count - 1, (most - 2) // 2):
        piece = values[start:stop]
        low = start + piece.index(min(piece))
        high = start + piece.index(max(piece))
        kept += sorted({low, high})
    return [*kept, count - 1]


def stretches(start: int, stop: int, most: int) -> list[tuple[int, int]]:
    """At most ``most`` ranges, as long as each other to within one, that make up the whole."""
    count = min(most, stop - start)
    ends = [start + (stop - start) * nth // count for nth in range(count + 1)] if count > 0 else []
    return list(pairwise(ends))
