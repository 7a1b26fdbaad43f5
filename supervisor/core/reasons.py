"""What made each arm's share of a phase: score, bonus, weight, penalty, the bound and its price."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import fsum

from supervisor.core.bandit import ArmState, BanditState, Decision
from supervisor.core.policy import Policy, Unit
from supervisor.core.prices import Binding, prices

_NEAR = 1e-12  # what is drawn within the bounds comes to a bound but for rounding
_BELOW, _ABOVE = 0.5, 2.0  # a weight that strains a floor, and one that strains a cap


@dataclass(frozen=True, slots=True)
class Reason:
    """One arm in a decision.

    ``score`` and ``bonus`` are the algorithm's own (None where it has none; infinite before the
    first reward), ``weight`` what it proposed with ``penalty`` in it, ``floor`` and ``cap`` those
    in force then, ``binding`` the one that holds the share. ``price`` is the expected reward per
    step that a unit of this bound costs, None where nothing is known of the rewards. ``masked``
    arms waited for the end of the curriculum's warm-up. ``share`` is what was decided, ``mean``
    the mean reward known at that time.
    """

    arm: str
    score: float | None
    bonus: float | None
    weight: float
    penalty: float
    floor: float
    cap: float
    masked: bool
    binding: Binding
    price: float | None
    share: float
    n: int
    mean: float | None
    epochs: float | None


def reasons(state: BanditState, policy: Policy, decision: Decision) -> tuple[Reason, ...]:
    """Every arm of the state, in the order of the decided weights."""
    shares = dict(decision.phase.weights)
    binding = bindings(policy, decision, shares)
    cost = _costs(state, policy, decision, shares, binding)
    proposal = decision.proposal
    return tuple(
        Reason(
            arm=arm.name,
            score=proposal.scores.get(arm.name),
            bonus=proposal.bonuses.get(arm.name),
            weight=proposal.weights.get(arm.name, 0.0),
            penalty=decision.penalties[arm.name],
            floor=decision.floors[arm.name],
            cap=decision.caps[arm.name],
            masked=arm.name in decision.masked,
            binding=binding[arm.name],
            price=cost.get(arm.name),
            share=shares[arm.name],
            n=arm.n,
            mean=_mean(arm),
            epochs=arm.epochs,
        )
        for arm in state.arms
    )


def multiplier(decision: Decision, reasons: Sequence[Reason]) -> float | None:
    """What the projection multiplied the weights by that no bound holds; None where none is."""
    free = [r for r in reasons if r.binding is Binding.NONE and not r.masked and r.weight > 0.0]
    if decision.proposal.order or not free:
        return None
    return fsum(r.share for r in free) / fsum(r.weight for r in free)


def bindings(policy: Policy, decision: Decision, shares: Mapping[str, float]) -> dict[str, Binding]:
    """Which bound holds each arm: a share at it, or a weight beyond it where it bounds weights."""
    weights = decision.proposal.weights
    found = {}
    for name, share in shares.items():
        floor, cap = decision.floors[name], decision.caps[name]
        value = share if policy.unit is Unit.SHARE else weights.get(name, 0.0)
        bound = Binding.NONE
        if name not in decision.masked:
            if value <= floor + _NEAR and floor > 0.0:
                bound = Binding.FLOOR
            elif value >= cap - _NEAR and (policy.unit is Unit.WEIGHT or cap < 1.0):
                bound = Binding.CAP
        found[name] = bound
    return found


def _costs(
    state: BanditState,
    policy: Policy,
    decision: Decision,
    shares: Mapping[str, float],
    binding: Mapping[str, Binding],
) -> dict[str, float]:
    """Prices at these shares, whichever way they were found, where every arm has a reward."""
    arms = [arm for arm in state.arms if arm.name not in decision.masked]
    if policy.unit is Unit.WEIGHT or not arms or any(not arm.n for arm in arms):
        return {}
    strain = {Binding.FLOOR: _BELOW, Binding.CAP: _ABOVE, Binding.NONE: 1.0}
    weights = [shares[arm.name] * strain[binding[arm.name]] for arm in arms]
    floors = [decision.floors[arm.name] for arm in arms]
    caps = [decision.caps[arm.name] for arm in arms]
    found = prices(weights, floors, caps, [arm.mean for arm in arms])
    return {arm.name: price for arm, price in zip(arms, found.prices, strict=True)}


def _mean(arm: ArmState) -> float | None:
    return arm.mean if arm.n else None
