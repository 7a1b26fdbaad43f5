"""Reads the canonical lines in step with a replay, 64 KiB at a time, and compares."""

from __future__ import annotations

import os
from typing import NamedTuple

from supervisor.core.chain import stated
from supervisor.core.messages import LedgerPosition
from supervisor.errors import LedgerError
from supervisor.sidecars.ledger.blocks import records
from supervisor.sidecars.ledger.line import data, difference, facts
from supervisor.sidecars.ledger.segments import Segment, Segments
from trainer.contract.wire import Step

_READ = 1 << 16


class Outcome(NamedTuple):
    """What became of the steps given.

    ``position`` is the end of the canonical line of the last one. ``proved`` of them equalled an
    earlier attempt's line, ``consistent`` ones too but without a data digest. ``differed`` is the
    first one whose facts were not equal, or None, and ``difference`` says how. ``appended`` lines
    were added by this call. ``origin`` is the earlier attempt whose line was compared last, or 0.
    """

    position: LedgerPosition
    proved: int = 0
    consistent: int = 0
    differed: int | None = None
    difference: str = ""
    appended: int = 0
    origin: int = 0


class Standing(NamedTuple):
    """A canonical line, without newline, and the segment that it stands in."""

    line: bytes
    segment: Segment


class Lockstep:
    """The canonical line of one step after the other; going on is cheap, jumping costs a seek."""

    __slots__ = ("_descriptor", "_index", "_lines", "_offset", "_segment", "_segments", "_step")

    def __init__(self, descriptor: int, segments: Segments) -> None:
        self._descriptor = descriptor
        self._segments = segments
        self.forget()

    def forget(self) -> None:
        """Read anew the next time; called when lines were added."""
        self._segment: Segment | None = None
        self._lines: list[bytes] = []
        self._index = self._step = self._offset = 0

    def at(self, step: int) -> Standing | None:
        """The line that stands for the step, or None. Raises OSError."""
        segment = self._segment
        if segment is None or step != self._step or step > segment.last:
            segment = self._seek(step)
            if segment is None:
                return None
        return Standing(self._next(), segment)

    def position(self, standing: Standing) -> LedgerPosition:
        """Where the line that ``at`` gave last ends."""
        step = self._step - 1
        number = standing.segment.number + step - standing.segment.first
        return LedgerPosition(number, self._offset, stated(standing.line) or "", step)

    def _seek(self, step: int) -> Segment | None:
        self.forget()
        segment = self._segments.find(step)
        if segment is not None:
            self._segment, self._step, self._offset = segment, segment.first, segment.start
            while self._step < step:
                self._next()
        return segment

    def _next(self) -> bytes:
        if self._index == len(self._lines):
            self._fill()
        line = self._lines[self._index]
        self._index += 1
        self._offset += len(line) + 1
        self._step += 1
        return line

    def _fill(self) -> None:
        size = _READ
        data = os.pread(self._descriptor, size, self._offset)
        while b"\n" not in data and len(data) == size:
            size *= 2
            data = os.pread(self._descriptor, size, self._offset)
        if b"\n" not in data:
            raise LedgerError(
                f"cannot read the ledger's line of step {self._step} at byte {self._offset}: the"
                " file is shorter than it was; put it back"
            )
        self._lines = data[: data.rfind(b"\n")].split(b"\n")
        self._index = 0


class Replay:
    """Compares an attempt's steps with the lines that stand, and counts what came out."""

    __slots__ = (
        "_attempt",
        "_policy",
        "consistent",
        "differed",
        "difference",
        "origin",
        "proved",
    )

    def __init__(self, attempt: int, policy: int) -> None:
        self._attempt = attempt
        self._policy = policy
        self.proved = 0
        self.consistent = 0
        self.differed: int | None = None
        self.difference = ""
        self.origin = 0

    def repeats(self, step: Step, standing: Standing) -> bool:
        """Whether the step adds nothing: it equals the line, or the line is this attempt's own."""
        line, segment = standing
        head = facts(step, self._policy).encode("ascii")
        same = line.startswith(head) and line.startswith(
            data(step).encode("ascii"), line.find(b",", len(head))
        )
        own = segment.attempt == self._attempt
        if not own:
            self.origin = segment.attempt
        if own and segment.voided and step.step == segment.first:
            # The steps of this attempt are gone through again: what was found then still holds.
            self._differ(step, segment.difference or "it took the place of an earlier line")
        if not same:
            changes = difference(records([line])[0] or {}, step, self._policy)
            origin = "its own line, which stands" if own else f"attempt {segment.attempt}"
            self._differ(step, f"{changes} ({origin})")
        elif not own and step.data:
            self.proved += 1
        elif not own:
            self.consistent += 1
        return same or own

    def _differ(self, step: Step, how: str) -> None:
        if self.differed is None:
            self.differed, self.difference = step.step, how
