"""Which machine this is, the same at every boot of it, and which directory a path names on it."""

from __future__ import annotations

import hmac
import os
from pathlib import Path
from typing import NamedTuple

_FILES = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"))
_PURPOSE = b"stepkeeper.place"  # the bare identity of a machine is not for files that travel


class Directory(NamedTuple):
    """A directory as this machine knows it; the device number may be another at its next boot."""

    device: int
    inode: int


def machine_id(files: tuple[Path, ...] = _FILES) -> str:
    """32 hex digits that are this machine's own, or empty where it has no identity."""
    for path in files:
        try:
            identity = path.read_bytes().strip()
        except OSError:
            continue
        if identity and identity != b"uninitialized":
            return hmac.new(identity, _PURPOSE, "sha256").hexdigest()[:32]
    return ""


def host() -> str:
    """What people call this machine."""
    return os.uname().nodename


def directory(path: Path) -> Directory:
    """What ``path`` names now. Raises OSError."""
    facts = path.stat()
    return Directory(facts.st_dev, facts.st_ino)
