"""What is learned from a finished phase: rewards, and each algorithm's statistics of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace

from supervisor.core.bandit import exp3s, rewards
from supervisor.core.bandit.leaving import count_elsewhere, count_failed
from supervisor.core.bandit.state import ArmState, BanditState, Discounted
from supervisor.core.policy import Algorithm, Policy
from trainer.contract.wire import ArmResult, Phase, Step


def count_steps(state: BanditState, steps: Iterable[Step]) -> BanditState:
    """Count the pulls that these steps served, each somewhere."""
    served: dict[str, int] = {}
    last: dict[str, int] = {}
    for step in steps:
        arm = step.arm
        if "=" in arm:
            for part in arm.split(" "):
                name, _, pulls = part.partition("=")
                served[name] = served.get(name, 0) + int(pulls)
                last[name] = step.step
        else:
            served[arm] = served.get(arm, 0) + 1
            last[arm] = step.step
    arms = tuple(
        replace(arm, served=arm.served + served[arm.name], last_step=last[arm.name])
        if arm.name in served
        else arm
        for arm in state.arms
    )
    state = replace(state, arms=arms)
    here = {arm.name for arm in arms}
    # In the order in which they came, so that a fold in other pieces comes to the same state.
    elsewhere = {name: pulls for name, pulls in served.items() if name not in here}
    return count_elsewhere(state, elsewhere, last) if elsewhere else state


def learn(state: BanditState, policy: Policy, phase: Phase) -> BanditState:
    """The state after ``phase``, without the decision that is due then."""
    results = {result.arm: result for result in phase.arms}
    here = {arm.name for arm in state.arms}
    raw = {
        arm.name: value
        for arm in state.arms
        if arm.name in results
        and (value := rewards.raw(policy, arm, results[arm.name])) is not None
    }
    window = (*state.rewards, *raw.values())[-rewards.SCALER_WINDOW :]
    low, high = rewards.quantiles(window)
    earned = {
        name: reward
        for name, value in raw.items()
        if (reward := rewards.scaled(value, low, high)) is not None
    }
    kept = policy.discount ** (phase.last - phase.first + 1)
    arms = tuple(
        _learn(arm, results.get(arm.name), earned.get(arm.name), kept, policy.ema_alpha)
        for arm in state.arms
    )
    if policy.algorithm is Algorithm.EXP3S:
        arms = exp3s.learn(arms, policy, _estimates(phase, results, earned))
    return replace(
        state,
        arms=arms,
        retired=count_failed(
            state.retired, {name: r for name, r in results.items() if name not in here}
        ),
        rewards=window,
        phases=tuple(order for order in state.phases if order.phase > phase.phase),
        finished=phase.phase,
        decided=max(state.decided, phase.phase),
        step=phase.last,
    )


def _learn(
    arm: ArmState, result: ArmResult | None, reward: float | None, kept: float, alpha: float
) -> ArmState:
    sums = Discounted(*(kept * value for value in arm.discounted))
    if result is None:
        return replace(arm, discounted=sums)
    arm = _read(replace(arm, failed=arm.failed + result.failed, discounted=sums), result.epochs)
    if result.loss is None or not result.pulls:
        return arm
    loss = result.loss if arm.loss is None else arm.loss + alpha * (result.loss - arm.loss)
    if not math.isfinite(loss):
        loss = result.loss
    if reward is None:
        return replace(arm, loss=loss)
    pulls = result.pulls
    n = arm.n + pulls
    return replace(
        arm,
        loss=loss,
        n=n,
        mean=arm.mean + (reward - arm.mean) * pulls / n,
        ema=reward if not arm.n else arm.ema + alpha * (reward - arm.ema),
        discounted=Discounted(
            sums.pulls + pulls, sums.total + pulls * reward, sums.square + pulls * reward * reward
        ),
    )


def _read(arm: ArmState, epochs: float | None) -> ArmState:
    """The arm as its documents were read now; fewer epochs than before are a new count."""
    if epochs is None:
        return arm
    since = arm.epochs_from
    if since is None or arm.epochs is None or epochs < arm.epochs:
        since = (epochs, arm.served)
    return replace(arm, epochs=epochs, epochs_from=since)


def _estimates(
    phase: Phase, results: Mapping[str, ArmResult], earned: Mapping[str, float]
) -> dict[str, float]:
    """Importance-weighted rewards in [-1, 1]: r pulls / (all pulls) / p for each arm pulled."""
    total = sum(result.pulls for result in results.values())
    weights = dict(phase.weights)
    return {
        name: (2.0 * reward - 1.0) * results[name].pulls / total / weights[name]
        for name, reward in earned.items()
        if total and weights.get(name, 0.0) > 0.0
    }
