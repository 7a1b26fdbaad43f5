"""What a run is trained by now, told without starting it: command, settings, code, libraries, GPUs.

What only the trainer itself can tell stands in the companions that it writes.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import platform
import shutil
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

_TABLES: Final = ("model", "train", "data", "sources", "evaluate")  # those that steps depend on
_WAYS: Final = ("background", "shards", "split")  # how a checkpoint comes to be
_LIBRARIES: Final = ("torch", "numpy")
_USUAL: Final = ["{python}", "-m", "trainer"]
_PYTHON: Final = "{python}"
_MOST_FILES: Final = 2000  # of one package
_MOST_BYTES: Final = 1 << 26  # of one file
_GPUS: Final = Path("/proc/driver/nvidia/gpus")


def fingerprint(run: Path, text: bytes) -> dict[str, Any]:
    """The parts by name, for the settings ``text`` of ``run``, as JSON values.

    Raises ValueError for text that is no TOML.
    """
    settings = tomllib.loads(text.decode("utf-8"))
    trainer = settings.get("trainer", {})
    command = [str(word) for word in trainer.get("command", _USUAL)]
    ours = command[:1] in ([_PYTHON], [sys.executable])
    return {
        "command": command,
        "environment": _digest(json.dumps(trainer.get("env", {}), sort_keys=True).encode()),
        "settings": _settings(settings),
        "code": _code(run, command, ours=ours),
        "libraries": _libraries() if ours else {},
        "devices": _devices(),
    }


def _settings(settings: dict[str, Any]) -> dict[str, Any]:
    """What is written of the tables that steps depend on; where sources lie is no part of it."""
    found: dict[str, Any] = {name: dict(settings[name]) for name in _TABLES if name in settings}
    found["sources"] = {
        arm: {key: value for key, value in source.items() if key != "path"}
        for arm, source in found.get("sources", {}).items()
    }
    checkpoint = settings.get("checkpoint", {})
    found["format"] = checkpoint.get("format", "bin")
    found |= {key: checkpoint[key] for key in _WAYS if key in checkpoint}
    return found


def _code(run: Path, command: list[str], *, ours: bool) -> str:
    """A digest of the program, of the files that its command names, and of a package run by -m."""
    digest = hashlib.sha256()
    for path in _files(run, command, ours=ours):
        try:
            if path.stat().st_size > _MOST_BYTES:
                continue
            data = path.read_bytes()
        except OSError:  # gone, or not ours to read: then its name alone tells it from others
            data = b""
        digest.update(f"{path.name} {len(data)}\n".encode())
        digest.update(data)
    return digest.hexdigest()


def _files(run: Path, command: list[str], *, ours: bool) -> Iterator[Path]:
    program = None if ours else shutil.which(command[0]) if command else None
    if program is not None:
        yield Path(program)
    for word in command[1:]:
        path = run / word
        if "/" in word or "." in word:
            try:
                named = path.is_file()
            except OSError:  # no path at all
                continue
            if named:
                yield path
                # Python looks for what a script imports beside it first.
                yield from _modules(path.parent) if path.suffix == ".py" else ()
    if ours and "-m" in command[:-1]:
        yield from _package(command[command.index("-m") + 1])


def _package(name: str) -> Iterator[Path]:
    """The modules of a top-level package or module that this Python finds under that name."""
    top = name.partition(".")[0]
    try:
        found = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return
    if found is None or found.origin is None:
        return
    origin = Path(found.origin)
    if found.submodule_search_locations is None:
        yield origin
        return
    yield from sorted(origin.parent.rglob("*.py"))[:_MOST_FILES]


def _modules(folder: Path) -> Iterator[Path]:
    """The modules and packages in a folder, wherever else it leads to."""
    found = sorted(folder.glob("*.py"))
    for package in sorted(folder.glob("*/__init__.py")):
        found += sorted(package.parent.rglob("*.py"))
    yield from found[:_MOST_FILES]


def _libraries() -> dict[str, str]:
    """Versions as their packages state them, without an import of any."""
    # Imported here: it costs 20 ms, which most commands need not pay.
    from importlib import metadata  # noqa: PLC0415 - see above

    found = {"python": platform.python_version()}
    for name in _LIBRARIES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _devices() -> list[str]:
    """What the driver calls each GPU of this machine."""
    models = []
    try:
        places = sorted(_GPUS.iterdir())
    except OSError:
        return []
    for place in places:
        try:
            lines = (place / "information").read_text("utf-8", "replace").splitlines()
        except OSError:
            continue
        models += [line.partition(":")[2].strip() for line in lines if line.startswith("Model:")]
    return models


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]
