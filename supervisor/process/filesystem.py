"""Tell whether the file system of a directory gives locks that prove nobody else keeps a run.

A kernel lock proves life only where every process that could take it asks the same kernel. What a
server shares with other machines may answer each of them for itself.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
from pathlib import Path
from typing import Final, NamedTuple

from supervisor.errors import RefusedError

# f_type of statfs(2), as in the kernel's magic.h and the file systems' own headers.
UNTRUSTED: Final[dict[int, str]] = {
    0x6969: "NFS",
    0x517B: "SMB",
    0xFF534D42: "CIFS",
    0xFE534D42: "SMB2",
    0x65735546: "FUSE",
    0x01021997: "9p",
    0x5346414F: "AFS",
    0x6B414653: "AFS",
    0x0BD00BD0: "Lustre",
    0x47504653: "GPFS",
    0x73757245: "Coda",
    0x564C: "NCP",
    0x786F4256: "a VirtualBox share",
    0xBACBACBC: "a VMware share",
    0xAAD7AAEA: "PanFS",
    0x20030528: "OrangeFS",
    0x19830326: "BeeGFS",
}
_FUSE, _LUSTRE = 0x65735546, 0x0BD00BD0
_STRUCT_BYTES = 512  # statfs(2) fills about 120 of them
_OCTAL = re.compile(r"\\([0-7]{3})")


class Mount(NamedTuple):
    """What /proc/self/mountinfo says of a directory's file system."""

    kind: str
    options: frozenset[str]


def refuse_untrusted(folder: Path, *, trust: bool) -> None:
    """Raise RefusedError where the locks of ``folder`` prove nothing, unless they are trusted.

    A file system that is not known is trusted: there are many local ones. Raises OSError.
    """
    if trust:
        return
    name = untrusted(magic_of(folder), mount_of(folder))
    if name:
        raise RefusedError(
            f"cannot keep a run in {folder}: it lies on {name}, whose locks do not prove that no "
            "other machine keeps the same run; move it to a local disk, or set lock.trust = true "
            "in run.toml if nothing else can reach it"
        )


def untrusted(magic: int, mount: Mount) -> str:
    """The file system's name where its locks cannot be trusted, else empty."""
    name = UNTRUSTED.get(magic, "")
    if magic == _FUSE:
        # A block device belongs to one machine, and the kernel itself keeps its locks.
        return "" if mount.kind == "fuseblk" else mount.kind or name
    if magic == _LUSTRE and "flock" in mount.options:
        return ""  # coherent over the cluster; localflock, and no option at all, are not
    return name


def magic_of(folder: Path) -> int:
    """``f_type`` of statfs(2), or 0 where it cannot be told on this machine. Raises OSError."""
    if sys.byteorder != "little":
        return 0
    libc = ctypes.CDLL(None, use_errno=True)
    buffer = ctypes.create_string_buffer(_STRUCT_BYTES)
    if libc.statfs(os.fsencode(folder), buffer):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(folder))
    return int.from_bytes(buffer.raw[:4], "little")


def mount_of(folder: Path, table: Path = Path("/proc/self/mountinfo")) -> Mount:
    """The mount that holds ``folder``: the one whose place is nearest, the last one of those."""
    found, length = Mount("", frozenset()), -1
    inside = folder.resolve()
    try:
        lines = table.read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        return found
    for line in lines:
        before, _, after = line.partition(" - ")
        here, there = before.split(), after.split()
        if len(here) < 6 or len(there) < 3:  # noqa: PLR2004 - the fields of that file
            continue
        place = Path(_OCTAL.sub(lambda code: chr(int(code[1], 8)), here[4]))
        if inside.is_relative_to(place) and len(place.parts) >= length:
            options = frozenset((*here[5].split(","), *there[2].split(",")))
            found, length = Mount(there[0], options), len(place.parts)
    return found
