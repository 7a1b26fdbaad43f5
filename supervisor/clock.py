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


def wall_of(seconds: float) -> str:
    """Seconds since 1970 as ``2026-01-31T12:00:00Z``."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def unix() -> float:
    """Wall seconds since 1970: what the clock says now, which may be set at any time."""
    return time.time()


def since_boot() -> float:
    """Seconds since this boot, sleep included: how long a machine has been rented."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def pause(seconds: float) -> None:
    """Block the calling thread; for waiting commands, never for the daemon's loop."""
    time.sleep(seconds)
