"""Puts a report where the operator wants it: whole or not at all, and never over another file."""

from __future__ import annotations

import contextlib
from pathlib import Path

from supervisor.errors import UsageError
from trainer.contract import durable


def refuse_place(path: Path, *, force: bool) -> None:
    """Raise UsageError where no report can be put at ``path``."""
    if path.is_dir():
        raise UsageError(f"cannot write the report to {path}: it is a directory; name a file")
    if not path.parent.is_dir():
        raise UsageError(f"cannot write the report to {path}: there is no directory {path.parent}")
    if not force and (path.exists() or path.is_symlink()):
        raise UsageError(f"cannot write the report to {path}: it is there already; use --force")


def write(path: Path, data: bytes, *, force: bool) -> None:
    """Write the file durably; one that came meanwhile stays, but for ``force``.

    Raises UsageError or OSError, leaving nothing.
    """
    refuse_place(path, force=force)
    if force:
        durable.write_file(path, data)
        return
    temporary = durable.temporary_for(path)
    try:
        durable.write_file(temporary, data)
        durable.move(temporary, path)
    except FileExistsError:
        refuse_place(path, force=False)
        raise
    finally:
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()
