"""Go on showing what comes, until Ctrl-C, or until nobody reads it any more."""

from __future__ import annotations

import select
import sys
from collections.abc import Callable

_POLL_MS = 100


def follow(look: Callable[[], bool]) -> int:
    """Call ``look``, which says whether it found anything, again and again; 0 at Ctrl-C.

    Whoever follows ends it with Ctrl-C, so that is no failure. Raises BrokenPipeError.
    """
    try:
        while True:
            if not look():
                _pause()
    except KeyboardInterrupt:
        return 0


def _pause() -> None:
    """Wait a moment. A pipe that nobody reads wakes at once: the next line may never come."""
    gone = select.poll()
    gone.register(sys.stdout.fileno(), 0)
    if gone.poll(_POLL_MS):
        raise BrokenPipeError
