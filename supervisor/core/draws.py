"""Whether a draw falls into the interval of the arm that it is said to have chosen.

Arms lie on [0, 1) in the order of the phase's weights, each as long as its share of those that are
drawn from. An arm whose source fails at a step is left out, and the step draws again among the
others; which ones failed is not reported step by step, so it is found from the phase's failures.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

Weights = Sequence[tuple[str, float]]

_MOST_FAILED = 8  # arms: the sets of them that are tried are then 256


@dataclass(frozen=True, slots=True)
class Draw:
    """A draw on [0, 1), the arm whose interval ``low`` to ``high`` holds it, and its probability.

    ``left_out`` are the arms that had failed at this step. ``holds``: it is the arm that served,
    with the probability that the trainer told, where it told one.
    """

    number: float
    arm: str
    low: float
    high: float
    propensity: float
    left_out: tuple[str, ...]
    holds: bool


def draw(
    weights: Weights,
    number: float,
    served: str,
    propensity: float | None,
    failed: Iterable[str] = (),
) -> Draw | None:
    """What ``number`` draws from a phase's weights; None where nothing can be drawn.

    ``failed`` are the arms that failed in this phase: the fewest of them are left out with which
    the draw holds, and none where it never does.
    """
    suspects = tuple(failed)[:_MOST_FAILED]
    first: Draw | None = None
    for size in range(len(suspects) + 1):
        for left_out in combinations(suspects, size):
            found = _drawn(weights, number, served, propensity, left_out)
            if found is not None and found.holds:
                return found
            first = first or found
    return first


def _drawn(
    weights: Weights,
    number: float,
    served: str,
    propensity: float | None,
    left_out: tuple[str, ...],
) -> Draw | None:
    """In the trainer's own arithmetic, so that a draw beside a border falls as it fell."""
    rest = [(name, weight) for name, weight in weights if weight > 0 and name not in left_out]
    if not rest:
        return None
    sizes = [weight for _, weight in rest]
    total = sum(sizes)
    at = _index(sizes, number * total)
    name, own = rest[at][0], sizes[at] / total
    low, high = sum(sizes[:at]) / total, sum(sizes[: at + 1]) / total
    # A trainer that tells none is given the share itself, which need not be w / sum to the bit.
    told = propensity in (None, own) or (propensity == sizes[at] and not left_out)
    holds = name == served and 0.0 <= number < 1.0 and told
    return Draw(number, name, low, high, own, left_out, holds)


def _index(sizes: Sequence[float], point: float) -> int:
    """Which interval holds the point; the last one also what rounding has left behind it."""
    for at, size in enumerate(sizes):
        point -= size
        if point < 0:
            return at
    return len(sizes) - 1
