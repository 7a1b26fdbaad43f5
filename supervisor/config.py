"""The operator's files: ``run.toml`` and ``policy.toml``, read, checked and turned into values.

Unknown keys are refused, and every problem is reported at once: file, key, value, what is right.
"""

from __future__ import annotations

import sys
import tomllib
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from supervisor import environment
from supervisor.core.policy import Algorithm, Arm, Policy, Unit, problem_of
from supervisor.core.state import Settings
from supervisor.errors import SettingsError
from trainer.contract.settings import ArmName, TrainerSections

RUN_SCHEMA = "stepkeeper.run/1"
POLICY_SCHEMA = "stepkeeper.policy/1"
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class TrainerCommand(_Section):
    """``[trainer]``: what is started. ``{python}`` and ``{run}`` in it are replaced."""

    command: tuple[str, ...] = Field(
        default=("{python}", "-m", "trainer"), min_length=1, strict=False
    )
    env: dict[str, str] = Field(default_factory=dict)


class RestartSettings(_Section):
    """``[restart]``: seconds between attempts without progress, and when to give up."""

    first: float = Field(default=0.5, gt=0)
    most: float = Field(default=30.0, gt=0)
    fall_back_after: int = Field(default=3, ge=1)
    give_up_after: float = Field(default=7200.0, ge=0)


class StopSettings(_Section):
    """``[stop]``: seconds without a report that a stopping trainer is given, at least."""

    grace: float = Field(default=60.0, gt=0)


class RunFile(TrainerSections):
    """``run.toml``."""

    schema_: Literal["stepkeeper.run/1"] = Field(alias="schema")
    name: Name | None = None
    trainer: TrainerCommand = TrainerCommand()
    restart: RestartSettings = RestartSettings()
    stop: StopSettings = StopSettings()


class ArmBounds(_Section):
    """``[arms.NAME]``: the bounds of one arm; ``weight`` is its proportion under ``static``."""

    floor: float = Field(default=0.0, ge=0)
    cap: float = Field(default=1.0, ge=0)
    weight: float = Field(default=1.0, gt=0)


class PolicyFile(_Section):
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


@dataclass(frozen=True, slots=True)
class Config:
    """Checked settings of a run. ``sources`` maps arms to absolute paths."""

    run: Path
    name: str
    command: tuple[str, ...]
    env: dict[str, str]
    settings: Settings
    sources: dict[str, Path]
    seed: int
    steps: int
    digest: str

    @property
    def live(self) -> frozenset[str]:
        """Arms whose source is there now."""
        return frozenset(name for name, path in self.sources.items() if _is_there(path))

    @property
    def ledger(self) -> Path:
        """The ledger's path."""
        return self.run / f"{self.name}.loss.json"

    @property
    def samples(self) -> Path:
        """The samples' path."""
        return self.run / f"{self.name}.samples.json"

    @property
    def bandit(self) -> Path:
        """The bandit state's path."""
        return self.run / f"{self.name}.state.json"


def load(run: Path) -> Config:
    """Read ``run.toml``. Raises SettingsError naming every problem."""
    path = run / "run.toml"
    data = read_text(path)
    file = _parse(RunFile, data, path)
    problems = [
        f"{path}: sources.{arm}.path: {source.path!r} does not exist"
        for arm, source in file.sources.items()
        if not _is_there(run / source.path)
    ]
    if len(problems) == len(file.sources) and problems:
        raise SettingsError("cannot use the sources:", tuple(problems))
    words = {"{python}": sys.executable, "{run}": str(run)}
    command = tuple(words.get(part, part) for part in file.trainer.command)
    restart = file.restart
    settings = Settings(
        cadence=file.checkpoint.every_steps,
        boundary=file.checkpoint.sigusr1 == "boundary",
        grace=file.stop.grace,
        backoff_first=restart.first,
        backoff_most=restart.most,
        fall_back_after=restart.fall_back_after,
        give_up_after=restart.give_up_after,
    )
    return Config(
        run=run,
        name=file.name or run.name,
        command=command,
        env={**environment.for_trainer(), **file.trainer.env},
        settings=settings,
        sources={arm: run / source.path for arm, source in file.sources.items()},
        seed=file.train.seed,
        steps=file.train.steps,
        digest=sha256(data).hexdigest()[:32],
    )


def _is_there(source: Path) -> bool:
    """A source that cannot be looked at, on a server that is gone perhaps, is not there."""
    try:
        return source.exists()
    except OSError:
        return False


def read_text(path: Path) -> bytes:
    """The bytes of a settings file. Raises SettingsError."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise SettingsError(f"cannot read {path}: {error.strerror}") from None


def parse_policy(text: bytes, where: Path | str) -> PolicyFile:
    """The file's values, each good by itself. Raises SettingsError naming every problem."""
    file: PolicyFile = _parse(PolicyFile, text, where)
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


def _parse(model: type[Any], data: bytes, where: Path | str) -> Any:  # noqa: ANN401 - a model of the caller's
    try:
        return model.model_validate(tomllib.loads(data.decode("utf-8")))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise SettingsError(f"cannot read {where}: {error}") from None
    except ValidationError as error:
        problems = tuple(_problem(where, entry) for entry in error.errors())
        raise SettingsError(f"cannot use {where}:", problems) from None


def _problem(where: Path | str, entry: Any) -> str:  # noqa: ANN401 - an entry of pydantic's report
    key = ".".join(str(part) for part in entry["loc"])
    if entry["type"] == "extra_forbidden":
        return f"{where}: {key}: unknown key; remove it or correct its name"
    value = entry["input"]
    shown = "" if isinstance(value, dict) or entry["type"] == "missing" else f" {value!r}:"
    return f"{where}: {key}:{shown} {entry['msg'].removeprefix('Value error, ')}"
