"""The trainer's only reader of clocks: monotonic seconds, wall time for records, and pauses."""

from __future__ import annotations

import time
from datetime import UTC, datetime


def seconds() -> float:
    """Seconds that only grow; meaningless outside this process."""
    return time.perf_counter()


def wall() -> str:
    """UTC now as ``2026-01-31T12:00:00.123Z``, for records only."""
    now = datetime.now(UTC)  # noqa: TID251 - this module is the reader of clocks
    return now.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


def pause(duration: float) -> None:
    """Block for that many seconds; signal handlers still run."""
    time.sleep(duration)  # noqa: TID251 - this module is the reader of clocks
