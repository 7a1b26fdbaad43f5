"""Exact projection of weights onto shares within floors and caps.

The KL projection onto {floor <= p <= cap, sum p = 1} is p_i = clip(c w_i, floor_i, cap_i): the sum
is piecewise linear and nondecreasing in c, so the 2K sorted breakpoints tell where it reaches 1.
Clamping and renormalising, repeated or not, breaks bounds and is never the projection.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from math import fsum

TOLERANCE = 1e-9
_Arm = tuple[float, float, float]  # weight, floor, cap
_SMALLEST = 1e-12  # a weight of nothing still takes part, so that caps elsewhere can be met


def infeasible(floors: Sequence[float], caps: Sequence[float]) -> str:
    """Why no shares satisfy the bounds, or empty where some do."""
    if not floors:
        return "there is no arm"
    for floor, cap in zip(floors, caps, strict=True):
        if not 0.0 <= floor <= cap <= 1.0:
            return f"floor {floor} and cap {cap} do not satisfy 0 <= floor <= cap <= 1"
    if sum(floors) > 1.0 + TOLERANCE:
        return f"the floors sum to {sum(floors):.6g}, more than 1"
    if sum(caps) < 1.0 - TOLERANCE:
        return f"the caps sum to {sum(caps):.6g}, less than 1"
    return ""


def project(
    weights: Sequence[float], floors: Sequence[float], caps: Sequence[float]
) -> tuple[float, ...]:
    """Shares of shape (K,) nearest to ``weights`` (K, nonnegative) in KL, summing to 1.

    Raises ValueError where the bounds are infeasible: they are refused, never repaired.
    """
    problem = infeasible(floors, caps)
    if problem:
        raise ValueError(f"cannot project onto the bounds: {problem}")
    largest = max(weights)
    scale = [max(w / largest, _SMALLEST) if largest > 0 else 1.0 for w in weights]
    arms = list(zip(scale, floors, caps, strict=True))
    marks = sorted({bound / w for w, floor, cap in arms for bound in (floor, cap)})
    at = bisect_left(marks, 1.0, key=lambda mark: fsum(_clip(mark, arms)))
    if 0 < at < len(marks):
        multiplier = _between(marks[at - 1], marks[at], arms)
    else:  # every share is at its floor already, or at its cap still
        multiplier = marks[min(at, len(marks) - 1)]
    return tuple(_clip(multiplier, arms))


def _clip(multiplier: float, arms: Sequence[_Arm]) -> list[float]:
    return [min(cap, max(floor, multiplier * w)) for w, floor, cap in arms]


def _between(low: float, high: float, arms: Sequence[_Arm]) -> float:
    """The multiplier whose shares sum to 1, between two neighbouring breakpoints.

    Free and fixed parts are summed anew: kept along the sweep, a tiny weight added after a large
    one and left when that is taken away has lost half its digits.
    """
    free = fsum(w for w, floor, cap in arms if floor / w <= low and cap / w >= high)
    fixed = fsum(
        cap if cap / w <= low else floor
        for w, floor, cap in arms
        if cap / w <= low or floor / w >= high
    )
    return (1.0 - fixed) / free if free > 0.0 else high
