"""The parameters that many commands share, and what the word RUN stands for."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from supervisor import environment
from supervisor.errors import UsageError

Run = Annotated[
    str,
    typer.Argument(metavar="RUN", help="A run directory, or its name under the state directory."),
]
Json = Annotated[bool, typer.Option("--json", help="Print the facts as one JSON object.")]


def place(word: str) -> Path:
    """The directory that RUN stands for, absolute; it need not be there.

    A word with a slash in it, or one that names a directory here, is a path. Any other word is
    a name under the state directory. Raises UsageError for a word that is empty, as a variable
    of the shell may be: it would stand for the directory that one happens to be in.
    """
    if not word.strip():
        raise UsageError("cannot use an empty word as a run: give its path or its name")
    path = Path(word).expanduser()
    if "/" in word or word in (".", "..", "~") or path.is_dir():
        return path.absolute()
    return environment.state_folder() / word


def refuse_unreadable(run: Path) -> None:
    """Raise UsageError for a run that this user may not look into: it would seem empty."""
    for folder in (run, run / "policies", run / "checkpoints"):
        if folder.exists() and not os.access(folder, os.R_OK | os.X_OK):
            raise UsageError(
                f"cannot look into {folder}: it belongs to the user {owner_of(folder)}; "
                "be that user"
            )


def owner_of(path: Path) -> str:
    """The name of a file's owner, or its uid where nobody here has it. Raises OSError."""
    try:
        return path.owner()
    except KeyError:
        return str(path.stat().st_uid)


def existing(word: str) -> Path:
    """The directory of a run that is there. Raises UsageError."""
    path = place(word)
    if (path / "run.toml").is_file() or (path / "settings").is_dir():
        refuse_unreadable(path)
        return path  # without run.toml it can still be looked at, saved and stopped
    if path.is_dir():
        raise UsageError(f"cannot use {path}: it holds no run.toml; make one with: stepkeeper init")
    raise UsageError(
        f"cannot find a run at {path}; give its path, or its name under the state"
        f" directory {environment.state_folder()}"
    )
