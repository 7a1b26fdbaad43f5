"""Thompson sampling: each arm weighs as probably as it is the best one by what is known.

An arm's mean reward is normal around its discounted mean, with the spread of its discounted rewards
over their count (Thompson 1933; Gaussian and discounted as in Qi, Wang, Zhu 2023). A phase serves
many pulls, each of which would sample from the same beliefs: their probabilities are its mix, so
they are integrated and nothing is left to chance. A prior of ``_PRIOR`` pulls at 0.5 keeps an arm
that was never pulled likely.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from supervisor.core.bandit.proposal import Proposal
from supervisor.core.bandit.state import ArmState, Discounted
from supervisor.core.policy import Policy

_PRIOR = 1.0  # pulls
_MEAN, _VARIANCE = 0.5, 0.25  # of the prior: the widest that rewards in [0, 1] can have
_REACH = 3.0  # standard deviations: beyond them nothing is looked at
_NODES = tuple(0.75 * step for step in range(-4, 5))
_LEAST = 1e-9  # of a spread
_ROOT = math.sqrt(2.0)


def propose(
    arms: Sequence[ArmState], policy: Policy, penalties: Mapping[str, float], generator: int
) -> Proposal:
    """The probability that each arm is the best, times its penalty."""
    known = {arm.name: posterior(arm.discounted) for arm in arms}
    bonus = {name: policy.exploration * spread for name, (_, spread) in known.items()}
    score = {name: mean for name, (mean, _) in known.items()}
    chances = best_chances(tuple((score[name], bonus[name]) for name in known))
    weights = {name: p * penalties[name] for name, p in zip(known, chances, strict=True)}
    return Proposal(weights, generator, score, bonus)


def best_chances(beliefs: Sequence[tuple[float, float]]) -> tuple[float, ...]:
    """The probability that each of these normal numbers (mean, spread) is the largest; sum 1.

    That of one is the integral, over its distribution, of the probability that all others are
    below: by trapezoids between the quantiles of every one of them.
    """
    known = [(mean, max(spread, _LEAST)) for mean, spread in beliefs]
    lowest = max(mean - _REACH * spread for mean, spread in known)
    points = sorted(
        {point for mean, s in known for z in _NODES if (point := mean + s * z) >= lowest}
    )
    found = [0.0] * len(known)
    before, under = [0.0] * len(known), [0.0] * len(known)
    for point in points:
        below = [0.5 * math.erfc((mean - point) / (_ROOT * s)) for mean, s in known]
        all_below = math.prod(below)
        others = [all_below / chance if chance else 0.0 for chance in below]
        for arm, chance in enumerate(below):
            found[arm] += (chance - before[arm]) * 0.5 * (others[arm] + under[arm])
        before, under = below, others
    total = math.fsum(found)
    return tuple(chance / total for chance in found)


def posterior(sums: Discounted) -> tuple[float, float]:
    """Mean of an arm's mean reward, and its standard deviation."""
    count = sums.pulls + _PRIOR
    mean = (sums.total + _PRIOR * _MEAN) / count
    square = (sums.square + _PRIOR * (_VARIANCE + _MEAN * _MEAN)) / count
    variance = max(0.0, square - mean * mean)
    return mean, math.sqrt(variance / count)
