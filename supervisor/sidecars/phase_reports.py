"""Single reports out of an attempt's ``reports.jsonl``: phases, a step, a save; not all lines."""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from trainer.contract.wire import Checkpoint, Phase, Step, WireError, read_report

_CHECKPOINT = b'"checkpoint"'
_PHASE = re.compile(rb'"report"\s*:\s*"phase"')


def phases(path: Path, start: int = 0) -> Iterator[Phase]:
    """The phases that were reported from byte ``start`` on, a line's begin, in order.

    A line that is no report is passed over, as is an attempt without reports. Raises OSError.
    """
    with _mapped(path) as data:
        end = data.rfind(b"\n") + 1
        while (found := _PHASE.search(data, start, end)) is not None:
            line, start = _line_at(data, found.start())
            report = _read(line)
            if isinstance(report, Phase):
                yield report


def step(path: Path, number: int) -> Step | None:
    """The report of a step, or None where there is none. Raises OSError."""
    wanted = re.compile(rb'"step"\s*:\s*%d\s*[,}]' % number)
    with _mapped(path) as data:
        start, end = 0, data.rfind(b"\n") + 1
        while (found := wanted.search(data, start, end)) is not None:
            line, start = _line_at(data, found.start())
            report = _read(line)
            if isinstance(report, Step) and report.step == number:
                return report
    return None


def last_save(path: Path) -> float | None:
    """Seconds that the newest checkpoint took, or None where none is reported. Raises OSError."""
    with _mapped(path) as data:
        end = data.rfind(b"\n") + 1
        while (at := data.rfind(_CHECKPOINT, 0, end)) >= 0:
            report = _read(_line_at(data, at)[0])
            if isinstance(report, Checkpoint):
                return report.seconds
            end = at
    return None


def _line_at(data: mmap.mmap | bytes, where: int) -> tuple[bytes, int]:
    """The whole line around a byte, and where the next one begins."""
    end = data.find(b"\n", where) + 1
    return data[data.rfind(b"\n", 0, where) + 1 : end - 1], end


def _read(line: bytes) -> object:
    try:
        return read_report(line)
    except WireError:
        return None


@contextmanager
def _mapped(path: Path) -> Iterator[mmap.mmap | bytes]:
    """The file's bytes; none where it is not there or empty."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        yield b""
        return
    try:
        if not os.fstat(descriptor).st_size:
            yield b""
            return
        with mmap.mmap(descriptor, 0, prot=mmap.PROT_READ) as data:
            yield data
    finally:
        os.close(descriptor)
