"""Turn the text of a settings file into a checked model, naming every problem at once."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from supervisor.errors import SettingsError


class Section(BaseModel):
    """A table of a settings file: no unknown keys, no silent conversions."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


def read_text(path: Path) -> bytes:
    """The bytes of a settings file. Raises SettingsError."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise SettingsError(f"cannot read {path}: {error.strerror}") from None


def parse(model: type[Any], data: bytes, where: Path | str) -> Any:  # noqa: ANN401 - a model of the caller's
    """The file's text as that model. Raises SettingsError naming every problem."""
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
