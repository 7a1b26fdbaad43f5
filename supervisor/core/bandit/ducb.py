"""Discounted UCB: the best arm by recent rewards gets all that the bounds leave.

score = mean + C sqrt(ln N / n), with mean, N and n over pulls that count less the older they are
(Garivier and Moulines 2011, with B = 1 and C = 2 sqrt(xi)).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import groupby

from supervisor.core.bandit.proposal import Proposal
from supervisor.core.bandit.state import ArmState
from supervisor.core.policy import Policy


def propose(
    arms: Sequence[ArmState], policy: Policy, penalties: Mapping[str, float], generator: int
) -> Proposal:
    """Arms in the order of their scores times penalties; the first ones weigh 1, others 0."""
    total = sum(arm.discounted.pulls for arm in arms)
    bonus, score = {}, {}
    for arm in arms:
        count = arm.discounted.pulls
        known = arm.n > 0 and count > 0.0
        spread = policy.exploration * math.sqrt(math.log(max(total, 1.0)) / count) if known else 0.0
        bonus[arm.name] = spread if known else math.inf
        mean = arm.discounted.total / count if known else 0.0
        # A penalty of 0 wins over a bonus without bounds, whose product is no number.
        weight = penalties[arm.name]
        score[arm.name] = (mean + bonus[arm.name]) * weight if weight else 0.0
    ranked = sorted(score, key=lambda name: (-score[name], name))
    order = tuple(tuple(group) for _, group in groupby(ranked, key=score.__getitem__))
    best = order[0] if order else ()
    weights = {name: float(name in best) for name in score}
    return Proposal(weights, generator, score, bonus, order)
