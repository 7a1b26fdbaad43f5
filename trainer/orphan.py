"""Notice that nobody supervises any more: ``run.lock`` has been free for too long.

The lock is tried now and then, shared and for an instant, so a supervisor that is about to take
it, and tries for two seconds, is not kept from it.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

_SELDOM = 5.0


class OrphanWatch:
    """``after`` is how long, in seconds, the lock may be free."""

    def __init__(self, lock: Path, after: float) -> None:
        self._lock = lock
        self._after = after
        self._interval = min(_SELDOM, after / 20)
        self._next_look = 0.0
        self._free_since: float | None = None

    def abandoned(self, now: float) -> bool:
        """Whether the run has been without a supervisor for too long; mostly costs nothing."""
        if now < self._next_look:
            return False
        self._next_look = now + self._interval
        if not self._is_free():
            self._free_since = None
            return False
        if self._free_since is None:
            self._free_since = now
        return now - self._free_since >= self._after

    def _is_free(self) -> bool:
        try:
            descriptor = os.open(self._lock, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return True
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return False
        finally:
            os.close(descriptor)
        return True
