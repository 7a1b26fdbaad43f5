"""Thompson sampling: each arm weighs as often as it is the best one in draws from what is known.

An arm's mean reward is drawn from a normal distribution around its discounted mean, with the
spread of its discounted rewards over their count (Thompson 1933; Gaussian and discounted as in
Qi, Wang, Zhu 2023). A prior of ``_PRIOR`` pulls at 0.5 keeps an arm that was never pulled likely.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from supervisor.core.bandit.chance import normal
from supervisor.core.bandit.proposal import Proposal
from supervisor.core.bandit.state import ArmState, Discounted
from supervisor.core.policy import Policy

DRAWS = 64
_PRIOR = 1.0  # pulls
_MEAN, _VARIANCE = 0.5, 0.25  # of the prior: the widest that rewards in [0, 1] can have


def propose(
    arms: Sequence[ArmState], policy: Policy, penalties: Mapping[str, float], generator: int
) -> Proposal:
    """How often each arm was the best of ``DRAWS`` draws, times its penalty."""
    known = {arm.name: posterior(arm.discounted) for arm in arms}
    wins = dict.fromkeys(known, 0)
    for _ in range(DRAWS):
        best, highest = "", -math.inf
        for name, (mean, spread) in known.items():
            generator, chance = normal(generator)
            drawn = mean + policy.exploration * spread * chance
            if drawn > highest:
                best, highest = name, drawn
        wins[best] += 1
    weights = {name: count / DRAWS * penalties[name] for name, count in wins.items()}
    score = {name: mean for name, (mean, _) in known.items()}
    bonus = {name: policy.exploration * spread for name, (_, spread) in known.items()}
    return Proposal(weights, generator, score, bonus)


def posterior(sums: Discounted) -> tuple[float, float]:
    """Mean of an arm's mean reward, and its standard deviation."""
    count = sums.pulls + _PRIOR
    mean = (sums.total + _PRIOR * _MEAN) / count
    square = (sums.square + _PRIOR * (_VARIANCE + _MEAN * _MEAN)) / count
    variance = max(0.0, square - mean * mean)
    return mean, math.sqrt(variance / count)
