"""What floors and caps cost: the best mix within bounds, which bound binds, and its price.

The mean rewards, and so all costs, are in the reward's own unit: normalised progress from 0 to 1
where they are a bandit's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import fsum

from supervisor.core.bounds import infeasible, project, scaled


class Binding(StrEnum):
    """Which bound keeps an arm's share from being in proportion to its weight."""

    NONE = ""
    FLOOR = "floor"
    CAP = "cap"


@dataclass(frozen=True, slots=True)
class Projection:
    """Shares within their bounds, and what the bounds cost; every tuple is of shape (K,).

    ``prices`` are shadow prices at these shares, in reward per step for each unit of share: an arm
    whose binding floor is lowered by 0.01, or whose binding cap is raised by 0.01, changes the
    expected reward by 0.01 times its price. The share that is set free goes to (or comes from) the
    arms between their bounds, in proportion to their shares. A price below 0 says that the bound
    earns: it holds up a good arm, or holds down a bad one. It is 0 where no bound binds.

    ``floor_tax`` and ``cap_tax`` are what the bounds cost each step in expected reward even under
    the best mix within them, against the best arm alone: sum floor_i gap_i, where gap_i is by how
    much the mean of arm i is below the highest mean, and sum (share_i - floor_i) gap_i over that
    mix, which is 0 unless a cap keeps the best arm from having all that floors leave. No policy
    that keeps the bounds can lose less.
    """

    shares: tuple[float, ...]
    binding: tuple[Binding, ...]
    prices: tuple[float, ...]
    floor_tax: float
    cap_tax: float

    @property
    def tax(self) -> float:
        """What floors and caps cost per step together, at the least."""
        return self.floor_tax + self.cap_tax


def prices(
    weights: Sequence[float],
    floors: Sequence[float],
    caps: Sequence[float],
    means: Sequence[float],
) -> Projection:
    """The KL projection of ``weights``, and the prices of its bounds where arms earn ``means``.

    All of shape (K,). Raises ValueError as ``project`` does.
    """
    shares = project(weights, floors, caps)
    weights = scaled(weights)
    binding = _binding(shares, weights, floors, caps)
    takes, gives = _margins(shares, weights, binding, means)
    worth = {Binding.NONE: (0.0, 0.0), Binding.FLOOR: (takes, -1.0), Binding.CAP: (-gives, 1.0)}
    cost = tuple(
        worth[bound][0] + worth[bound][1] * mean for bound, mean in zip(binding, means, strict=True)
    )
    best = max(means)
    mix = best_mix(means, floors, caps)
    return Projection(
        shares,
        binding,
        cost,
        fsum(floor * (best - mean) for floor, mean in zip(floors, means, strict=True)),
        fsum((p - f) * (best - mean) for p, f, mean in zip(mix, floors, means, strict=True)),
    )


def best_mix(
    means: Sequence[float], floors: Sequence[float], caps: Sequence[float]
) -> tuple[float, ...]:
    """The fixed shares within the bounds that earn most: floors first, then the best up to its cap.

    Raises ValueError where the bounds are infeasible.
    """
    problem = infeasible(floors, caps)
    if problem:
        raise ValueError(f"cannot fill the bounds: {problem}")
    shares = list(floors)
    for arm in sorted(range(len(means)), key=lambda arm: -means[arm]):
        left = fsum([1.0, *(-share for share in shares)])
        shares[arm] = min(caps[arm], max(floors[arm], floors[arm] + left))
    return tuple(shares)


def _binding(
    shares: Sequence[float],
    weights: Sequence[float],
    floors: Sequence[float],
    caps: Sequence[float],
) -> tuple[Binding, ...]:
    """A bound binds where a share is at it; of equal bounds, the one that the weight strains."""
    arms = list(zip(shares, weights, floors, caps, strict=True))
    found = []
    for share, weight, floor, cap in arms:
        at_floor, at_cap = share <= floor and floor > 0.0, share >= cap and cap < 1.0
        if at_floor and at_cap:
            at_floor = share >= weight * _multiplier(arms)
        found.append(Binding.FLOOR if at_floor else Binding.CAP if at_cap else Binding.NONE)
    return tuple(found)


def _multiplier(arms: Sequence[tuple[float, float, float, float]]) -> float:
    """What weights were multiplied by, or the least that it was where no arm is between bounds."""
    free = [(share, weight) for share, weight, floor, cap in arms if floor < share < cap]
    if free:
        return fsum(share for share, _ in free) / fsum(weight for _, weight in free)
    return max(
        (share / weight for share, weight, low, cap in arms if share == cap > low), default=0
    )


def _margins(
    shares: Sequence[float],
    weights: Sequence[float],
    binding: Sequence[Binding],
    means: Sequence[float],
) -> tuple[float, float]:
    """The mean reward of what takes a share that a floor sets free, and of what gives one to a cap.

    Both are that of the arms between their bounds. Where there are none, the first to leave its
    floor takes, and the first to leave its cap gives.
    """
    arms = list(zip(binding, shares, weights, means, strict=True))
    free = [(share, mean) for bound, share, _, mean in arms if bound is Binding.NONE]
    total = fsum(share for share, _ in free)
    if total > 0.0:
        mean = fsum(share * mean for share, mean in free) / total
        return mean, mean
    marks = [(bound, share / weight, mean) for bound, share, weight, mean in arms]
    takes = min(((m, mean) for bound, m, mean in marks if bound is Binding.FLOOR), default=None)
    gives = max(((m, mean) for bound, m, mean in marks if bound is Binding.CAP), default=None)
    return takes[1] if takes else 0.0, gives[1] if gives else 0.0
