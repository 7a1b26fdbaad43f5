"""The bandit over arms: what is known of each, and which mix the next phases get.

Phase k+2 is decided from the reports up to the end of phase k and nothing else, by a generator
that is part of the state, so the same reports always give the same mix.

UCB1: score = mean + C sqrt(ln N / n) over rewards in [0, 1] (Auer, Cesa-Bianchi, Fischer 2002).
The reward is learning progress, the arm's smoothed loss before the phase minus its mean loss in
it, scaled by the 20 % and 80 % quantiles of recent rewards (Graves et al. 2017); raw rewards
would drown the exploration term.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from supervisor.core.bounds import project
from supervisor.core.policy import Algorithm, Policy, Unit
from trainer.contract.wire import ArmResult, Phase, PhaseOrder, Step

AHEAD = 2
SCALER_WINDOW = 128


@dataclass(frozen=True, slots=True)
class ArmState:
    """Statistics of one arm under the policy in force.

    ``served`` and ``failed`` count pulls; ``n`` pulls have a reward, ``mean`` and ``ema`` are of
    those rewards in [0, 1]; ``loss`` is the smoothed loss, or None before the first.
    """

    name: str
    served: int = 0
    failed: int = 0
    n: int = 0
    mean: float = 0.0
    ema: float = 0.0
    loss: float | None = None
    last_step: int = 0

    @property
    def requested(self) -> int:
        """Pulls asked for: those served and those that failed."""
        return self.served + self.failed


@dataclass(frozen=True, slots=True)
class Retired:
    """An arm that holds no weight any more, with its numbers kept."""

    arm: ArmState
    why: str
    step: int


@dataclass(frozen=True, slots=True)
class BanditState:
    """Everything the next decision depends on.

    ``phases`` are those decided and not yet reported finished; ``decided`` numbers the last of
    them. ``rewards`` is the scaler's window of raw rewards; ``generator`` a 64-bit state.
    """

    policy: int
    digest: str
    arms: tuple[ArmState, ...]
    phases: tuple[PhaseOrder, ...] = ()
    decided: int = 0
    finished: int = 0
    rewards: tuple[float, ...] = ()
    generator: int = 0
    retired: tuple[Retired, ...] = ()


def fresh(
    policy: Policy, live: frozenset[str], seed: int, before: BanditState | None = None
) -> BanditState:
    """An empty state of ``policy`` over the arms that are there, its first phases decided.

    Phases are numbered on from those decided ``before`` it, so that no number means two phases to
    a trainer that resumes in the middle of one.
    """
    arms = tuple(ArmState(arm.name) for arm in policy.arms if arm.name in live)
    last = before.decided if before else 0
    state = BanditState(
        policy.number,
        policy.digest,
        arms,
        decided=last,
        finished=last,
        generator=seed & _MASK,
    )
    return _fill(state, policy)


def reconcile(
    state: BanditState, policy: Policy, live: frozenset[str], step: int
) -> tuple[BanditState, tuple[Retired, ...]]:
    """Drop arms that policy or sources no longer have; say which and why.

    A zombie (in the state only) or unavailable arm holds no weight and does not count in the
    exploration total; an arm that the policy has and the state has not starts empty. Phases
    already decided lose the weight of what left and are otherwise kept.
    """
    known = {arm.name for arm in policy.arms}
    gone = tuple(
        Retired(arm, "unavailable" if arm.name in known else "zombie", step)
        for arm in state.arms
        if arm.name not in known or arm.name not in live
    )
    kept = tuple(arm for arm in state.arms if arm.name in known and arm.name in live)
    new = tuple(
        ArmState(arm.name)
        for arm in policy.arms
        if arm.name in live and all(arm.name != other.name for other in kept)
    )
    if not gone and not new:
        return state, ()
    changed = replace(state, arms=kept + new, retired=state.retired + gone)
    phases = tuple(_without(phase, changed, policy) for phase in changed.phases)
    return replace(changed, phases=phases), gone


def count_steps(state: BanditState, steps: Iterable[Step]) -> BanditState:
    """Count the pulls that these steps served."""
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
    return replace(state, arms=arms)


def finish_phase(state: BanditState, policy: Policy, phase: Phase) -> BanditState:
    """Learn from a finished phase and decide the next one that is due."""
    rewards = state.rewards
    results = {result.arm: result for result in phase.arms}
    raw = {
        arm.name: arm.loss - result.loss
        for arm in state.arms
        if (result := results.get(arm.name)) and result.loss is not None and arm.loss is not None
        if math.isfinite(arm.loss - result.loss)  # of the largest floats, it is not
    }
    rewards = (*rewards, *raw.values())[-SCALER_WINDOW:]
    low, high = _quantiles(rewards)
    arms = tuple(
        _learn(arm, results[arm.name], _scaled(raw.get(arm.name), low, high), policy.ema_alpha)
        if arm.name in results
        else arm
        for arm in state.arms
    )
    left = tuple(order for order in state.phases if order.phase > phase.phase)
    learned = replace(
        state,
        arms=arms,
        rewards=rewards,
        phases=left,
        finished=phase.phase,
        decided=max(state.decided, phase.phase),
    )
    return _fill(learned, policy)


def scores(state: BanditState, policy: Policy) -> dict[str, float]:
    """UCB1 score of each arm; infinite before its first reward."""
    total = sum(arm.n for arm in state.arms)
    return {
        arm.name: arm.mean + policy.exploration * math.sqrt(math.log(max(total, 1)) / arm.n)
        if arm.n
        else math.inf
        for arm in state.arms
    }


def _fill(state: BanditState, policy: Policy) -> BanditState:
    while len(state.phases) < AHEAD and state.arms:
        state = _decide(state, policy)
    return state


def _decide(state: BanditState, policy: Policy) -> BanditState:
    generator = state.generator
    if policy.algorithm is Algorithm.STATIC:
        weights = {arm.name: arm.weight for arm in policy.arms}
        steps = policy.phase_max
    else:
        ranked = scores(state, policy)
        order = sorted(ranked, key=lambda name: (-ranked[name], name))
        focus, rest = order[: policy.focus], order[policy.focus :]
        if rest:
            generator, chosen = _draw(generator, len(rest))
            focus = [*focus, rest[chosen]]
        weights = {
            name: policy.focus_weight if name in focus else policy.other_weight for name in ranked
        }
        generator, extra = _draw(generator, policy.phase_max - policy.phase_min + 1)
        steps = policy.phase_min + extra
    names = tuple(arm.name for arm in state.arms)
    shares = _bounded(policy, names, tuple(weights[name] for name in names))
    number = state.decided + 1
    phase = PhaseOrder(number, steps, tuple(zip(names, shares, strict=True)))
    return replace(state, phases=(*state.phases, phase), decided=number, generator=generator)


def _bounded(
    policy: Policy, names: tuple[str, ...], weights: tuple[float, ...]
) -> tuple[float, ...]:
    bounds = {arm.name: arm for arm in policy.arms}
    floors = [bounds[name].floor for name in names]
    caps = [bounds[name].cap for name in names]
    if policy.unit is Unit.SHARE:
        return project(weights, floors, caps)
    final = [min(cap, max(floor, w)) for w, floor, cap in zip(weights, floors, caps, strict=True)]
    return tuple(weight / sum(final) for weight in final)


def _without(phase: PhaseOrder, state: BanditState, policy: Policy) -> PhaseOrder:
    old = dict(phase.weights)
    names = tuple(arm.name for arm in state.arms)
    weights = tuple(old.get(name, 0.0) for name in names)
    total = sum(weights)
    if policy.unit is Unit.WEIGHT and total > 0:
        # The bounds are of weights and were applied to them: what is left keeps its proportions.
        shares = tuple(weight / total for weight in weights)
    else:
        shares = _bounded(policy, names, weights if total > 0 else (1.0,) * len(names))
    return phase._replace(weights=tuple(zip(names, shares, strict=True)))


def _learn(arm: ArmState, result: ArmResult, reward: float | None, alpha: float) -> ArmState:
    arm = replace(arm, failed=arm.failed + result.failed)
    if result.loss is None or not result.pulls:
        return arm
    loss = result.loss if arm.loss is None else arm.loss + alpha * (result.loss - arm.loss)
    if not math.isfinite(loss):
        loss = result.loss
    if reward is None:
        return replace(arm, loss=loss)
    n = arm.n + result.pulls
    return replace(
        arm,
        loss=loss,
        n=n,
        mean=arm.mean + (reward - arm.mean) * result.pulls / n,
        ema=reward if not arm.n else arm.ema + alpha * (reward - arm.ema),
    )


def _quantiles(values: tuple[float, ...]) -> tuple[float, float]:
    if not values:
        return 0.0, 0.0
    ordered = sorted(values)
    last = len(ordered) - 1
    return ordered[round(0.2 * last)], ordered[round(0.8 * last)]


def _scaled(value: float | None, low: float, high: float) -> float | None:
    if value is None:
        return None
    if high <= low:
        return 0.5
    return min(1.0, max(0.0, (value - low) / (high - low)))


_MASK = (1 << 64) - 1


def _draw(state: int, below: int) -> tuple[int, int]:
    """Advance a SplitMix64 generator (Steele, Lea, Flood 2014); a draw from range(below)."""
    state = (state + 0x9E3779B97F4A7C15) & _MASK
    z = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    z ^= z >> 31
    return state, z * below >> 64
