"""When things were reported, read from an attempt's ``reports.jsonl`` without reading all of it."""

from __future__ import annotations

import json
import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_WAIT = b'"wait"'
_LOOKED_AT = 1000  # lines around a place that may be no report of a step


class ReportTimes:
    """The reports of one attempt as they are now; steps only grow from line to line.

    ``first`` and ``last`` are the times of the first and the last whole line, ``ready`` that of
    the report ``ready``, each None where there is none. ``last_step`` is 0 without a step.
    """

    def __init__(self, data: mmap.mmap | bytes) -> None:
        self._data = data
        self._end = data.rfind(b"\n") + 1
        self.first = self.last = self.ready = None
        self.last_step = 0
        for record in self._forwards(0):
            self.first = _at(record) if self.first is None else self.first
            if record.get("report") in ("ready", "step"):
                self.ready = _at(record) if record["report"] == "ready" else None
                break
        for record in self._backwards():
            self.last = _at(record) if self.last is None else self.last
            if record.get("report") == "step":
                self.last_step = int(record["step"])
                break

    def at(self, step: int) -> float | None:
        """When a step was reported, or None where it was not."""
        low, high = 0, self._end
        while low < high:
            middle = self._start_of((low + high) // 2)
            found = self._next_step(middle)
            if found is None or found[1]["step"] >= step:
                if found is not None and found[1]["step"] == step:
                    return _at(found[1])
                high = middle if middle < high else low
            else:
                low = found[0]
        return None

    def waited(self, begin: float, end: float) -> float:
        """Seconds of waits between two times of the trainer's clock."""
        seconds, where = 0.0, self._data.find(_WAIT, 0, self._end)
        while where >= 0:
            start = self._start_of(where)
            pair = [record for _, record in zip(range(2), self._forwards(start), strict=False)]
            if len(pair) > 1 and pair[0].get("what") == "wait":
                since, until = (_at(record) for record in pair)
                if since is not None and until is not None:
                    seconds += max(0.0, min(end, until) - max(begin, since))
            where = self._data.find(_WAIT, where + 1, self._end)
        return seconds

    def _next_step(self, start: int) -> tuple[int, dict[str, Any]] | None:
        """The first report of a step from a line's start on, and where its line ends."""
        for end, record in self._lines(start):
            if record.get("report") == "step" and type(record.get("step")) is int:
                return end, record
        return None

    def _start_of(self, where: int) -> int:
        return self._data.rfind(b"\n", 0, where) + 1

    def _forwards(self, start: int) -> Iterator[dict[str, Any]]:
        return (record for _, record in self._lines(start))

    def _lines(self, start: int) -> Iterator[tuple[int, dict[str, Any]]]:
        for _ in range(_LOOKED_AT):
            end = self._data.find(b"\n", start, self._end) + 1
            if not end:
                return
            yield end, _record(self._data[start:end])
            start = end

    def _backwards(self) -> Iterator[dict[str, Any]]:
        end = self._end
        for _ in range(_LOOKED_AT):
            if end <= 0:
                return
            start = self._start_of(end - 1)
            yield _record(self._data[start:end])
            end = start


def _record(line: bytes) -> dict[str, Any]:
    """A report, or nothing where the line is none."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return record if isinstance(record, dict) else {}


def _at(record: dict[str, Any]) -> float | None:
    at = record.get("at")
    return float(at) if isinstance(at, int | float) and not isinstance(at, bool) else None


@contextmanager
def report_times(path: Path) -> Iterator[ReportTimes | None]:
    """The times of a reports file, None where it is not there or empty. Raises OSError."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        yield None
        return
    try:
        if not os.fstat(descriptor).st_size:
            yield None
            return
        with mmap.mmap(descriptor, 0, prot=mmap.PROT_READ) as data:
            yield ReportTimes(data)
    finally:
        os.close(descriptor)
