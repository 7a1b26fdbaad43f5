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


class Torn(NamedTuple):
    """A line that states no chain, and the byte at which it begins."""

    start: int
    line: bytes


class Tail(NamedTuple):
    """The last whole lines, without newlines, and the byte behind them, to follow from.

    ``torn`` lines stand among them.
    """

    lines: list[bytes]
    offset: int
    torn: tuple[Torn, ...] = ()


def tail(path: Path, n: int) -> list[bytes]:
    """The last ``n`` whole lines, torn ones left out. Raises OSError."""
    return tail_at(path, n).lines


def tail_at(path: Path, n: int) -> Tail:
    """The last ``n`` whole lines and where they end; reads from the end only. Raises OSError."""
    with _opened(path) as (descriptor, size):
        found: deque[bytes] = deque()
        torn: deque[Torn] = deque()
        offset = _last_newline(descriptor, size) + 1
        start = offset
        for line in _backwards(descriptor, offset) if n > 0 else ():
            start -= len(line) + 1
            if stated(line) is None:
                torn.appendleft(Torn(start, line))
                continue
            found.appendleft(line)
            if len(found) == n:
                break
    return Tail(list(found), offset, tuple(torn))


def follow(path: Path, offset: int, limit: int = 1 << 20) -> Tail:
    """Whole lines that came behind ``offset``, at most ``limit`` bytes of them. Raises OSError."""
    with _opened(path) as (descriptor, _):
        data = os.pread(descriptor, limit, offset)
    end = data.rfind(b"\n") + 1
    if not end and len(data) == limit:
        end = limit  # a torn piece longer than any line
    lines, torn, at = [], [], offset
    for line in data[:end].removesuffix(b"\n").split(b"\n") if end else ():
        if stated(line) is None:
            torn.append(Torn(at, line))
        else:
            lines.append(line)
        at += len(line) + 1
    return Tail(lines, offset + end, tuple(torn))


def _backwards(descriptor: int, stop: int) -> Iterator[bytes]:
    """The lines of a file whose last newline is the byte before ``stop``, the last one first."""
    at, carry = stop - 1, b""
    while at > 0:
        begin = max(0, at - BLOCK)
        carry, *lines = (os.pread(descriptor, at - begin, begin) + carry).split(b"\n")
        at = begin
        yield from reversed(lines)
    if stop:
        yield carry


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
