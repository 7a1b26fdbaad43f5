"""Prove which process is which: boot, pid namespace, start time and token, read from /proc."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from supervisor import clock

TOKEN = b"STEPKEEPER_TOKEN="
RUN = b"STEPKEEPER_RUN="
_PROC = Path("/proc")
EXEC_SECONDS = 0.001
_TRIES = 20
_AT_ONCE = 1 << 16
_PARENT, _SESSION, _START, _STATUS = 1, 3, 19, 49  # of the fields after the name


class Identity(NamedTuple):
    """What tells a process from every other one, on this machine and on any boot of it.

    ``start_ticks`` is field 22 of /proc/PID/stat; ``pid_namespace`` the inode of its namespace.
    """

    pid: int
    start_ticks: int
    boot_id: str
    pid_namespace: int
    token: str


class Stat(NamedTuple):
    """The few facts of /proc/PID/stat that are asked for; ``status`` as waitpid would give it."""

    state: str
    parent: int
    session: int
    start_ticks: int
    status: int

    @property
    def dead(self) -> bool:
        """Ended, whether or not its parent has taken notice."""
        return self.state in "ZXx"


def boot_id() -> str:
    """The identity of this boot."""
    return (_PROC / "sys/kernel/random/boot_id").read_text("ascii").strip()


def pid_namespace() -> int:
    """The inode of the namespace in which our pids have their meaning."""
    return (_PROC / "self/ns/pid").stat().st_ino


def stat(pid: int) -> Stat | None:
    """State, parent, session and start time of a process; None where there is no such process."""
    text = _read(pid, "stat")
    if text is None:
        return None
    # The command's name stands in parentheses and may itself hold any of them, and spaces.
    fields = text[text.rfind(b")") + 2 :].split()
    if len(fields) <= _STATUS:
        return None
    numbers = (int(fields[at]) for at in (_PARENT, _SESSION, _START, _STATUS))
    return Stat(fields[0].decode("ascii"), *numbers)


def environment(pid: int) -> bytes | None:
    """The environment a process was started with, entries ending in NUL; None if unreadable."""
    return _read(pid, "environ")


def settled_environment(pid: int) -> bytes:
    """The same, waited for: in the middle of an exec a process has none for a moment."""
    for _ in range(_TRIES):
        environ = environment(pid)
        facts = stat(pid) if environ == b"" else None
        if facts is None or facts.dead:
            return environ or b""
        clock.pause(EXEC_SECONDS)
    return b""


def token_of(environ: bytes) -> str:
    """The trainer's token in an environment, or empty."""
    return value(environ, TOKEN)


def value(environ: bytes, key: bytes) -> str:
    """The value of ``key`` (with its equals sign) in an environment, or empty."""
    block = b"\0" + environ
    at = block.find(b"\0" + key)
    if at < 0:
        return ""
    start = at + 1 + len(key)
    end = block.find(b"\0", start)
    return os.fsdecode(block[start : end if end >= 0 else len(block)])


def session_of(pid: int) -> int:
    """The session of a process; 0 where there is none, or no such process."""
    try:
        return os.getsid(pid)
    except OSError:
        return 0


def pids() -> list[int]:
    """Every process that can be seen now, in the kernel's order."""
    return [int(name) for name in os.listdir(_PROC) if name.isdigit()]  # noqa: PTH208 - names only, in the restart path


def identify(pid: int, token: str) -> Identity | None:
    """The identity of a process that lives now, or None. The caller vouches for the token."""
    facts = stat(pid)
    if facts is None:
        return None
    return Identity(pid, facts.start_ticks, boot_id(), pid_namespace(), token)


def _read(pid: int, name: str) -> bytes | None:
    try:
        descriptor = os.open(f"/proc/{pid}/{name}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        data = piece = os.read(descriptor, _AT_ONCE)
        while len(piece) == _AT_ONCE:
            piece = os.read(descriptor, _AT_ONCE)
            data += piece
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return data
