"""How far long work has come, on one line of a terminal that is gone when it ends."""

from __future__ import annotations

import sys
from typing import Self

from supervisor import clock

_QUIET_SECONDS = 0.5
_BETWEEN_SECONDS = 0.1
_WIDTH = 30
_CLEAR = "\r\033[K"


class Progress:
    """Draws on stderr where that is a terminal, and only what takes longer than a moment."""

    def __init__(self) -> None:
        self._shown = False
        self._due = clock.monotonic() + _QUIET_SECONDS if sys.stderr.isatty() else float("inf")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown:
            sys.stderr.write(_CLEAR)
            sys.stderr.flush()

    def show(self, what: str, done: int, total: int) -> None:
        """``done`` of ``total`` bytes are behind us."""
        now = clock.monotonic()
        if now < self._due:
            return
        self._due, self._shown = now + _BETWEEN_SECONDS, True
        share = done / total if total else 1.0
        bar = "#" * round(share * _WIDTH)
        sys.stderr.write(f"{_CLEAR}{what} [{bar:<{_WIDTH}}] {share:4.0%}")
        sys.stderr.flush()
