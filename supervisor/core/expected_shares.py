"""Which shares a policy will give: what it decides first, and where it settles.

Where it settles is reckoned from an empty bandit, with every arm going on to earn the mean reward
that is known of it, pulled as often as its share says. It is no forecast of rewards, which change
as the model learns; it says what the policy makes of what is known now.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import fsum

from supervisor.core.bandit import (
    ArmState,
    BanditState,
    Decision,
    Discounted,
    decide_phase,
    exp3s,
    fresh,
)
from supervisor.core.policy import Algorithm, Policy

_PHASES = 240
_SETTLED = 60  # the last of them, over which the mean is taken
UNKNOWN = 0.5  # the mean reward of an arm of which nothing is known: the middle of [0, 1]


@dataclass(frozen=True, slots=True)
class Expected:
    """Shares of the first phases, and those that the policy settles on; by arm, each sums to 1.

    ``decision`` is the last one reckoned, which says what bounds it. ``assumed`` are arms of
    which no reward is known: they are taken to earn ``UNKNOWN``.
    """

    first: dict[str, float]
    settled: dict[str, float]
    decision: Decision
    assumed: tuple[str, ...]


def expected(
    policy: Policy,
    live: frozenset[str],
    seed: int,
    before: BanditState | None,
    step: int,
    means: Mapping[str, float],
) -> Expected | None:
    """Of a policy that begins after ``step``; None where none of its arms is there."""
    state = fresh(policy, live, seed, before, step)
    if not state.phases:
        return None
    first = _mean([(order.steps, dict(order.weights)) for order in state.phases])
    earned = {arm.name: means.get(arm.name, UNKNOWN) for arm in state.arms}
    # The warm-up is passed over: what is asked for is where the policy comes to afterwards.
    start = max(step, policy.curriculum_warmup_steps)
    state = replace(state, phases=(), step=start)
    seen: list[tuple[int, dict[str, float]]] = []
    while True:
        state, decision = decide_phase(state, policy)
        order = decision.phase
        seen.append((order.steps, dict(order.weights)))
        if len(seen) >= (_SETTLED if policy.algorithm is Algorithm.STATIC else _PHASES):
            break
        state = _earn(state, policy, decision, earned)
    settled = _mean(seen[-_SETTLED:])
    assumed = tuple(name for name in earned if name not in means)
    return Expected(first, settled, decision, assumed)


def _earn(
    state: BanditState, policy: Policy, decision: Decision, earned: Mapping[str, float]
) -> BanditState:
    """The state after the phase, each arm pulled by its share and paid its mean."""
    order = decision.phase
    kept = policy.discount**order.steps
    shares = dict(order.weights)
    arms = tuple(_paid(arm, kept, shares[arm.name] * order.steps, earned) for arm in state.arms)
    if policy.algorithm is Algorithm.EXP3S:
        pulled = {name: 2.0 * earned[name] - 1.0 for name, share in shares.items() if share > 0.0}
        arms = exp3s.learn(arms, policy, pulled)
    return replace(state, arms=arms, phases=(), step=state.step + order.steps)


def _paid(arm: ArmState, kept: float, pulls: float, earned: Mapping[str, float]) -> ArmState:
    mean = earned[arm.name]
    sums = arm.discounted
    return replace(
        arm,
        n=arm.n + round(pulls),
        mean=mean,
        discounted=Discounted(
            kept * sums.pulls + pulls,
            kept * sums.total + pulls * mean,
            kept * sums.square + pulls * mean,  # rewards of 0 and 1: as wide as they can be
        ),
    )


def _mean(phases: list[tuple[int, dict[str, float]]]) -> dict[str, float]:
    steps = sum(length for length, _ in phases)
    names = phases[-1][1]
    return {
        name: fsum(length * mix.get(name, 0.0) for length, mix in phases) / steps for name in names
    }
