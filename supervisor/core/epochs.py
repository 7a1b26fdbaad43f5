"""How often each source will have been read when the run ends, and which floors force too much.

Epochs are counted as the trainer reports them, or follow from sizes, which is about right: a
caller says which. Everything here is arithmetic on shares; no draw is foreseen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import fsum
from typing import Final, NamedTuple

from supervisor.core.bandit import ArmState
from supervisor.core.policy import Policy, Unit

RETURNS_FADE: Final = 16.0  # epochs near which repeated data has little left to give


class Reading(NamedTuple):
    """One source: epochs read so far, in each pull, and by the end of the run at this share.

    ``per_pull`` and ``at_end`` are None where nobody can say how much of it a pull reads.
    """

    arm: str
    so_far: float
    per_pull: float | None
    share: float
    at_end: float | None


def per_pull(arm: ArmState) -> float | None:
    """Epochs in each pull, measured since they are counted together; None before the first."""
    if arm.epochs is None or arm.epochs_from is None:
        return None
    epochs, served = arm.epochs_from
    pulls = arm.served - served
    read = arm.epochs - epochs
    return read / pulls if pulls > 0 and read > 0.0 else None


def by_size(tokens: float, per_pull_tokens: int) -> float | None:
    """Epochs in each pull of ``per_pull_tokens`` from a source of so many; None from nothing."""
    return per_pull_tokens / tokens if tokens > 0 else None


def at_end(so_far: float, per_pull: float, share: float, pulls: float) -> float:
    """Epochs after ``pulls`` more of the whole run, of which ``share`` go to this source."""
    return so_far + per_pull * share * pulls


def to_the_end(
    shares: Mapping[str, float],
    so_far: Mapping[str, float | None],
    rates: Mapping[str, float | None],
    pulls: float,
) -> tuple[Reading, ...]:
    """Each source of ``shares``, where ``pulls`` are left until the run ends.

    ``so_far`` are epochs (None: none that are known of), ``rates`` epochs in each pull.
    """
    return tuple(
        Reading(
            name,
            so_far.get(name) or 0.0,
            rate := rates.get(name),
            share,
            None if rate is None else at_end(so_far.get(name) or 0.0, rate, share, pulls),
        )
        for name, share in shares.items()
    )


def limit_of(policy: Policy) -> float:
    """The policy's ``max_epochs``, or where repeated data has little left to give."""
    return policy.max_epochs or RETURNS_FADE


def least_shares(policy: Policy, live: Iterable[str]) -> dict[str, float]:
    """The share that the bounds give each of these arms whatever is decided.

    Under weights as unit that is what a floor comes to when all others are at their caps.
    """
    names = set(live)
    arms = [arm for arm in policy.arms if arm.name in names]
    if policy.unit is Unit.SHARE:
        caps = fsum(arm.cap for arm in arms)
        return {arm.name: max(arm.floor, min(arm.cap, 1.0 - (caps - arm.cap))) for arm in arms}
    return {
        arm.name: arm.floor / (arm.floor + fsum(o.cap for o in arms if o is not arm))
        if arm.floor
        else 0.0
        for arm in arms
    }


def refused(policy: Policy, arms: Iterable[ArmState], pulls: float) -> tuple[str, ...]:
    """A line for each of ``arms`` whose bounds alone have it read too often; as ``forced``."""
    known = {arm.name: arm for arm in arms}
    so_far = {name: arm.epochs for name, arm in known.items()}
    rates = {name: per_pull(arm) for name, arm in known.items()}
    names = [arm.name for arm in policy.arms]
    return tuple(
        f"arms.{reading.arm}: its bounds give it {reading.share:.4g} of all pulls at least, so it "
        f"is read {reading.at_end:.1f} times by the end of the run; max_epochs is "
        f"{policy.max_epochs:g}: lower its floor or raise that"
        for reading in forced(policy, names, so_far, rates, pulls)
    )


def forced(
    policy: Policy,
    live: Iterable[str],
    so_far: Mapping[str, float | None],
    rates: Mapping[str, float | None],
    pulls: float,
) -> tuple[Reading, ...]:
    """Sources that the bounds alone have read more than ``max_epochs`` times by the end.

    Nothing where the policy sets no such number. A source that was read enough already is none:
    it has left.
    """
    if not policy.max_epochs:
        return ()
    found = to_the_end(least_shares(policy, live), so_far, rates, pulls)
    return tuple(
        reading
        for reading in found
        if reading.at_end is not None
        and reading.so_far < policy.max_epochs < reading.at_end
        and reading.share > 0.0
    )
