"""Exact projection of weights onto shares within floors and caps.

The nearest shares of {floor <= p <= cap, sum p = 1} are p_i = clip(c w_i, floor_i, cap_i) in KL
divergence and p_i = clip(y_i - tau, floor_i, cap_i) in Euclidean distance: in either the sum is
piecewise linear in one number, so one sweep over the 2K sorted breakpoints finds where it is 1
(Brucker 1984; Pardalos and Kovoor 1990). Any number at which the clipped shares sum to 1 gives the
projection, so a sum is the proof of a result. Clamping and renormalising, repeated or not, breaks
bounds and is never the projection.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from math import fsum, inf

TOLERANCE = 1e-12  # how far floors may sum above 1, or caps below: shares then do so too
_SMALLEST = 1e-300  # of the largest: a weight of nothing still takes part, so that caps can be met
_LARGEST = 1e300  # of Euclidean points, so that no difference of two is infinite
_PROVED = 1e-14  # by how much a sum of proved shares may differ from 1
_Event = tuple[float, float, float]  # a breakpoint, and what changes there: slope and level


def infeasible(floors: Sequence[float], caps: Sequence[float]) -> str:
    """Why no shares satisfy the bounds, or empty where some do."""
    if not floors:
        return "there is no arm"
    for floor, cap in zip(floors, caps, strict=True):
        if not 0.0 <= floor <= cap <= 1.0:
            return f"floor {floor} and cap {cap} do not satisfy 0 <= floor <= cap <= 1"
    if (total := fsum(floors)) > 1.0 + TOLERANCE:
        return f"the floors sum to {total:.13g}, more than 1"
    if (total := fsum(caps)) < 1.0 - TOLERANCE:
        return f"the caps sum to {total:.13g}, less than 1"
    return ""


def project(
    weights: Sequence[float], floors: Sequence[float], caps: Sequence[float]
) -> tuple[float, ...]:
    """Shares of shape (K,) nearest to ``weights`` (K, nonnegative) in KL, summing to 1.

    Bounds are kept exactly, the sum within 1e-12. Weights that are between their bounds keep their
    proportions; one below 1e-300 of the largest, nothing included, counts as 1e-300 of it.
    Raises ValueError where the bounds are infeasible (they are refused, never repaired) or a weight
    is negative or not finite.
    """
    _refuse(floors, caps, weights, 0.0, inf)
    weights = scaled(weights)
    lows = [floor / w for floor, w in zip(floors, weights, strict=True)]
    highs = [cap / w for cap, w in zip(caps, weights, strict=True)]
    rising = [(mark, w, -f) for mark, w, f in zip(lows, weights, floors, strict=True)]
    falling = [(mark, -w, c) for mark, w, c in zip(highs, weights, caps, strict=True)]

    def clipped(multiplier: float) -> tuple[float, ...]:
        return tuple(
            [
                f if (share := multiplier * w) <= f else min(c, share)
                for w, f, c in zip(weights, floors, caps, strict=True)
            ]
        )

    def between(low: float, high: float) -> float:
        """The multiplier between two neighbouring breakpoints, from parts that are summed anew."""
        free = []
        parts = [1.0]
        for w, f, c, enters, leaves in zip(weights, floors, caps, lows, highs, strict=True):
            if leaves <= low:
                parts.append(-c)
            elif enters >= high:
                parts.append(-f)
            else:
                free.append(w)
        return fsum(parts) / fsum(free) if free else high

    shares = clipped(between(*_swept(sorted(rising + falling), fsum(floors))))
    if abs(fsum(shares) - 1.0) <= _PROVED:
        return shares
    return clipped(between(*_bisected(sorted({*lows, *highs}), clipped)))


def project_euclidean(
    points: Sequence[float], floors: Sequence[float], caps: Sequence[float]
) -> tuple[float, ...]:
    """Shares of shape (K,) nearest to ``points`` (K, of any sign) in distance, summing to 1.

    Bounds are kept exactly, the sum within 1e-12. Points that are between their bounds keep their
    differences. Raises ValueError where the bounds are infeasible or a point is not within 1e300.
    """
    _refuse(floors, caps, points, -_LARGEST, _LARGEST)
    lows, highs = _marks(points, floors, caps)
    rising = [(mark, 1.0, y - f) for mark, y, f in zip(lows, points, floors, strict=True)]
    falling = [(mark, -1.0, c - y) for mark, y, c in zip(highs, points, caps, strict=True)]
    low, high = _swept(sorted(rising + falling), fsum(floors))
    shares = _moved(points, floors, caps, _shift(points, floors, caps, low, high))
    if abs(fsum(shares) - 1.0) <= _PROVED:
        return shares
    for _ in range(2):  # the breakpoints of points far from 0 have few digits: first find where
        lows, highs = _marks(points, floors, caps)
        marks = sorted({*lows, *highs})
        low, high = _bisected(marks, lambda by: _moved(points, floors, caps, by))  # noqa: B023 - called at once
        shares = _moved(points, floors, caps, _shift(points, floors, caps, low, high))
        near = next(y for y, a, b in zip(points, lows, highs, strict=True) if low in (a, b))
        points = [y - near for y in points]
    return shares


def scaled(weights: Sequence[float]) -> list[float]:
    """Weights as parts of the largest, none below 1e-300; all 1 where none is above 0."""
    largest = max(weights)
    if largest <= 0.0:
        return [1.0] * len(weights)
    return [share if (share := w / largest) > _SMALLEST else _SMALLEST for w in weights]


def _refuse(
    floors: Sequence[float], caps: Sequence[float], values: Sequence[float], low: float, high: float
) -> None:
    problem = infeasible(floors, caps)
    if not problem:
        if len(values) != len(floors):
            problem = f"{len(values)} weights for {len(floors)} arms"
        for value in values:
            if not low <= value <= high or value == inf:
                problem = f"{value} is no weight"
    if problem:
        raise ValueError(f"cannot project onto the bounds: {problem}")


def _swept(events: list[_Event], level: float) -> tuple[float, float]:
    """Neighbouring breakpoints between which the sum, by running sums, comes to 1.

    A tiny weight that was added after a large one has lost digits when the large one is taken away
    again, so this is a guess, and nearly always right.
    """
    slope = 0.0
    low = events[0][0]
    for mark, steeper, higher in events:
        if level + slope * mark >= 1.0:
            return low, mark
        slope += steeper
        level += higher
        low = mark
    return low, low


def _bisected(
    marks: list[float], clipped: Callable[[float], tuple[float, ...]]
) -> tuple[float, float]:
    """The same from sums made anew at each breakpoint looked at: slower, and always right."""
    at = bisect_left(marks, 1.0, key=lambda mark: fsum(clipped(mark)))
    return marks[max(0, at - 1)], marks[min(at, len(marks) - 1)]


def _marks(
    points: Sequence[float], floors: Sequence[float], caps: Sequence[float]
) -> tuple[list[float], list[float]]:
    """For each point, how far it moves until it leaves its floor, and until it meets its cap."""
    lows = [floor - y for floor, y in zip(floors, points, strict=True)]
    highs = [cap - y for cap, y in zip(caps, points, strict=True)]
    return lows, highs


def _moved(
    points: Sequence[float], floors: Sequence[float], caps: Sequence[float], by: float
) -> tuple[float, ...]:
    return tuple(
        [
            f if (share := y + by) <= f else min(c, share)
            for y, f, c in zip(points, floors, caps, strict=True)
        ]
    )


def _shift(
    points: Sequence[float], floors: Sequence[float], caps: Sequence[float], low: float, high: float
) -> float:
    """By how much all points move, between two neighbouring breakpoints."""
    free = 0
    parts = [1.0]
    for y, f, c in zip(points, floors, caps, strict=True):
        if c - y <= low:
            parts.append(-c)
        elif f - y >= high:
            parts.append(-f)
        else:
            parts.append(-y)
            free += 1
    return fsum(parts) / free if free else high
