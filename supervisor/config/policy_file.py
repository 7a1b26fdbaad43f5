"""``policy.toml``: its keys, and how its text becomes a checked policy."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import Field, model_validator

from supervisor.config.parsing import Section, parse
from supervisor.config.settings import Config
from supervisor.core.policy import Algorithm, Arm, Distance, Policy, Reward, Unit, problem_of
from supervisor.errors import SettingsError
from trainer.contract.settings import ArmName

POLICY_SCHEMA: Final = "stepkeeper.policy/2"
_FIRST_SCHEMA: Final = "stepkeeper.policy/1"
_FIRST_KEYS: Final = frozenset(
    {
        "schema",
        "algorithm",
        "unit",
        "phase_min",
        "phase_max",
        "exploration",
        "focus",
        "focus_weight",
        "other_weight",
        "ema_alpha",
        "arms",
    }
)
_UCB1_EXPLORATION: Final = 1.4142135623730951
_EXPLORATION: Final = {Algorithm.DUCB: 0.5, Algorithm.THOMPSON: 1.0}  # of others, UCB1's


class ArmBounds(Section):
    """``[arms.NAME]``: the bounds of one arm; ``weight`` is its proportion under ``static``."""

    floor: float = Field(default=0.0, ge=0)
    cap: float = Field(default=1.0, ge=0)
    weight: float = Field(default=1.0, gt=0)
    target: float | None = None


class PolicyFile(Section):
    """``policy.toml``."""

    schema_: Literal["stepkeeper.policy/2"] = Field(alias="schema")
    algorithm: Literal["static", "ucb1", "exp3s", "ducb", "thompson"] = "thompson"
    unit: Literal["share", "weight"] = "share"
    projection: Literal["kl", "euclidean"] = "kl"
    reward: Literal["progress", "loss", "excess"] = "progress"
    phase_min: int = Field(default=7, ge=1)
    phase_max: int = Field(default=42, ge=1)
    exploration: float | None = Field(default=None, ge=0)
    focus: int = Field(default=3, ge=1)
    focus_weight: float = Field(default=1.0, gt=0)
    other_weight: float = Field(default=0.3, gt=0)
    ema_alpha: float = Field(default=0.1, gt=0, le=1)
    discount: float = Field(default=0.999, gt=0, le=1)
    step_size: float = Field(default=0.3, gt=0)
    mixing: float = Field(default=0.05, ge=0, le=1)
    curriculum_warmup_steps: int = Field(default=0, ge=0)
    curriculum_warmup_sources: tuple[ArmName, ...] = Field(default=(), strict=False)
    free_epochs: float = Field(default=4.0, ge=0)
    epoch_decay: float = Field(default=15.0, ge=0)
    max_epochs: float = Field(default=0.0, ge=0)
    arms: dict[ArmName, ArmBounds] = Field(min_length=1)

    @model_validator(mode="before")
    @classmethod
    def _migrated(cls, data: Any) -> Any:  # noqa: ANN401 - what TOML holds
        """The first schema knew no epochs: what it said means the same as it did."""
        if not isinstance(data, dict) or data.get("schema") != _FIRST_SCHEMA:
            return data
        newer = [key for key in data if key not in _FIRST_KEYS]
        if newer:
            raise ValueError(
                f"schema {_FIRST_SCHEMA!r} has no {newer[0]!r}; with this key it is "
                f"{POLICY_SCHEMA!r}"
            )
        return {"algorithm": "ucb1", **data, "schema": POLICY_SCHEMA, "epoch_decay": 0.0}


def parse_policy(text: bytes, where: Path | str) -> PolicyFile:
    """The file's values, each good by itself. Raises SettingsError naming every problem."""
    file: PolicyFile = parse(PolicyFile, text, where)
    return file


def recorded_policy(text: bytes, number: int, where: Path | str) -> Policy:
    """A policy that was in force once, whatever sources there are now. Raises SettingsError."""
    return _policy(parse_policy(text, where), number, sha256(text).hexdigest()[:32])


def read_policy(
    text: bytes,
    number: int,
    where: Path | str,
    config: Config,
    *,
    present: bool = False,
    going_on: bool = False,
) -> Policy:
    """A policy from its TOML text, checked against the run's sources. Raises SettingsError.

    ``present`` refuses an arm whose source is not there now; at a start such arms are retired.
    ``going_on``: it is in force, and whatever has gone meanwhile, the run goes on with it.
    """
    file = parse_policy(text, where)
    policy = _policy(file, number, sha256(text).hexdigest()[:32])
    problems = [
        f"{where}: arms.{arm.name}: no source of that name in run.toml ({_known(config)})"
        for arm in policy.arms
        if arm.name not in config.sources
    ]
    problems += [
        f"{where}: arms.{arm.name}: floor {arm.floor} is above cap {arm.cap}"
        for arm in policy.arms
        if arm.floor > arm.cap
    ]
    problems += [f"{where}: {problem}" for problem in _within(policy)]
    if present:
        problems += [
            f"{where}: arms.{arm.name}: its source {config.sources[arm.name]} is not there"
            for arm in policy.arms
            if arm.name in config.sources and arm.name not in config.live
        ]
    live = frozenset(arm.name for arm in policy.arms) if going_on else config.live
    if not problems and (why := problem_of(policy, live)):
        problems.append(f"{where}: arms: {why}")
    if problems:
        raise SettingsError(f"cannot use {where}:", tuple(problems))
    return policy


def _policy(file: PolicyFile, number: int, digest: str) -> Policy:
    algorithm = Algorithm(file.algorithm)
    given = file.exploration
    return Policy(
        number=number,
        digest=digest,
        algorithm=algorithm,
        unit=Unit(file.unit),
        arms=tuple(Arm(name, b.floor, b.cap, b.weight, b.target) for name, b in file.arms.items()),
        phase_min=file.phase_min,
        phase_max=file.phase_max,
        exploration=_EXPLORATION.get(algorithm, _UCB1_EXPLORATION) if given is None else given,
        focus=file.focus,
        focus_weight=file.focus_weight,
        other_weight=file.other_weight,
        ema_alpha=file.ema_alpha,
        reward=Reward(file.reward),
        projection=Distance(file.projection),
        discount=file.discount,
        step_size=file.step_size,
        mixing=file.mixing,
        curriculum_warmup_steps=file.curriculum_warmup_steps,
        curriculum_warmup_sources=file.curriculum_warmup_sources,
        free_epochs=file.free_epochs,
        epoch_decay=file.epoch_decay,
        max_epochs=file.max_epochs,
    )


def _within(policy: Policy) -> Iterator[str]:
    """What the keys of one file say against each other."""
    if policy.phase_min > policy.phase_max:
        yield f"phase_min: {policy.phase_min} is above phase_max {policy.phase_max}"
    names = {arm.name for arm in policy.arms}
    for name in policy.curriculum_warmup_sources:
        if name not in names:
            yield f"curriculum_warmup_sources: {name}: the policy has no such arm"
    warm = frozenset(policy.curriculum_warmup_sources)
    if policy.curriculum_warmup_steps and not warm:
        yield "curriculum_warmup_steps: curriculum_warmup_sources names no arm for them"
    elif policy.curriculum_warmup_steps and warm <= names and (why := problem_of(policy, warm)):
        yield f"curriculum_warmup_sources: they alone cannot be served: {why}"
    if policy.reward is Reward.EXCESS:
        yield from (
            f'arms.{arm.name}: reward = "excess" needs a target'
            for arm in policy.arms
            if arm.target is None
        )


def _known(config: Config) -> str:
    return ", ".join(sorted(config.sources)) or "there is none"
