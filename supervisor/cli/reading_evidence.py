"""The evidence for one step: the line that stands for it, what surrounds it, and its chain."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from supervisor.core.chain import START, TAIL_BYTES, link, stated
from supervisor.sidecars.ledger import find

_BACK = 1000  # lines that a torn region may hold before its extent is left to the audit
_CHUNK = 1 << 20


class Evidence(NamedTuple):
    """A canonical line: its number in the file, its bytes, its fields.

    ``holds`` says whether its chain follows from the bytes before it; ``others`` are the numbers
    of lines for the same step that it took the place of.
    """

    line: int
    text: bytes
    fields: dict[str, Any]
    holds: bool
    others: tuple[int, ...]


def evidence(path: Path, step: int) -> Evidence | None:
    """What there is on a step, or None where no line stands for it. Raises OSError."""
    entry = find(path, step)
    if entry is None:
        return None
    with _mapped(path) as data:
        numbered = list(_number(data, _starts(data, step)))
        start = next(start for start, number in numbered if number == entry.line)
        end = data.find(b"\n", start)
        others = tuple(number for _, number in numbered if number != entry.line)
        return Evidence(entry.line, data[start:end], entry.fields, _holds(data, start, end), others)


def lines_of(path: Path, step: int) -> tuple[int, ...]:
    """The numbers of all lines for a step, whether they stand or not. Raises OSError."""
    with _mapped(path) as data:
        return tuple(number for _, number in _number(data, _starts(data, step)))


def span(path: Path) -> tuple[int, int] | None:
    """The first and the last step on the ledger's first and last line that can be read."""
    with _mapped(path) as data:
        first = data.find(b'{"step":')
        last = data.rfind(b'\n{"step":', 0, max(0, data.rfind(b"\n")))
        last = last + 1 if last >= 0 else first
        if first < 0:
            return None
        return _step_at(data, first), _step_at(data, last)


def _step_at(data: mmap.mmap, start: int) -> int:
    digits = data[start + 8 : start + 28].partition(b",")[0]
    return int(digits) if digits.isdigit() else 0


def _starts(data: mmap.mmap, step: int) -> Iterator[int]:
    """Where lines for the step begin."""
    wanted = b'{"step":%d,' % step
    at = data.find(wanted)
    while at >= 0:
        if at == 0 or data[at - 1 : at] == b"\n":
            yield at
        at = data.find(wanted, at + 1)


def _number(data: mmap.mmap, starts: Iterator[int]) -> Iterator[tuple[int, int]]:
    """The line numbers, from 1, of these starts in ascending order."""
    number, at = 1, 0
    for start in starts:
        while at < start:
            until = min(at + _CHUNK, start)
            number += data[at:until].count(b"\n")
            at = until
        yield start, number


def _holds(data: mmap.mmap, start: int, end: int) -> bool:
    """Whether the line's chain is that of the bytes since a whole line before it."""
    chain = stated(data[start:end])
    at = start
    for _ in range(_BACK):
        before = data.rfind(b"\n", 0, at - 1) + 1 if at else -1
        previous = START if before < 0 else stated(data[before : at - 1])
        if previous and link(previous, data[at : end - TAIL_BYTES]) == chain:
            return True
        if before < 0:
            return False
        at = before
    return False


@contextmanager
def _mapped(path: Path) -> Iterator[mmap.mmap]:
    """The file as it is now, to be read; it must not be empty."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        with mmap.mmap(descriptor, 0, prot=mmap.PROT_READ) as data:
            yield data
    finally:
        os.close(descriptor)
