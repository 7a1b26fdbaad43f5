"""The last lines of a chained file and those that come, read from the end: never locks or writes.

Imports next to nothing, since an operator's ``tail`` must answer at once.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from supervisor.core.chain import stated

BLOCK = 1 << 16


class Tail(NamedTuple):
    """The last whole lines, without newlines, and the byte behind them, to follow from."""

    lines: list[bytes]
    offset: int


def tail(path: Path, n: int) -> list[bytes]:
    """The last ``n`` whole lines, torn ones left out. Raises OSError."""
    return tail_at(path, n).lines


def tail_at(path: Path, n: int) -> Tail:
    """The last ``n`` whole lines and where they end; reads from the end only. Raises OSError."""
    with _opened(path) as (descriptor, size):
        found: deque[bytes] = deque()
        offset = _last_newline(descriptor, size) + 1
        at, carry = offset - 1, b""
        while at > 0 and len(found) < n:
            begin = max(0, at - BLOCK)
            carry, *lines = (os.pread(descriptor, at - begin, begin) + carry).split(b"\n")
            at = begin
            if not at:
                lines.insert(0, carry)
            found.extendleft(line for line in reversed(lines) if stated(line) is not None)
    return Tail(list(found)[-n:] if n > 0 else [], offset)


def follow(path: Path, offset: int, limit: int = 1 << 20) -> Tail:
    """Whole lines that came behind ``offset``, at most ``limit`` bytes of them. Raises OSError."""
    with _opened(path) as (descriptor, _):
        data = os.pread(descriptor, limit, offset)
    end = data.rfind(b"\n") + 1
    if not end and len(data) == limit:
        end = limit  # a torn piece longer than any line
    lines = [line for line in data[:end].split(b"\n") if stated(line) is not None]
    return Tail(lines, offset + end)


def _last_newline(descriptor: int, size: int) -> int:
    """The byte of the last newline, or -1."""
    while size > 0:
        begin = max(0, size - BLOCK)
        at = os.pread(descriptor, size - begin, begin).rfind(b"\n")
        if at >= 0:
            return begin + at
        size = begin
    return -1


@contextmanager
def _opened(path: Path) -> Iterator[tuple[int, int]]:
    """A descriptor to read from, and the size of the file now."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield descriptor, os.fstat(descriptor).st_size
    finally:
        os.close(descriptor)
