"""A data policy as a value: which arms there are, their bounds, and how the mix is chosen."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from supervisor.core.bounds import infeasible


class Algorithm(StrEnum):
    """How weights are chosen."""

    STATIC = "static"
    UCB1 = "ucb1"
    EXP3S = "exp3s"
    DUCB = "ducb"
    THOMPSON = "thompson"


class Reward(StrEnum):
    """What an arm is rewarded for: progress of its loss, the loss, or the loss above a target."""

    PROGRESS = "progress"
    LOSS = "loss"
    EXCESS = "excess"


class Distance(StrEnum):
    """In which sense a projection onto the bounds is the nearest."""

    KL = "kl"
    EUCLIDEAN = "euclidean"


class Unit(StrEnum):
    """What floors and caps bound: shares of probability, or weights before normalising."""

    SHARE = "share"
    WEIGHT = "weight"


@dataclass(frozen=True, slots=True)
class Arm:
    """One arm's bounds; ``weight`` is its proportion under ``static``.

    ``target`` is the loss that ``excess`` rewards nothing below, in nats.
    """

    name: str
    floor: float = 0.0
    cap: float = 1.0
    weight: float = 1.0
    target: float | None = None


@dataclass(frozen=True, slots=True)
class Policy:
    """Policy ``number`` of a run, with the digest of its text.

    Phases last ``phase_min`` to ``phase_max`` steps; ``ema_alpha`` smooths losses and rewards per
    arm. ``exploration`` scales the bonus of ucb1 (its C) and ducb, and the spread of thompson, for
    rewards in [0, 1]. ucb1's ``focus`` arms by score and one by chance weigh ``focus_weight``,
    others ``other_weight``. What ducb and thompson know counts ``discount`` less with each step.
    exp3s moves by ``step_size`` and spreads ``mixing`` over all arms.

    Up to step ``curriculum_warmup_steps`` only ``curriculum_warmup_sources`` are drawn. An arm read
    more than ``free_epochs`` times loses weight by ``epoch_decay`` (0: none), and at
    ``max_epochs`` (0: never) it leaves.
    """

    number: int
    digest: str
    algorithm: Algorithm
    unit: Unit
    arms: tuple[Arm, ...]
    phase_min: int = 7
    phase_max: int = 42
    exploration: float = 1.4142135623730951
    focus: int = 3
    focus_weight: float = 1.0
    other_weight: float = 0.3
    ema_alpha: float = 0.1
    reward: Reward = Reward.PROGRESS
    projection: Distance = Distance.KL
    discount: float = 0.999
    step_size: float = 0.3
    mixing: float = 0.05
    curriculum_warmup_steps: int = 0
    curriculum_warmup_sources: tuple[str, ...] = ()
    free_epochs: float = 4.0
    epoch_decay: float = 0.0
    max_epochs: float = 0.0


def servable(policy: Policy, live: frozenset[str]) -> frozenset[str]:
    """The arms that can be decided over: those of ``live``, or all where these are too few.

    An arm that is ordered though its source is gone fails its pulls, and the run goes on.
    """
    return frozenset(arm.name for arm in policy.arms) if problem_of(policy, live) else live


def problem_of(policy: Policy, live: frozenset[str]) -> str:
    """Why the policy cannot be served with these arms available, or empty."""
    arms = [arm for arm in policy.arms if arm.name in live]
    if not arms:
        return "none of its arms has a source"
    if policy.unit is Unit.SHARE:
        return infeasible([arm.floor for arm in arms], [arm.cap for arm in arms])
    if not any(arm.cap > 0 for arm in arms):
        return "every cap is 0"
    return next(
        (
            f"floor {a.floor} of arm {a.name} is above its cap {a.cap}"
            for a in arms
            if a.floor > a.cap
        ),
        "",
    )
