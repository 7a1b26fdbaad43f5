"""The only reader of clocks: monotonic seconds for durations, wall time for records."""

from __future__ import annotations

import time
from datetime import UTC, datetime


def monotonic() -> float:
    """Seconds that only grow; meaningless outside this boot."""
    return time.monotonic()


def wall() -> str:
    """UTC now as ``2026-01-31T12:00:00.123Z``, for records only."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


def pause(seconds: float) -> None:
    """Block the calling thread; for waiting commands, never for the daemon's loop."""
    time.sleep(seconds)
