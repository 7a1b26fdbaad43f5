"""``settings/NNNN.toml``: every ``run.toml`` that was ever in force, and which of them is.

The newest is the supervisor's; an attempt's record names its own by digest.
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from trainer.contract.durable import sync_folder, write_file

_DIGITS = 32


def digest_of(text: bytes) -> str:
    """The 32 hex digits by which records name settings."""
    return sha256(text).hexdigest()[:_DIGITS]


def path_of(run: Path, number: int) -> Path:
    """Where the settings of that number are kept."""
    return run / "settings" / f"{number:04d}.toml"


def numbers(run: Path) -> list[int]:
    """The numbers of all settings that were ever in force, ascending."""
    names = (path.stem for path in (run / "settings").glob("*.toml"))
    return sorted(int(name) for name in names if name.isdigit())


def newest_path(run: Path) -> Path | None:
    """Where the text that is in force is kept, or None for a run that never started."""
    kept = numbers(run)
    return path_of(run, kept[-1]) if kept else None


def newest(run: Path) -> bytes | None:
    """The text that is in force, or None for a run that never started. Raises OSError."""
    path = newest_path(run)
    return path.read_bytes() if path is not None else None


def find(run: Path, digest: str) -> Path | None:
    """The newest copy that has this digest, or None. Raises OSError."""
    paths = (path_of(run, number) for number in reversed(numbers(run)))
    return next((path for path in paths if digest_of(path.read_bytes()) == digest), None)


def install(run: Path, number: int, text: bytes, mode: int = 0o640) -> None:
    """Keep the text under its number, readable for no more people than ``mode`` allows.

    Raises OSError.
    """
    path = path_of(run, number)
    if not path.parent.is_dir():
        path.parent.mkdir(mode=0o750)
        sync_folder(run)
    write_file(path, text, mode & 0o640)
