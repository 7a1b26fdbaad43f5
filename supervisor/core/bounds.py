"""Exact projection of weights onto shares within floors and caps.

The KL projection onto {floor <= p <= cap, sum p = 1} is p_i = clip(c w_i, floor_i, cap_i): the sum
is piecewise linear and nondecreasing in c, so one sweep over the 2K sorted breakpoints finds c.
Clamping and renormalising, repeated or not, breaks bounds and is never the projection.
"""

from __future__ import annotations

from collections.abc import Sequence

TOLERANCE = 1e-9
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
    marks = sorted(
        [(floor / w, w, floor) for w, floor, _ in arms]
        + [(cap / w, -w, -cap) for w, _, cap in arms]
    )
    fixed, free = sum(floors), 0.0
    multiplier = marks[-1][0]
    for mark, slope, level in marks:
        if free > 0.0 and fixed + free * mark >= 1.0:
            multiplier = (1.0 - fixed) / free
            break
        if free <= 0.0 and fixed >= 1.0:
            multiplier = mark
            break
        free += slope
        fixed -= level
    shares = [min(cap, max(floor, multiplier * w)) for w, floor, cap in arms]
    return _settle(shares, floors, caps)


def _settle(
    shares: list[float], floors: Sequence[float], caps: Sequence[float]
) -> tuple[float, ...]:
    """Give the rounding rest, about 1e-16, to the arm with the most room for it."""
    rest = 1.0 - sum(shares)
    room = [
        (cap - p) if rest > 0 else (p - floor)
        for p, floor, cap in zip(shares, floors, caps, strict=True)
    ]
    widest = max(range(len(shares)), key=room.__getitem__)
    shares[widest] = min(caps[widest], max(floors[widest], shares[widest] + rest))
    return tuple(shares)
