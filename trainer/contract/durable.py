"""The only code that renames or syncs: small durable writes and durable removals.

A file appears under its name whole or not at all: temporary name in the same folder, write,
fsync, rename, fsync of the folder. A failed sync is never tried again on the same descriptor,
because the kernel reports success the second time with the data gone; the file is discarded.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

TEMPORARY = ".tmp"


def temporary_for(path: Path) -> Path:
    """A name beside ``path``, unique per try, that no reader takes for a finished file."""
    return path.with_name(f".{path.name}.{secrets.token_hex(6)}{TEMPORARY}")


def sync_folder(folder: Path) -> None:
    """Make renames and removals in ``folder`` durable. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_all(descriptor: int, data: bytes) -> None:
    """Write every byte, going on where a short write stopped. Raises OSError."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def write_file(path: Path, data: bytes, mode: int = 0o640) -> None:
    """Replace ``path`` by ``data``, durably and atomically. Raises OSError, leaving no rest."""
    temporary = temporary_for(path)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        try:
            write_all(descriptor, data)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        publish(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def publish(temporary: Path, path: Path) -> None:
    """Rename a synced temporary file to its name and make that durable. Raises OSError."""
    temporary.rename(path)
    sync_folder(path.parent)


def move(source: Path, target: Path) -> None:
    """Move a file durably, never replacing one. Raises FileExistsError or OSError."""
    os.link(source, target)
    sync_folder(target.parent)
    source.unlink()
    sync_folder(source.parent)
