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
