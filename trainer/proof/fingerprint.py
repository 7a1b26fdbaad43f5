"""The checksum file beside a checkpoint: what ``sha256sum -c`` reads, and the size of each file.

It tells that something has changed; it does not say who wrote it.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any, Final

from trainer.contract import durable
from trainer.errors import SettingsError

_SUFFIX: Final = ".sha256"
_PAIR: Final = re.compile(r"# (\d+) bytes\n([0-9a-f]{64})  ([^\n]+)\n")


def beside(checkpoint: Path) -> Path:
    """Where the checksum file of a checkpoint (a file or a folder) stands."""
    return checkpoint.with_name(checkpoint.name + _SUFFIX)


def write(checkpoint: Path, files: list[Path]) -> dict[str, Any]:
    """Write it, and return size and digest of each file by name. Raises OSError."""
    facts = {path.relative_to(checkpoint.parent).as_posix(): _facts(path) for path in files}
    pairs = (f"# {fact['bytes']} bytes\n{fact['sha256']}  {n}\n" for n, fact in facts.items())
    durable.write_file(beside(checkpoint), "".join(pairs).encode("utf-8"))
    return facts


def check(checkpoint: Path, files: list[Path]) -> dict[str, Any]:
    """Hold ``files``, all there are of it, against the checksum file; their sizes and digests.

    Raises SettingsError for the first one that is missing, unknown, or not as it was written.
    """
    facts = _read(beside(checkpoint), checkpoint)
    paths = {path.relative_to(checkpoint.parent).as_posix(): path for path in files}
    for name in sorted(paths.keys() | facts.keys()):
        if name not in facts:
            text = f"{beside(checkpoint).name} does not vouch for it"
            raise SettingsError(f"cannot use {checkpoint.parent / name}: {text}")
        if name not in paths:
            raise SettingsError(f"cannot use {checkpoint}: {name} is missing")
        _hold(paths[name], facts[name])
    return facts


def _hold(path: Path, fact: dict[str, Any]) -> None:
    try:
        found = _facts(path)
    except OSError as error:
        raise SettingsError(f"cannot use {path}: {error.strerror}") from None
    for what in ("bytes", "sha256"):
        if found[what] != fact[what]:
            text = f"{what}: {fact[what]} when it was written, {found[what]} now"
            raise SettingsError(f"cannot use {path}: {text}")


def _read(path: Path, checkpoint: Path) -> dict[str, Any]:
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise SettingsError(f"cannot use {checkpoint}: {path.name}: {why}") from None
    pairs = _PAIR.findall(text)
    if not pairs or _PAIR.sub("", text):
        raise SettingsError(f"cannot use {checkpoint}: {path.name} is not a checksum file of ours")
    return {name: {"bytes": int(size), "sha256": digest} for size, digest, name in pairs}


def _facts(path: Path) -> dict[str, Any]:
    data = path.read_bytes()
    return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
