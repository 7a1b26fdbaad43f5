"""UCB1 with focus sets: the best arms by upper confidence bound weigh more than the others.

score = mean + C sqrt(ln N / n) over rewards in [0, 1] (Auer, Cesa-Bianchi, Fischer 2002). The
``focus`` best and one by chance weigh ``focus_weight``, all others ``other_weight``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from supervisor.core.bandit.chance import draw
from supervisor.core.bandit.proposal import Proposal
from supervisor.core.bandit.state import ArmState
from supervisor.core.policy import Policy


def propose(
    arms: Sequence[ArmState], policy: Policy, penalties: Mapping[str, float], generator: int
) -> Proposal:
    """Focus weights times penalties."""
    bonus = bonuses(arms, policy.exploration)
    score = {arm.name: arm.mean + bonus[arm.name] for arm in arms}
    ranked = sorted(score, key=lambda name: (-score[name], name))
    focus, rest = ranked[: policy.focus], ranked[policy.focus :]
    if rest:
        generator, chosen = draw(generator, len(rest))
        focus = [*focus, rest[chosen]]
    weights = {
        name: (policy.focus_weight if name in focus else policy.other_weight) * penalties[name]
        for name in score
    }
    return Proposal(weights, generator, score, bonus)


def bonuses(arms: Sequence[ArmState], exploration: float) -> dict[str, float]:
    """C sqrt(ln N / n) of each arm; infinite before its first reward."""
    total = sum(arm.n for arm in arms)
    return {
        arm.name: exploration * math.sqrt(math.log(max(total, 1)) / arm.n) if arm.n else math.inf
        for arm in arms
    }
