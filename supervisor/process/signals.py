"""Turn signals to the supervisor into events: handlers only record, the loop drains."""

from __future__ import annotations

import contextlib
import signal
import socket
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any, Self

from supervisor.core.messages import Signalled

HANDLED = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP)
_NAMES = {int(number): number.name.removeprefix("SIG") for number in HANDLED}


def block() -> None:
    """Hold handled signals back over a re-exec; entering ``Signals`` in the next life lets them in.

    Holds for the calling thread alone, so no other one may run any more: it would take them.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED)


@contextlib.contextmanager
def held_from_threads() -> Iterator[None]:
    """A thread started meanwhile takes no handled signal, so none is lost to it over a re-exec."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Signals:
    """While entered (main thread only), TERM, INT, USR1 and HUP make ``fileno()`` readable.

    Entering lets in what ``block`` held back; leaving puts back in reverse what was there.
    """

    def __init__(self) -> None:
        self._undo = contextlib.ExitStack()
        self._reader: socket.socket | None = None

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as undo:
            reader, writer = socket.socketpair()
            undo.callback(writer.close)
            undo.callback(reader.close)
            reader.settimeout(0)
            writer.settimeout(0)
            before = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
            undo.callback(signal.set_wakeup_fd, before)
            for number in HANDLED:
                undo.callback(_restore, number, signal.signal(number, _record))
            signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDLED)
            self._reader = reader
            self._undo = undo.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._reader = None
        self._undo.close()

    def fileno(self) -> int:
        """A descriptor that turns readable when a signal has come."""
        return -1 if self._reader is None else self._reader.fileno()

    def drain(self) -> list[Signalled]:
        """What has come since the last call, in order; never blocks."""
        numbers = b""
        while self._reader is not None:
            try:
                numbers += self._reader.recv(4096)
            except BlockingIOError:
                break
        return [Signalled(_NAMES[number]) for number in numbers if number in _NAMES]


def _record(_number: int, _frame: FrameType | None) -> None:
    """Nothing: the interpreter has already written the number to the wake-up descriptor."""


def _restore(number: signal.Signals, handler: Any) -> None:  # noqa: ANN401 - as signal gives it
    signal.signal(number, signal.SIG_DFL if handler is None else handler)


def hold_back(signals: Signals) -> None:
    """Block, and leave pending what has come and was not drained: the next life takes it."""
    block()
    numbers = {name: number for number, name in _NAMES.items()}
    for signalled in signals.drain():
        # To this thread: another one, of a library perhaps, does not block it and would take it.
        signal.pthread_kill(threading.get_ident(), numbers[signalled.name])
