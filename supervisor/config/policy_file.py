"""``policy.toml``: its keys, and how its text becomes a checked policy."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Literal

from pydantic import Field

from supervisor.config.parsing import Section, parse
from supervisor.config.settings import Config
from supervisor.core.policy import Algorithm, Arm, Policy, Unit, problem_of
from supervisor.errors import SettingsError
from trainer.contract.settings import ArmName

POLICY_SCHEMA = "stepkeeper.policy/1"


class ArmBounds(Section):
    """``[arms.NAME]``: the bounds of one arm; ``weight`` is its proportion under ``static``."""

    floor: float = Field(default=0.0, ge=0)
    cap: float = Field(default=1.0, ge=0)
    weight: float = Field(default=1.0, gt=0)


class PolicyFile(Section):
    """``policy.toml``."""

    schema_: Literal["stepkeeper.policy/1"] = Field(alias="schema")
    algorithm: Literal["static", "ucb1"] = "ucb1"
    unit: Literal["share", "weight"] = "share"
    phase_min: int = Field(default=7, ge=1)
    phase_max: int = Field(default=42, ge=1)
    exploration: float = Field(default=1.4142135623730951, ge=0)
    focus: int = Field(default=3, ge=1)
    focus_weight: float = Field(default=1.0, gt=0)
    other_weight: float = Field(default=0.3, gt=0)
    ema_alpha: float = Field(default=0.1, gt=0, le=1)
    arms: dict[ArmName, ArmBounds] = Field(min_length=1)


def parse_policy(text: bytes, where: Path | str) -> PolicyFile:
    """The file's values, each good by itself. Raises SettingsError naming every problem."""
    file: PolicyFile = parse(PolicyFile, text, where)
    return file


def read_policy(
    text: bytes, number: int, where: Path | str, config: Config, *, present: bool = False
) -> Policy:
    """A policy from its TOML text, checked against the run's sources. Raises SettingsError.

    ``present`` refuses an arm whose source is not there now; at a start such arms are retired.
    """
    file = parse_policy(text, where)
    policy = Policy(
        number=number,
        digest=sha256(text).hexdigest()[:32],
        algorithm=Algorithm(file.algorithm),
        unit=Unit(file.unit),
        arms=tuple(Arm(name, b.floor, b.cap, b.weight) for name, b in file.arms.items()),
        phase_min=file.phase_min,
        phase_max=file.phase_max,
        exploration=file.exploration,
        focus=file.focus,
        focus_weight=file.focus_weight,
        other_weight=file.other_weight,
        ema_alpha=file.ema_alpha,
    )
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
    if policy.phase_min > policy.phase_max:
        problems.append(
            f"{where}: phase_min: {policy.phase_min} is above phase_max {policy.phase_max}"
        )
    if present:
        problems += [
            f"{where}: arms.{arm.name}: its source {config.sources[arm.name]} is not there"
            for arm in policy.arms
            if arm.name in config.sources and arm.name not in config.live
        ]
    if not problems and (why := problem_of(policy, config.live)):
        problems.append(f"{where}: arms: {why}")
    if problems:
        raise SettingsError(f"cannot use {where}:", tuple(problems))
    return policy


def _known(config: Config) -> str:
    return ", ".join(sorted(config.sources)) or "there is none"
