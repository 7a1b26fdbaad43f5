"""Commands that own child processes end by SIGTERM and a vanished terminal as by Ctrl-C."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator


@contextlib.contextmanager
def ends_are_interrupts() -> Iterator[None]:
    """Within it SIGTERM and SIGHUP raise KeyboardInterrupt, so that children are seen to."""
    before = {
        number: signal.signal(number, signal.default_int_handler)
        for number in (signal.SIGTERM, signal.SIGHUP)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def interrupts_wait() -> Iterator[None]:
    """Within it no interrupt is raised; one that came is raised behind it.

    A child that is started meanwhile is known before anything can end this process.
    """
    came: list[int] = []
    before = {}
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if callable(signal.getsignal(number)):  # what is ignored stays so, in the child too
            before[number] = signal.signal(number, lambda number, _: came.append(number))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if came:
        raise KeyboardInterrupt
