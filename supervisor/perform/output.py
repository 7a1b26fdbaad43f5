"""The supervisor's own output, a line at a time; from a vanished terminal it moves to a file."""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from pathlib import Path

from supervisor import clock, environment

NAME = "supervisor.log"
_STREAMS = (1, 2)


def say(text: str, *, alarm: bool = False) -> None:
    """One line with its time to the supervisor's output; nobody there is no reason to stop.

    A journal stamps its lines itself.
    """
    stamp = "" if environment.in_journal() else f"{clock.wall()} "
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.write(f"{stamp}{'ALARM: ' if alarm else ''}{text}\n")
        sys.stdout.flush()


def terminal_is_gone() -> bool:
    """Whether we were started at a terminal, and it has hung up."""
    return any(_is_device(stream) and not os.isatty(stream) for stream in (0, *_STREAMS))


def _is_device(stream: int) -> bool:
    """Whether it is or was a terminal: one that hung up still is a character device."""
    try:
        facts = os.fstat(stream)
    except OSError:
        return False
    return stat.S_ISCHR(facts.st_mode) and facts.st_rdev != os.stat(os.devnull).st_rdev  # noqa: PTH116 - a device


def leave_terminal(run: Path) -> None:
    """Where the output is a terminal, write to ``supervisor.log`` from now on. Raises OSError.

    A terminal that hung up does not answer as one any more, but its descriptor still is a
    character device.
    """
    if not _is_device(_STREAMS[0]):
        return
    descriptor = os.open(run / NAME, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o640)
    try:
        for stream in _STREAMS:
            os.dup2(descriptor, stream)
    finally:
        os.close(descriptor)
