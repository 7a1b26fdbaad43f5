"""The decision of a phase, in its one order: mask, proposal, penalty, floor, cap, projection.

Phase k+2 is decided from the reports up to the end of phase k and nothing else, by a generator
that is part of the state, so the same reports always give the same mix.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import assert_never

from supervisor.core.bandit import ducb, exp3s, static, thompson, ucb1
from supervisor.core.bandit.chance import draw
from supervisor.core.bandit.proposal import Proposal
from supervisor.core.bandit.state import BanditState
from supervisor.core.bounds import project, project_euclidean
from supervisor.core.policy import Algorithm, Arm, Distance, Policy, Unit, problem_of
from trainer.contract.wire import PhaseOrder

AHEAD = 2
_LARGE = 1e300  # a sum of weights below it is finite


@dataclass(frozen=True, slots=True)
class Decision:
    """How a phase came to be: each mapping has a value for every arm of the state.

    ``first`` is the step that it is expected to begin with. ``masked`` arms take no part in the
    curriculum's warm-up. ``floors`` and ``caps`` are those in force for this decision.
    """

    phase: PhaseOrder
    first: int
    algorithm: Algorithm
    masked: frozenset[str]
    penalties: dict[str, float]
    proposal: Proposal
    floors: dict[str, float]
    caps: dict[str, float]
    before: int
    after: int


def fill(state: BanditState, policy: Policy) -> BanditState:
    """Decide until ``AHEAD`` phases stand; without arms nothing is decided."""
    while len(state.phases) < AHEAD and state.arms:
        state, _ = decide_phase(state, policy)
    return state


def decide_phase(state: BanditState, policy: Policy) -> tuple[BanditState, Decision]:
    """Decide the next phase; the state must have arms."""
    first = state.step + sum(order.steps for order in state.phases) + 1
    masked = waiting(state, policy, first)
    taking_part = [arm for arm in state.arms if arm.name not in masked]
    penalties = {arm.name: penalty(policy, arm.epochs) for arm in state.arms}
    algorithm = Algorithm.STATIC if state.frozen else policy.algorithm
    match algorithm:
        case Algorithm.STATIC:
            penalties = dict.fromkeys(penalties, 1.0)  # what is configured is what is wanted
            proposal = static.propose(taking_part, policy, state.generator)
        case Algorithm.UCB1:
            proposal = ucb1.propose(taking_part, policy, penalties, state.generator)
        case Algorithm.DUCB:
            proposal = ducb.propose(taking_part, policy, penalties, state.generator)
        case Algorithm.THOMPSON:
            proposal = thompson.propose(taking_part, policy, penalties, state.generator)
        case Algorithm.EXP3S:
            proposal = exp3s.propose(taking_part, policy, penalties, state.generator)
        case _:
            assert_never(algorithm)
    generator, steps = _length(policy, algorithm, proposal.generator)
    if masked:  # the warm-up ends at its very step
        steps = min(steps, policy.curriculum_warmup_steps - first + 1)
    names = tuple(arm.name for arm in state.arms)
    floors, caps = bounds_of(policy, names, masked)
    shares = _bounded(policy, names, proposal, floors, caps)
    number = state.decided + 1
    phase = PhaseOrder(number, steps, tuple(zip(names, shares, strict=True)))
    decision = Decision(
        phase,
        first,
        algorithm,
        masked,
        penalties,
        proposal,
        floors,
        caps,
        before=state.generator,
        after=generator,
    )
    state = replace(state, phases=(*state.phases, phase), decided=number, generator=generator)
    return state, decision


def penalty(policy: Policy, epochs: float | None) -> float:
    """What an arm's weight is multiplied by for having been read ``epochs`` times.

    1 up to ``free_epochs``, then exp(-(epochs - free_epochs) / epoch_decay): up to four epochs
    cost almost nothing, returns fade near sixteen (Muennighoff et al. 2023).
    """
    if epochs is None or not policy.epoch_decay:
        return 1.0
    return math.exp(-max(0.0, epochs - policy.free_epochs) / policy.epoch_decay)


def bounds_of(
    policy: Policy, names: Sequence[str], masked: frozenset[str] = frozenset()
) -> tuple[dict[str, float], dict[str, float]]:
    """Floors and caps of these arms; those of a masked one are 0."""
    arms: dict[str, Arm] = {arm.name: arm for arm in policy.arms}
    floors = {name: 0.0 if name in masked else arms[name].floor for name in names}
    caps = {name: 0.0 if name in masked else arms[name].cap for name in names}
    return floors, caps


def bounded(
    policy: Policy,
    names: tuple[str, ...],
    weights: tuple[float, ...],
    masked: frozenset[str] = frozenset(),
) -> tuple[float, ...]:
    """Shares for ``weights`` within the policy's bounds; those of ``masked`` arms are 0."""
    floors, caps = bounds_of(policy, names, masked)
    proposal = Proposal(dict(zip(names, weights, strict=True)), 0)
    return _bounded(policy, names, proposal, floors, caps)


def waiting(state: BanditState, policy: Policy, first: int) -> frozenset[str]:
    """The arms that wait, in a phase from step ``first`` on, for the end of the warm-up.

    Nobody waits where the sources of the warm-up alone could not satisfy the bounds: some of
    them have gone since the policy was accepted.
    """
    if first > policy.curriculum_warmup_steps or not policy.curriculum_warmup_sources:
        return frozenset()
    names = frozenset(arm.name for arm in state.arms)
    present = names & frozenset(policy.curriculum_warmup_sources)
    return frozenset() if problem_of(policy, present) else names - present


def _length(policy: Policy, algorithm: Algorithm, generator: int) -> tuple[int, int]:
    if algorithm is Algorithm.STATIC:
        return generator, policy.phase_max
    generator, extra = draw(generator, policy.phase_max - policy.phase_min + 1)
    return generator, policy.phase_min + extra


def _bounded(
    policy: Policy,
    names: tuple[str, ...],
    proposal: Proposal,
    floors: dict[str, float],
    caps: dict[str, float],
) -> tuple[float, ...]:
    weights = [proposal.weights.get(name, 0.0) for name in names]
    if policy.unit is Unit.SHARE:
        if proposal.order:
            poured = _pour(proposal.order, floors, caps)
            return tuple(poured[name] for name in names)
        return _projected(policy, weights, [floors[n] for n in names], [caps[n] for n in names])
    final = [
        min(caps[name], max(floors[name], weight))
        for name, weight in zip(names, weights, strict=True)
    ]
    if not any(final):  # floors of 0, and all weight on arms whose cap is 0
        final = [caps[name] for name in names]
    final = _summable(final)
    total = sum(final)
    return tuple(weight / total for weight in final)


def _projected(
    policy: Policy, weights: list[float], floors: list[float], caps: list[float]
) -> tuple[float, ...]:
    if policy.projection is Distance.KL:
        return project(weights, floors, caps)
    weights = _summable(weights)
    total = math.fsum(weights)  # distances mean something between shares only
    points = [weight / total for weight in weights] if total else weights
    return project_euclidean(points, floors, caps)


def _summable(weights: list[float]) -> list[float]:
    """The weights, or, where no float holds their sum, parts of the largest."""
    largest = max(weights)
    if largest < _LARGE:
        return weights
    return [weight / largest for weight in weights]


def _pour(
    order: tuple[tuple[str, ...], ...], floors: dict[str, float], caps: dict[str, float]
) -> dict[str, float]:
    """Shares of the largest score within the bounds: what the floors leave, to the best first.

    Arms of one group get as much as each other, as far as their caps let them.
    """
    shares = dict(floors)
    for group in order:
        names = sorted(group, key=lambda name: caps[name] - floors[name])
        for at, name in enumerate(names):
            left = 1.0 - math.fsum(shares.values())
            part = left / (len(names) - at)
            shares[name] = min(caps[name], max(shares[name], shares[name] + part))
    return shares
