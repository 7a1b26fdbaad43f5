"""The trainer's sections of ``run.toml``, read and checked, every problem named at once."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from trainer.contract.settings import TrainerSections
from trainer.errors import SettingsError
from trainer.launch import Launch


def read_sections(launch: Launch) -> TrainerSections:
    """Read the settings in force; sections of other owners are theirs to check.

    Raises SettingsError.
    """
    path = launch.settings or launch.run / "run.toml"
    table = _read(path)
    own = {name: table[name] for name in TrainerSections.model_fields if name in table}
    if launch.steps is not None:
        own["train"] = {**own.get("train", {}), "steps": launch.steps}
    if launch.every_seconds is not None:
        own["checkpoint"] = {**own.get("checkpoint", {}), "every_seconds": launch.every_seconds}
    try:
        sections = TrainerSections.model_validate(own)
    except ValidationError as error:
        raise SettingsError(_all_problems(path, error)) from None
    if not sections.sources:
        raise SettingsError(f"cannot use {path}: no [sources.NAME]; at least one is needed")
    return sections


def read_policy_arms(run: Path) -> tuple[str, ...] | None:
    """The arms that RUN/policy.toml names, or None without such a file. Raises SettingsError."""
    path = run / "policy.toml"
    if not path.exists():
        return None
    arms = _read(path).get("arms")
    if not isinstance(arms, dict) or not arms:
        raise SettingsError(f"cannot use {path}: no [arms.NAME]; at least one is needed")
    return tuple(arms)


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SettingsError(f"cannot read {path}: there is no such file") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(f"cannot read {path}: {error}") from None


def _all_problems(path: Path, error: ValidationError) -> str:
    problems = [
        f"{'.'.join(str(part) for part in problem['loc'])}: "
        f"{problem['msg'].removeprefix('Value error, ')}"
        for problem in error.errors(include_url=False, include_context=False, include_input=False)
    ]
    return f"cannot use {path}: " + "; ".join(problems)
