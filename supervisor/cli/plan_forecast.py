"""What a plan says of the future: shares, what bounds them and its price, epochs, reward, cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from supervisor.cli.plan_record import Known
from supervisor.config import Config
from supervisor.core import off_policy
from supervisor.core.epochs import forced, limit_of, per_pull, to_the_end
from supervisor.core.expected_shares import UNKNOWN, Expected, expected
from supervisor.core.off_policy import Estimate, estimate
from supervisor.core.policy import Policy, Unit
from supervisor.core.prices import Binding, prices
from trainer.contract.wire import Phase

_STRAIN = {Binding.FLOOR: 0.5, Binding.CAP: 2.0, Binding.NONE: 1.0}


def forecast(config: Config, after: Policy, known: Known, step: int) -> dict[str, Any]:
    """The facts of a pivot to ``after`` at ``step``, as far as the run lets them be known."""
    log = off_policy.logged(after, known.phases)
    means = off_policy.means(log)
    seed = config.seed + after.number
    shares = expected(after, config.live, seed, known.bandit, step, means)
    if shares is None:
        return {"shares": None, "bounds": None, "epochs": None, "reward": None}
    reward = (
        estimate(shares.settled, log) if log else "no phase was reported under the policy in force"
    )
    return {
        "shares": {
            "first": shares.first,
            "settled": shares.settled,
            "assumed": list(shares.assumed),
            "means": means,
        },
        "bounds": _bounds(after, shares, means),
        "epochs": _epochs(config, after, known, shares, step),
        "reward": _reward(reward, after, log),
    }


def _bounds(after: Policy, shares: Expected, means: Mapping[str, float]) -> dict[str, Any] | None:
    """Which bound holds each arm where the policy settles, and what all of them cost per step."""
    if after.unit is Unit.WEIGHT:
        return None
    decision, mix = shares.decision, shares.settled
    names = list(mix)
    floors = [decision.floors[name] for name in names]
    caps = [decision.caps[name] for name in names]
    held = {name: _binding(mix[name], decision.floors[name], decision.caps[name]) for name in names}
    weights = [mix[name] * _STRAIN[held[name]] for name in names]
    found = prices(weights, floors, caps, [means.get(name, UNKNOWN) for name in names])
    return {
        "binding": {
            name: {"bound": str(bound), "price": price if name in means else None}
            for (name, bound), price in zip(held.items(), found.prices, strict=True)
            if bound is not Binding.NONE
        },
        "floor_tax": found.floor_tax,
        "cap_tax": found.cap_tax,
    }


def _binding(share: float, floor: float, cap: float) -> Binding:
    """A mean over phases is at a bound where each of them was, but for rounding."""
    near = 1e-9
    if floor > 0.0 and share <= floor + near:
        return Binding.FLOOR
    return Binding.CAP if cap < 1.0 and share >= cap - near else Binding.NONE


def _epochs(
    config: Config, after: Policy, known: Known, shares: Expected, step: int
) -> dict[str, Any] | None:
    """Epochs of each source at the end of the run, and the sources that a floor over-reads."""
    bandit = known.bandit
    arms = [] if bandit is None else [*bandit.arms, *(r.arm for r in bandit.retired)]
    rates = {arm.name: per_pull(arm) for arm in arms}
    if not any(rates.values()):
        return None
    pulls = max(0, config.steps - step) * _pulls_a_step(known.phases)
    so_far = {arm.name: arm.epochs for arm in arms}
    reading = to_the_end(shares.settled, so_far, rates, pulls)
    over = forced(after, shares.settled, so_far, rates, pulls)
    return {
        "end": config.steps,
        "limit": limit_of(after),
        "sources": [r._asdict() for r in reading],
        "over_read": [r._asdict() for r in over],
    }


def _pulls_a_step(phases: Sequence[Phase]) -> float:
    """One where a step draws from one arm; as many as it has sequences where each draws its own."""
    steps = sum(phase.last - phase.first + 1 for phase in phases)
    pulls = sum(result.pulls for phase in phases for result in phase.arms)
    return pulls / steps if pulls and steps else 1.0


def over_read(facts: Mapping[str, Any]) -> Iterable[str]:
    """A line for each source that the bounds alone have read more often than ``max_epochs``."""
    epochs = facts.get("epochs") or {}
    for reading in epochs.get("over_read", ()):
        yield (
            f"the bounds give {reading['arm']} a share of {reading['share']:.4g} at least, so it "
            f"is read {reading['at_end']:.1f} times by step {epochs['end']}; max_epochs is "
            f"{epochs['limit']:g}"
        )


def _reward(
    found: Estimate | str, after: Policy, log: tuple[off_policy.Logged, ...]
) -> dict[str, Any]:
    facts: dict[str, Any] = {"kind": str(after.reward), "phases_known": len(log)}
    if isinstance(found, str):
        return {**facts, "estimate": None, "why": found}
    pulls = sum(n for phase in log for n, _ in phase.earned.values())
    total = sum(n * reward for phase in log for n, reward in phase.earned.values())
    return {
        **facts,
        "estimate": found.value,
        "low": found.low,
        "high": found.high,
        "plain": found.plain,
        "phases": found.phases,
        "pulls": found.pulls,
        "effective": found.effective,
        "now": total / pulls if pulls else None,
    }
