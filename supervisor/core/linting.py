"""What is wrong, or not worth its words, in a policy and the state of a mix: findings by name.

Each finding is a line that says what, of which arm, why, and what to do. ``bad`` ones are of
weight: the mix is not what its words say. Others are worth a look.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import fsum
from typing import Final, NamedTuple

from supervisor.core.bounds import infeasible, project
from supervisor.core.epochs import forced, limit_of, to_the_end
from supervisor.core.policy import Algorithm, Arm, Policy, Unit

_NEARLY: Final = 1e-9
_NORMALISED: Final = 1.0  # what rewards in [0, 1] can differ by at most
_ROOT_2: Final = math.sqrt(2.0)


class Finding(NamedTuple):
    """``kind`` is one of a few words; ``arm`` is empty where it is about all of them."""

    kind: str
    arm: str
    text: str
    bad: bool


@dataclass(frozen=True, slots=True)
class Numbers:
    """What a state says of an arm; None where it does not.

    ``weight`` is in the unit of the state, see ``Mixing.shares``.
    """

    name: str
    weight: float | None = None
    pulls: int | None = None
    mean: float | None = None
    epochs: float | None = None
    per_pull: float | None = None


@dataclass(frozen=True, slots=True)
class Mixing:
    """The state of a mix, whoever wrote it.

    ``shares`` says that weights are shares of probability. ``left`` are arms that it has retired.
    """

    arms: tuple[Numbers, ...]
    shares: bool
    left: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Outlook:
    """What is known of the run: pulls until its end, and epochs in each pull by size."""

    pulls: float
    rates: dict[str, float | None]


def lint(policy: Policy, mixing: Mixing | None, outlook: Outlook | None) -> tuple[Finding, ...]:
    """Everything that can be said with what is given; what is bad stands first."""
    found = [*_bounds(policy)]
    if mixing is not None:
        found += [*_arms(policy, mixing), *_weights(policy, mixing), *_exploration(policy, mixing)]
    found += _epochs(policy, mixing, outlook)
    return tuple(sorted(found, key=lambda finding: not finding.bad))


def exploration(policy: Policy, mixing: Mixing) -> tuple[float, float] | None:
    """The spread of mean rewards, and the bonus of the arm that was pulled least.

    None where fewer than two arms have a mean, or one was never pulled: its bonus has no bound.
    """
    known = [(a.pulls, a.mean) for a in mixing.arms if a.pulls is not None and a.mean is not None]
    if len(known) < 2 or any(pulls <= 0 for pulls, _ in known):  # noqa: PLR2004 - of one, no spread
        return None
    total, least = sum(pulls for pulls, _ in known), min(pulls for pulls, _ in known)
    means = [mean for _, mean in known]
    constant = policy.exploration if policy.algorithm is Algorithm.UCB1 else _ROOT_2
    return max(means) - min(means), constant * math.sqrt(math.log(total) / least)


def _bounds(policy: Policy) -> Iterator[Finding]:
    for arm in policy.arms:
        if arm.floor > arm.cap:
            text = f"arm {arm.name}: its floor {arm.floor:g} is above its cap {arm.cap:g}; lower it"
            yield Finding("infeasible", arm.name, text, bad=True)
    if policy.unit is Unit.SHARE and all(arm.floor <= arm.cap for arm in policy.arms):
        problem = infeasible([a.floor for a in policy.arms], [a.cap for a in policy.arms])
        if problem:
            text = f"all arms: {problem}, so no mix keeps the bounds; change them"
            yield Finding("infeasible", "", text, bad=True)
        else:
            yield from _pointless_shares(policy)
    elif all(arm.cap == 0.0 for arm in policy.arms):
        text = "all arms: every cap is 0, so nothing can be drawn; raise one"
        yield Finding("infeasible", "", text, bad=True)
    for arm in policy.arms:
        if arm.cap == 0.0:
            text = f"arm {arm.name}: its cap is 0, so it is never drawn; leave it out or raise it"
            yield Finding("pointless", arm.name, text, bad=False)


def _pointless_shares(policy: Policy) -> Iterator[Finding]:
    floors, caps = fsum(a.floor for a in policy.arms), fsum(a.cap for a in policy.arms)
    if floors >= 1.0 - _NEARLY and policy.algorithm is not Algorithm.STATIC:
        text = (
            f"all arms: the floors sum to {floors:g}, which leaves {policy.algorithm} nothing to "
            'decide; lower some, or say algorithm = "static"'
        )
        yield Finding("pointless", "", text, bad=True)
        return
    for arm in policy.arms:
        yield from _pointless_share(arm, 1.0 - (floors - arm.floor), 1.0 - (caps - arm.cap))


def _pointless_share(arm: Arm, most: float, least: float) -> Iterator[Finding]:
    """``most`` is what the floors of the others leave, ``least`` what their caps leave."""
    if most + _NEARLY < arm.cap < 1.0:
        text = (
            f"arm {arm.name}: its cap {arm.cap:g} can never bind, for the floors of the others "
            f"leave at most {most:.4g}; lower it below that or leave it out"
        )
        yield Finding("pointless", arm.name, text, bad=False)
    if 0.0 < arm.floor < least - _NEARLY:
        text = (
            f"arm {arm.name}: its floor {arm.floor:g} can never bind, for the caps of the others "
            f"leave it at least {least:.4g}; raise it above that or leave it out"
        )
        yield Finding("pointless", arm.name, text, bad=False)
    if arm.floor == arm.cap > 0.0:
        text = (
            f"arm {arm.name}: floor and cap are both {arm.cap:g}, so nothing that it earns changes "
            "its share; widen them unless that is meant"
        )
        yield Finding("pointless", arm.name, text, bad=False)


def _arms(policy: Policy, mixing: Mixing) -> Iterator[Finding]:
    names = {arm.name for arm in policy.arms}
    total = fsum(arm.weight or 0.0 for arm in mixing.arms)
    for arm in mixing.arms:
        if arm.name in names:
            continue
        holds = ""
        if arm.weight:
            holds = f", where it holds weight {arm.weight:g} of {total:g}"
        text = (
            f"arm {arm.name}: a zombie, in the state and not in the policy{holds}; retire it: a "
            "start of stepkeeper does, or take it out of the state"
        )
        yield Finding("zombie", arm.name, text, bad=True)
    known = {arm.name for arm in mixing.arms} | mixing.left
    for name in (arm.name for arm in policy.arms):
        if name not in known:
            text = (
                f"arm {name}: in the policy and not in the state; it begins with no numbers "
                "once its source is there"
            )
            yield Finding("missing", name, text, bad=False)


def _weights(policy: Policy, mixing: Mixing) -> Iterator[Finding]:
    """Weights against their bounds; of what is no arm, against the cap that no setting passes."""
    if mixing.shares and policy.unit is Unit.WEIGHT:
        return  # the bounds are of weights, which were divided by their sum since
    bounds = {arm.name: (arm.floor, arm.cap) for arm in policy.arms}
    for arm in mixing.arms:
        floor, cap = bounds.get(arm.name, (0.0, 1.0))
        if mixing.shares and policy.curriculum_warmup_steps:
            floor = 0.0  # who waits for the warm-up's end has no floor yet
        if arm.weight is None or floor - _NEARLY <= arm.weight <= cap + _NEARLY:
            continue
        word, bound = ("below its floor", floor) if arm.weight < floor else ("above its cap", cap)
        text = (
            f"arm {arm.name}: its weight {arm.weight:g} is {word} {bound:g}; the state is not of "
            "this policy: a pivot begins with an empty one"
        )
        yield Finding("weight", arm.name, text, bad=True)


def _exploration(policy: Policy, mixing: Mixing) -> Iterator[Finding]:
    numbers = exploration(policy, mixing)
    if numbers is None:
        return
    spread, bonus = numbers
    if spread > _NORMALISED and spread > bonus:
        text = (
            f"all arms: exploration is dead: mean rewards differ by {spread:.4g}, and the bonus of "
            f"the arm that was pulled least is {bonus:.4g}; rewards must be scaled to [0, 1]"
        )
        yield Finding("exploration", "", text, bad=True)


def _epochs(policy: Policy, mixing: Mixing | None, outlook: Outlook | None) -> Iterator[Finding]:
    known = {arm.name: arm for arm in (mixing.arms if mixing else ())}
    names = [arm.name for arm in policy.arms]
    so_far = {name: known[name].epochs if name in known else None for name in names}
    limit = limit_of(policy)
    why = "max_epochs" if policy.max_epochs else "where repeated data has little left to give"
    for name in names:
        if (read := so_far[name] or 0.0) > limit:
            text = f"arm {name}: read {read:.1f} times so far, more than {limit:g}, {why}; cap it"
            yield Finding("epochs", name, text, bad=True)
    if outlook is None:
        return
    rates = {
        name: (known[name].per_pull if name in known else None) or outlook.rates.get(name)
        for name in names
    }
    held = {r.arm: r for r in forced(policy, names, so_far, rates, outlook.pulls)}
    for name, reading in held.items():
        text = (
            f"arm {name}: its bounds alone ({reading.share:.4g} of all pulls) have it read about "
            f"{reading.at_end:.1f} times by the end of the run, more than max_epochs {limit:g}; "
            "lower its floor"
        )
        yield Finding("forced", name, text, bad=True)
    shares = _expected(policy, mixing, names)
    for reading in to_the_end(shares, so_far, rates, outlook.pulls):
        if reading.at_end is None or reading.arm in held or reading.so_far > limit:
            continue
        if reading.at_end > limit:
            text = (
                f"arm {reading.arm}: at a share of {reading.share:.4g} it is read about "
                f"{reading.at_end:.1f} times by the end of the run, more than {limit:g}, {why}; "
                "lower its cap"
            )
            yield Finding("epochs", reading.arm, text, bad=True)


def _expected(policy: Policy, mixing: Mixing | None, names: Iterable[str]) -> dict[str, float]:
    """Shares as they are now, or as the configured weights have them."""
    arms = mixing.arms if mixing else ()
    now = {arm.name: arm.weight or 0.0 for arm in arms}
    if not any(now.get(name) for name in names):
        now = _configured(policy)
    total = fsum(now.get(name, 0.0) for name in names)
    return {name: now.get(name, 0.0) / total if total else 0.0 for name in names}


def _configured(policy: Policy) -> dict[str, float]:
    """What the weights of the policy come to within its bounds."""
    weights = [arm.weight for arm in policy.arms]
    floors, caps = [arm.floor for arm in policy.arms], [arm.cap for arm in policy.arms]
    if policy.unit is Unit.SHARE and not infeasible(floors, caps):
        shares = project(weights, floors, caps)
        return {arm.name: share for arm, share in zip(policy.arms, shares, strict=True)}
    return {arm.name: min(arm.cap, max(arm.floor, arm.weight)) for arm in policy.arms}
