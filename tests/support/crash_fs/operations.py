"""What was done to the files of a run, in one order: the shim's log as plain values."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).with_name("shim.c")


class Operation(NamedTuple):
    """One call that changed something, by process ``pid``.

    ``kind`` is the shim's letter. ``path`` and ``to`` are relative to the run; ``inode`` says which
    file was created, written, truncated or synced; ``offset`` is also the size that was set.
    """

    pid: int
    kind: str
    path: str = ""
    to: str = ""
    inode: int = 0
    offset: int = 0
    data: bytes = b""


class NoCompilerError(Exception):
    """There is no C compiler on the path."""


def build_shim(folder: Path) -> Path:
    """Compile the library that is to be preloaded. Raises NoCompilerError, CalledProcessError."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise NoCompilerError("cannot record: neither cc, gcc nor clang is on the path")
    target = folder / "shim.so"
    options = ["-std=gnu11", "-shared", "-fPIC", "-O1", "-Wall", "-o", target, SOURCE, "-ldl"]
    subprocess.run([compiler, *options, "-lpthread"], check=True, capture_output=True)
    return target


def read_log(path: Path) -> list[Operation]:
    """Every whole line of the shim's log; the socket, which is no file, is left out."""
    found = [_parse(line) for line in path.read_text().split("\n")[:-1]]
    return [done for done in found if not done.path.endswith(".sock")]


def _parse(line: str) -> Operation:
    pid, kind, *rest = line.split("\t")
    match kind, rest:
        case "C", [inode, name]:
            return Operation(int(pid), kind, name, inode=int(inode))
        case "W", [inode, offset, data]:
            return Operation(
                int(pid), kind, inode=int(inode), offset=int(offset), data=bytes.fromhex(data)
            )
        case "T", [inode, size]:
            return Operation(int(pid), kind, inode=int(inode), offset=int(size))
        case "F", [inode]:
            return Operation(int(pid), kind, inode=int(inode))
        case (("R" | "L"), [name, to]):
            return Operation(int(pid), kind, name, to)
        case (("D" | "U" | "M" | "X"), [name]):
            return Operation(int(pid), kind, name)
    raise ValueError(f"cannot read the recording: {line[:80]!r}")


def snapshot(root: Path) -> dict[str, bytes | None]:
    """Content by relative path; None for a folder. Sockets are left out."""
    found: dict[str, bytes | None] = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if path.is_dir():
            found[name] = None
        elif path.is_file():
            found[name] = path.read_bytes()
    return found
