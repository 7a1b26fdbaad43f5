"""The whole ledger as columns, one row for each physical line, read once and in order.

For readers that want every line at once: a million lines take a second and some thirty megabytes.
Never locks, never writes, and goes on after a bad line, whose row has step -1.
"""

from __future__ import annotations

import os
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

from supervisor.sidecars.ledger.blocks import blocks, ends, records
from supervisor.sidecars.ledger.segments import Segment, Segments, Stretch

_values = itemgetter("step", "loss", "nonfinite", "arm", "policy", "attempt")
_LOSSES = ({float}, {float, type(None)}, {type(None)})
_NAN = float("nan")
_MOST = (1 << 63) - 1
_NAMED = 10  # bad lines whose reason is kept


class _Numbers(dict[str, int]):
    """Numbers words from 0 in the order in which they come."""

    def __missing__(self, word: str) -> int:
        self[word] = number = len(self)
        return number


class Columns:
    """The row of line n is ``[n - 1]``; ``losses`` are NaN where none is known.

    ``words`` says by line what a loss was that is not finite, ``arms`` is a place in ``names``.
    ``bad`` names the first lines that are none, ``bad_lines`` counts all.
    """

    def __init__(self, path: Path) -> None:
        self.steps = array("q")
        self.losses = array("d")
        self.arms = array("I")
        self.words: dict[int, str] = {}
        self.policies: dict[int, int] = {}  # by attempt, which has one policy
        self.bad: list[tuple[int, str]] = []
        self.bad_lines = 0
        self._path = path
        self._numbers = _Numbers()
        self._starts: list[int] = []  # the byte at which each block of lines begins,
        self._lines: list[int] = []  # and its first line
        self._segments = Segments()

    @property
    def names(self) -> list[str]:
        """The arm fields of the lines, as ``arms`` counts them."""
        return list(self._numbers)

    @property
    def standing(self) -> list[Segment]:
        """Which lines count, in the order of steps, which is that of lines too."""
        return list(self._segments)

    @property
    def voided(self) -> list[tuple[int, int]]:
        """First and last line of each stretch that does not count; bad lines may be among them."""
        found = []
        after = 0
        for segment in self.standing:
            if segment.number > after + 1:
                found.append((after + 1, segment.number - 1))
            after = segment.number + segment.last - segment.first
        if after < len(self.steps):
            found.append((after + 1, len(self.steps)))
        return found

    def line_of(self, step: int) -> int | None:
        """The line that counts for a step, or None."""
        segment = self._segments.find(step)
        return None if segment is None else segment.number + step - segment.first

    def texts(self, lines: Iterable[int]) -> dict[int, bytes]:
        """These lines as they stand in the file, without newlines. Raises OSError."""
        found: dict[int, bytes] = {}
        descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            size = os.fstat(descriptor).st_size
            for line in lines:
                at = bisect_right(self._lines, line) - 1
                ahead = line - self._lines[at]
                for block in blocks(descriptor, self._starts[at], size):
                    if ahead < len(block):
                        found[line] = block[ahead]
                        break
                    ahead -= len(block)
        finally:
            os.close(descriptor)
        return found

    def take(self, start: int, lines: list[bytes]) -> int:
        """The next lines, of which the first begins at byte ``start``; the byte behind them."""
        number = len(self.steps) + 1
        self._starts.append(start)
        self._lines.append(number)
        offsets = ends(start, lines)
        if not self._add(records(lines), Stretch(start, number, (), (), offsets)):
            for nth, line in enumerate(lines):
                begin = offsets[nth - 1] if nth else start
                where = Stretch(begin, number + nth, (), (), offsets[nth : nth + 1])
                if not self._add(records([line]), where):
                    self._lose(number + nth, line)
        return offsets[-1]

    def _add(self, parsed: Sequence[dict[str, Any] | None], where: Stretch) -> bool:
        """Take lines of which each is a ledger line; False, and nothing taken, for others."""
        try:
            rows = zip(*map(_values, parsed), strict=True)  # type: ignore[arg-type] # None raises TypeError
            steps, losses, words, arms, policies, attempts = rows
        except (KeyError, TypeError):
            return False
        if not _good(steps, losses, arms, (*policies, *attempts)):
            return False
        self.policies.update(zip(attempts, policies, strict=True))
        if words.count("") != len(words):
            told = zip(range(where.number, where.number + len(words)), words, strict=True)
            self.words.update((line, str(word)) for line, word in told if word)
        unknown = losses.count(None)
        self.losses.extend(_NAN if x is None else x for x in losses) if unknown else (
            self.losses.extend(losses)
        )
        self.steps.extend(steps)
        self.arms.extend(map(self._numbers.__getitem__, arms))
        self._segments.extend(Stretch(where.start, where.number, steps, attempts, where.ends))
        return True

    def _lose(self, number: int, line: bytes) -> None:
        self.steps.append(-1)
        self.losses.append(_NAN)
        self.arms.append(0)
        self.bad_lines += 1
        if len(self.bad) < _NAMED:
            self.bad.append((number, f"torn or no ledger line: {line[:60]!r}"))


def read(
    path: Path, stop: int | None = None, progress: Callable[[int, int], None] | None = None
) -> Columns:
    """Every whole line up to byte ``stop``, or up to where the file ends now. Raises OSError.

    ``progress`` hears of bytes read and of all.
    """
    columns = Columns(path)
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        size = os.fstat(descriptor).st_size
        size = size if stop is None else min(size, stop)
        at = 0
        for lines in blocks(descriptor, 0, size):
            at = columns.take(at, lines)
            if progress is not None:
                progress(at, size)
    finally:
        os.close(descriptor)
    return columns


def _good(
    steps: Sequence[Any], losses: Sequence[Any], arms: Sequence[Any], numbers: Sequence[Any]
) -> bool:
    return (
        set(map(type, steps)) == {int}
        and 0 <= min(steps) <= max(steps) <= _MOST
        and set(map(type, losses)) in _LOSSES
        and set(map(type, arms)) == {str}
        and set(map(type, numbers)) == {int}
    )
