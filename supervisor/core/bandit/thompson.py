"""Thompson sampling: the mean of the mixes that are best in draws from what is known.

An arm's mean reward is drawn from a normal distribution around its discounted mean, with the spread
of its discounted rewards over their count (Thompson 1933; Gaussian and discounted as in Qi, Wang,
Zhu 2023). What is sampled is a mix within the bounds, not an arm: each draw gives what the floors
leave to its best arms in turn, up to their caps. The probability to be the best arm alone, brought
within the bounds, would starve all arms but the first few. A prior of ``_PRIOR`` pulls at 0.5 keeps
an arm that was never pulled likely.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from supervisor.core.bandit.chance import normals
from supervisor.core.bandit.proposal import Proposal
from supervisor.core.bandit.state import ArmState, Discounted
from supervisor.core.policy import Policy, Unit

DRAWS = 16
_PRIOR = 1.0  # pulls
_MEAN, _VARIANCE = 0.5, 0.25  # of the prior: the widest that rewards in [0, 1] can have


def propose(
    arms: Sequence[ArmState], policy: Policy, penalties: Mapping[str, float], generator: int
) -> Proposal:
    """The mean of ``DRAWS`` mixes, times penalties. Bounds of weights bound no mix."""
    known = {arm.name: posterior(arm.discounted) for arm in arms}
    score = {name: mean for name, (mean, _) in known.items()}
    bonus = {name: policy.exploration * spread for name, (_, spread) in known.items()}
    bounds = {arm.name: (arm.floor, arm.cap) for arm in policy.arms}
    rooms = {name: bounds[name] if policy.unit is Unit.SHARE else (0.0, 1.0) for name in known}
    weights = dict.fromkeys(known, 0.0)
    for _ in range(DRAWS):
        generator, chance = normals(generator, len(known))
        drawn = {n: score[n] + bonus[n] * z for n, z in zip(known, chance, strict=True)}
        for name, share in _best(drawn, rooms).items():
            weights[name] += share / DRAWS
    return Proposal({n: w * penalties[n] for n, w in weights.items()}, generator, score, bonus)


def posterior(sums: Discounted) -> tuple[float, float]:
    """Mean of an arm's mean reward, and its standard deviation."""
    count = sums.pulls + _PRIOR
    mean = (sums.total + _PRIOR * _MEAN) / count
    square = (sums.square + _PRIOR * (_VARIANCE + _MEAN * _MEAN)) / count
    variance = max(0.0, square - mean * mean)
    return mean, math.sqrt(variance / count)


def _best(means: Mapping[str, float], rooms: Mapping[str, tuple[float, float]]) -> dict[str, float]:
    """The mix that earns most, had the arms these means."""
    mix = {name: floor for name, (floor, _) in rooms.items()}
    left = 1.0 - sum(mix.values())
    for name in sorted(means, key=lambda name: -means[name]):
        if left <= 0.0:
            break
        floor, cap = rooms[name]
        part = min(cap - floor, left)
        mix[name] += part
        left -= part
    return mix
