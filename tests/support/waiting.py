"""Waiting for a condition with a deadline; the only place in the tests that sleeps."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(
    condition: Callable[[], T],
    reason: str,
    seconds: float = 20.0,
    describe: Callable[[], str] = lambda: "",
) -> T:
    """Return the first truthy result of ``condition``; fail with ``reason`` after the deadline."""
    deadline = time.monotonic() + seconds
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {seconds} s in vain: {reason}\n{describe()}")
        time.sleep(0.01)
