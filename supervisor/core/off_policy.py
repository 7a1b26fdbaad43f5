"""What another mix would have earned, judged from what happened under the mixes that were in force.

Each pull counts by how much likelier the other mix makes it: w = target share / share of its phase.
The self-normalised estimate is sum w r / sum w over all pulls, the plain one sum w r / pulls
(Horvitz, Thompson 1952; Swaminathan, Joachims 2015). Pulls of one phase share its weights, its
model and its mean loss, so phases are the units of the interval, by which it is linearised.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import fsum

from supervisor.core.bandit import ArmState
from supervisor.core.bandit.rewards import quantiles, raw, scaled
from supervisor.core.policy import Policy
from trainer.contract.wire import Phase

LEAST_PHASES = 30  # fewer are no ground for an interval
LEAST_EFFECTIVE = 30.0  # pulls, by the target's weights
_LEAST_SHARE = 1e-9  # below, a pull is not to be expected in any run
_Z = 1.959963984540054


@dataclass(frozen=True, slots=True)
class Logged:
    """One phase: the shares in force, and for each arm with a reward its pulls and their mean."""

    shares: Mapping[str, float]
    earned: Mapping[str, tuple[int, float]]


@dataclass(frozen=True, slots=True)
class Estimate:
    """Expected reward per pull of the target mix, with its 95 % interval ``low`` to ``high``.

    ``plain`` is the estimate without self-normalisation. ``phases`` are those with support for
    every arm of the target, of ``of`` in all; ``effective`` is how many pulls of the target's own
    these pulls are worth.
    """

    value: float
    low: float
    high: float
    plain: float
    phases: int
    of: int
    pulls: int
    effective: float


def logged(policy: Policy, reports: Iterable[Phase]) -> tuple[Logged, ...]:
    """Phases with the rewards that ``policy`` would have given, all on one scale from 0 to 1.

    The scale is that of the bandit (20 % and 80 % quantile), over all these phases at once.
    """
    losses: dict[str, float | None] = {}
    found: list[tuple[Phase, dict[str, tuple[int, float]]]] = []
    for report in reports:
        values = {}
        for result in report.arms:
            before = losses.get(result.arm)
            value = raw(policy, ArmState(result.arm, loss=before), result)
            if value is not None and result.pulls:
                values[result.arm] = (result.pulls, value)
            if result.loss is not None and math.isfinite(result.loss):
                step = 1.0 if before is None else policy.ema_alpha
                losses[result.arm] = (before or 0.0) + step * (result.loss - (before or 0.0))
        found.append((report, values))
    low, high = quantiles(tuple(value for _, values in found for _, value in values.values()))
    return tuple(
        Logged(
            dict(report.weights),
            {
                arm: (pulls, reward)
                for arm, (pulls, value) in values.items()
                if (reward := scaled(value, low, high)) is not None
            },
        )
        for report, values in found
    )


def means(phases: Iterable[Logged]) -> dict[str, float]:
    """The mean reward of each arm that was ever rewarded."""
    sums: dict[str, tuple[int, float]] = {}
    for phase in phases:
        for arm, (pulls, reward) in phase.earned.items():
            count, total = sums.get(arm, (0, 0.0))
            sums[arm] = (count + pulls, total + pulls * reward)
    return {arm: total / count for arm, (count, total) in sums.items() if count}


def estimate(target: Mapping[str, float], phases: Sequence[Logged]) -> Estimate | str:
    """The reward per pull under ``target`` shares, or why it cannot be estimated."""
    wanted = {arm: share for arm, share in target.items() if share > _LEAST_SHARE}
    never = [arm for arm in wanted if not any(arm in phase.earned for phase in phases)]
    if never:
        return f"no reward of {', '.join(never)} is known: never pulled under the policies in force"
    usable = [p for p in phases if all(p.shares.get(a, 0.0) > _LEAST_SHARE for a in wanted)]
    usable = [phase for phase in usable if phase.earned]
    if len(usable) < LEAST_PHASES:
        return (
            f"{len(usable)} of {len(phases)} phases could have pulled every arm that the new "
            f"policy pulls, and at least {LEAST_PHASES} are needed"
        )
    weights = [_weights(wanted, phase) for phase in usable]
    tops = [fsum(w * n * r for w, n, r in pulls) for pulls in weights]
    bottoms = [fsum(w * n for w, n, _ in pulls) for pulls in weights]
    counts = [sum(n for _, n, _ in pulls) for pulls in weights]
    total = fsum(bottoms)
    squares = fsum(w * w * n for pulls in weights for w, n, _ in pulls)
    effective = total * total / squares if squares else 0.0
    if effective < LEAST_EFFECTIVE:
        return (
            f"the pulls are worth {effective:.1f} of the new policy's own, and at least "
            f"{LEAST_EFFECTIVE:.0f} are needed: the mixes in force were too different"
        )
    value = fsum(tops) / total
    spread = _spread([top - value * bottom for top, bottom in zip(tops, bottoms, strict=True)])
    half = _quantile(len(usable) - 1) * spread / total
    return Estimate(
        value,
        value - half,
        value + half,
        fsum(tops) / sum(counts),
        len(usable),
        len(phases),
        sum(counts),
        effective,
    )


def _weights(wanted: Mapping[str, float], phase: Logged) -> list[tuple[float, int, float]]:
    """For each arm with a reward: the weight of a pull, the pulls, their mean reward."""
    return [
        (wanted.get(arm, 0.0) / phase.shares[arm], pulls, reward)
        for arm, (pulls, reward) in phase.earned.items()
        if phase.shares.get(arm, 0.0) > 0.0
    ]


def _spread(residuals: Sequence[float]) -> float:
    """The standard deviation of their sum, as of independent units around 0."""
    count = len(residuals)
    return math.sqrt(fsum(value * value for value in residuals) * count / (count - 1))


def _quantile(freedom: int) -> float:
    """The 97.5 % quantile of Student's t, by its expansion around the normal one."""
    return _Z + (_Z**3 + _Z) / (4 * freedom) + (5 * _Z**5 + 16 * _Z**3 + 3 * _Z) / (96 * freedom**2)
