"""The canonical view as a few segments: which lines stand, and where they begin in the file.

A line for step s voids every earlier line with a step of s or more. Segments are lines that
follow each other in the file without a gap in bytes or steps, of one attempt. There are few: one
per attempt that appended and per SPAN lines, so that any line is found near a segment's start.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

SPAN = 4096


@dataclass(slots=True)
class Segment:
    """Steps ``first`` to ``last`` of one attempt, the first of them on line ``number``.

    ``start`` is the byte at which that line begins. ``voided`` says that the segment took the
    place of earlier lines, and ``difference`` why, where this process saw it happen.
    """

    first: int
    last: int
    attempt: int
    start: int
    number: int
    voided: bool = False
    difference: str = ""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Lines that follow each other in the file: where they begin, and steps and attempts of each.

    ``number`` is that of the first line, ``ends`` the byte after each line.
    """

    start: int
    number: int
    steps: Sequence[int]
    attempts: Sequence[int]
    ends: Sequence[int]


class Segments:
    """Segments in the order of steps, kept up while lines are added at the end."""

    __slots__ = ("_end", "_segments")

    def __init__(self) -> None:
        self._segments: list[Segment] = []
        self._end = -1

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    def __len__(self) -> int:
        return len(self._segments)

    @property
    def first(self) -> int | None:
        """The lowest step that stands, or None."""
        return self._segments[0].first if self._segments else None

    @property
    def last(self) -> int | None:
        """The highest step that stands, or None."""
        return self._segments[-1].last if self._segments else None

    def find(self, step: int) -> Segment | None:
        """The segment that holds the step, or None."""
        at = bisect_right(self._segments, step, key=lambda segment: segment.first) - 1
        if at < 0 or step > self._segments[at].last:
            return None
        return self._segments[at]

    def extend(self, stretch: Stretch) -> None:
        """Add lines; whole stretches of one attempt with step after step cost next to nothing."""
        steps, attempts = stretch.steps, stretch.attempts
        count = len(steps)
        if attempts.count(attempts[0]) == count and (
            steps[-1] - steps[0] == count - 1 and all(map(int.__lt__, steps, steps[1:]))
        ):
            self._add(stretch, 0, count)
            return
        at = 0
        for i in range(1, count + 1):
            if i == count or steps[i] != steps[i - 1] + 1 or attempts[i] != attempts[i - 1]:
                self._add(stretch, at, i)
                at = i

    def cut(self, above: int, entries: int) -> None:
        """A rewind: of the first ``entries`` lines none above step ``above`` stands any more.

        The line that follows them took no place of theirs.
        """
        later = [segment for segment in self._segments if segment.number > entries]
        if not later:
            self._void(above + 1)
        for segment in later:
            segment.voided = segment.voided and segment.number != entries + 1

    def _add(self, stretch: Stretch, at: int, until: int) -> None:
        first, last = stretch.steps[at], stretch.steps[until - 1]
        attempt = stretch.attempts[at]
        start = stretch.ends[at - 1] if at else stretch.start
        tail = self._segments[-1] if self._segments else None
        if (
            tail is not None
            and self._end == start
            and (tail.attempt, tail.last + 1) == (attempt, first)
            and tail.last - tail.first < SPAN
        ):
            tail.last = last
        else:
            segment = Segment(first, last, attempt, start, stretch.number + at)
            segment.voided = self._void(first)
            self._segments.append(segment)
        self._end = stretch.ends[until - 1]

    def _void(self, step: int) -> bool:
        """Take away what stands from this step on; True if anything did."""
        voided = False
        while self._segments and self._segments[-1].first >= step:
            self._segments.pop()
            voided = True
        if self._segments and self._segments[-1].last >= step:
            self._segments[-1].last = step - 1
            voided = True
        return voided
