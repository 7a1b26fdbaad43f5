"""Reads the ledger as it stands on disk: never locks, never writes, goes on after a bad line."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from supervisor.core.chain import TAIL_BYTES, stated
from supervisor.sidecars.ledger.blocks import blocks, ends, records
from supervisor.sidecars.ledger.segments import Segments, Stretch

BadLine = Callable[[int, str], None]

_START = b'{"step":'


class Entry(NamedTuple):
    """A canonical line: its number as ``sed -n Np`` counts, and its fields, chain included."""

    line: int
    fields: dict[str, Any]


def canonical(path: Path, bad: BadLine | None = None) -> Iterator[Entry]:
    """The canonical view in order of steps, in bounded memory: two passes over the file.

    ``bad`` hears of every line that is none (torn ones too) by number and reason. Raises OSError.
    """
    with _opened(path) as (descriptor, size):
        for segment in outline(descriptor, size, bad):
            count = segment.last - segment.first + 1
            number = segment.number
            for block in blocks(descriptor, segment.start, size):
                lines = block[:count]
                for line, record in enumerate(records(lines), number):
                    if record is not None:
                        yield Entry(line, record)
                    elif bad is not None:
                        bad(line, "not a JSON object")
                count -= len(lines)
                number += len(lines)
                if not count:
                    break


def find(path: Path, step: int) -> Entry | None:
    """The canonical line of a step, or None where none stands. Raises OSError."""
    with _opened(path) as (descriptor, size):
        segment = outline(descriptor, size).find(step)
        if segment is None:
            return None
        ahead = step - segment.first
        number = segment.number + ahead
        for lines in blocks(descriptor, segment.start, size):
            if ahead < len(lines):
                record = records(lines[ahead : ahead + 1])[0]
                return None if record is None else Entry(number, record)
            ahead -= len(lines)
    return None


def ends_at(path: Path, end: int, chain: str) -> bool:
    """Whether a whole line with this chain ends at byte ``end`` (0: nothing is asked).

    Raises OSError.
    """
    if not end:
        return True
    with _opened(path) as (descriptor, _):
        start = max(0, end - TAIL_BYTES - 1)
        tail = os.pread(descriptor, end - start, start)
    return tail[-1:] == b"\n" and stated(tail[:-1]) == chain


def outline(descriptor: int, stop: int, bad: BadLine | None = None) -> Segments:
    """Which lines up to byte ``stop`` stand, numbered as in the file. Raises OSError."""
    segments = Segments()
    offset, number = 0, 1
    for lines in blocks(descriptor, 0, stop):
        offsets = ends(offset, lines)
        steps = _steps(lines)
        if len(steps) == len(lines):
            segments.extend(Stretch(offset, number, steps, [0] * len(steps), offsets))
        else:
            _pick(segments, Stretch(offset, number, (), (), offsets), lines, bad)
        offset = offsets[-1]
        number += len(lines)
    return segments


def _pick(segments: Segments, where: Stretch, lines: list[bytes], bad: BadLine | None) -> None:
    """Add the lines that look whole one by one."""
    begin = where.start
    for i, line in enumerate(lines):
        end = where.ends[i]
        steps = _steps([line])
        if steps:
            segments.extend(Stretch(begin, where.number + i, steps, [0], [end]))
        elif bad is not None:
            bad(where.number + i, f"torn or no ledger line: {line[:60]!r}")
        begin = end


def _steps(lines: list[bytes]) -> list[int]:
    """The steps of those lines that look whole."""
    try:
        return [
            int(line[8 : line.index(b",", 8)])
            for line in lines
            if line[:8] == _START and line[-TAIL_BYTES : 10 - TAIL_BYTES] == b',"chain":"'
        ]
    except ValueError:
        return [step for line in lines for step in _steps([line])] if len(lines) > 1 else []


@contextmanager
def _opened(path: Path) -> Iterator[tuple[int, int]]:
    """A descriptor to read from, and the size of the file now."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield descriptor, os.fstat(descriptor).st_size
    finally:
        os.close(descriptor)
