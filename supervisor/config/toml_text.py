"""Settings as TOML text: relative sources made absolute, everything else and its comments kept."""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from supervisor.errors import SettingsError

_TABLE = re.compile(r"\s*\[([^\[].*?)\]\s*(#.*)?$")
_PATH = re.compile(r"(\s*path\s*=\s*)(\"[^\"\\]*\"|'[^']*')(.*)$")
_BARE = re.compile(r"[A-Za-z0-9_-]+")


def relocated(text: str, run: Path) -> str:
    """``run.toml`` for another directory, naming the same sources as it does in ``run``.

    Raises SettingsError for text that is no TOML.
    """
    return _placed(text, run, lambda path: _absolute(run, path))


def found_in(text: str, run: Path, folder: Path) -> str:
    """``run.toml`` of ``run`` with each source at its own last name in ``folder``.

    Raises SettingsError for text that is no TOML, for one that is not there, and for two sources
    of one name.
    """
    names: dict[str, str] = {}
    problems: list[str] = []

    def place(path: str) -> str:
        name = Path(_absolute(run, path)).name
        if names.setdefault(name, path) != path:
            problems.append(f"two sources are called {name}: {names[name]} and {path}")
        elif not (folder / name).exists():
            problems.append(f"{name} is not there")
        return _absolute(folder, name)

    edited = _placed(text, run, place)
    if problems:
        raise SettingsError(f"cannot use the sources in {folder}:", tuple(dict.fromkeys(problems)))
    return edited


def named(text: str, name: str) -> str:
    """``run.toml`` that says what the sidecars are called, whatever its directory's name."""
    return text if "name" in tomllib.loads(text) else f"name = {_text(name)}\n{text}"


def _placed(text: str, run: Path, place: Callable[[str], str]) -> str:
    """The text with another path for each source."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"cannot read {run / 'run.toml'}: {error}") from None
    sources = data.get("sources", {})
    for source in sources.values():
        source["path"] = place(source["path"])
    edited = "\n".join(_edited(text.split("\n"), place))
    try:
        if tomllib.loads(edited) == data:
            return edited
    except tomllib.TOMLDecodeError:
        pass
    return dump(data)  # sources in a form that is not edited line by line


def _absolute(run: Path, path: str) -> str:
    return os.path.normpath(run.resolve() / path)


def _edited(lines: list[str], place: Callable[[str], str]) -> list[str]:
    found, inside = [], False
    for line in lines:
        if table := _TABLE.match(line):
            inside = table[1].strip().startswith("sources.")
        if inside and (path := _PATH.match(line)):
            value = tomllib.loads(f"x = {path[2]}")["x"]
            found.append(f"{path[1]}{_value(place(value))}{path[3]}")
        else:
            found.append(line)
    return found


def dump(data: dict[str, Any]) -> str:
    """TOML that reads back as these tables."""
    lines = _lines(data, ())
    return "\n".join(lines).strip("\n") + "\n"


def _lines(table: dict[str, Any], names: tuple[str, ...]) -> list[str]:
    values = [f"{_key(k)} = {_value(v)}" for k, v in table.items() if not isinstance(v, dict)]
    found = ["", f"[{'.'.join(map(_key, names))}]", *values] if names else values
    for key, inner in table.items():
        if isinstance(inner, dict):
            found += _lines(inner, (*names, key))
    return found


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _text(name)


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{_key(k)} = {_value(v)}' for k, v in value.items())} }}"
    return repr(value)
