"""Signals become requests; the work is done at a step's end.

A handler that did the work could stop in the middle of a step, or hang on a lock.
"""

from __future__ import annotations

import faulthandler
import signal
from types import FrameType


class Requests:
    """What signals asked for since the last look. ``stop`` stays once it is set."""

    def __init__(self) -> None:
        self.stop = False
        self._save = False

    def take_save(self) -> bool:
        """Whether a checkpoint was asked for; several requests are one."""
        asked, self._save = self._save, False
        return asked

    def ask_save(self) -> None:
        """Ask for a checkpoint, or give back a request that was taken too early."""
        self._save = True

    def on_stop(self, _number: int, _frame: FrameType | None) -> None:
        """SIGTERM, and SIGINT from a terminal."""
        self.stop = True

    def on_save(self, _number: int, _frame: FrameType | None) -> None:
        """SIGUSR1."""
        self.ask_save()


def ignore_save_requests() -> None:
    """SIGUSR1 would end a process that has no handler yet."""
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)


def show_stacks_when_asked() -> None:
    """SIGQUIT prints what every thread is doing, also from within a call that never returns."""
    faulthandler.register(signal.SIGQUIT, all_threads=True)


def install(requests: Requests) -> None:
    """From now on signals set ``requests``."""
    signal.signal(signal.SIGTERM, requests.on_stop)
    signal.signal(signal.SIGINT, requests.on_stop)
    signal.signal(signal.SIGUSR1, requests.on_save)
