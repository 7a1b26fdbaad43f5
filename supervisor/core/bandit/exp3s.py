"""EXP3.S on the bounded simplex: multiplicative weights, projected onto floors and caps.

Mirror descent with the KL projection keeps the regret bound of EXP3 against the best fixed mix
within the bounds; a share of every weight is spread over all arms at each step, so that a change
of the best arm is followed (Auer et al. 2002; Herbster and Warmuth 2001; Graves et al. 2017).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from supervisor.core.bandit.proposal import Proposal
from supervisor.core.bandit.state import ArmState
from supervisor.core.policy import Policy

_LEAST = -700.0  # of a log weight: what exp still tells from 0


def propose(
    arms: Sequence[ArmState], policy: Policy, penalties: Mapping[str, float], generator: int
) -> Proposal:
    """The iterate, mixed with equal shares, times penalties."""
    weights = _mixed(iterate(arms), policy.mixing)
    return Proposal(
        {name: weight * penalties[name] for name, weight in weights.items()}, generator, weights
    )


def learn(
    arms: tuple[ArmState, ...], policy: Policy, estimates: Mapping[str, float]
) -> tuple[ArmState, ...]:
    """The arms after a step along the estimated rewards (importance-weighted, in units of 1)."""
    weights = _mixed(iterate(arms), policy.mixing)
    logs = {
        name: math.log(weight) + policy.step_size * estimates.get(name, 0.0)
        for name, weight in weights.items()
    }
    top = max(logs.values(), default=0.0)
    return tuple(replace(arm, log_weight=max(_LEAST, logs[arm.name] - top)) for arm in arms)


def iterate(arms: Sequence[ArmState]) -> dict[str, float]:
    """Shares that sum to 1; an arm that is new among others gets as much as one of them."""
    known = [math.exp(arm.log_weight) for arm in arms if arm.log_weight is not None]
    usual = sum(known) / len(known) if known else 1.0
    weights = {
        arm.name: usual if arm.log_weight is None else math.exp(arm.log_weight) for arm in arms
    }
    total = math.fsum(weights.values())
    return {name: weight / total for name, weight in weights.items()}


def _mixed(shares: Mapping[str, float], mixing: float) -> dict[str, float]:
    return {name: (1.0 - mixing) * s + mixing / len(shares) for name, s in shares.items()}
