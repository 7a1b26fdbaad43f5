"""Children of the scripted trainer that ignore both signals and outlive it."""

from __future__ import annotations

import sys

_WORKER = (
    "import signal, time\n"
    "signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.signal(signal.SIGUSR1, signal.SIG_IGN)\n"
    "time.sleep(300)"
)


def start_workers(count: int, stray: int) -> None:
    """Start ``count`` of them, and ``stray`` in sessions of their own."""
    for number in range(count + stray):
        from subprocess import DEVNULL, Popen  # noqa: PLC0415 - only where it is needed

        command = [sys.executable, "-S", "-c", _WORKER]
        Popen(command, start_new_session=number >= count, stdin=DEVNULL, close_fds=True)
