"""Appends steps to the ledger under the replay rule; nothing here can shorten it.

A replayed step whose facts equal an earlier attempt's line adds nothing and proves one step more.
From the first difference on every step is appended, which the canonical view brings about by
itself: the first appended line voids all later ones, so none is left to be equal to.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Self

from supervisor.core.chain import close
from supervisor.core.messages import LedgerPosition
from supervisor.errors import LedgerError
from supervisor.sidecars.ledger import losses
from supervisor.sidecars.ledger.batch import Batch
from supervisor.sidecars.ledger.line import Layout, cut, torn_time, written_name
from supervisor.sidecars.ledger.opening import (
    Found,
    TornRegion,
    read_back,
    refuse_unless_alone,
)
from supervisor.sidecars.ledger.replay import Lockstep, Outcome, Replay, Standing
from supervisor.sidecars.ledger.segments import Stretch
from trainer.contract.durable import AppendFile
from trainer.contract.wire import Step

MAX_WRITE = 1 << 16


class Cut(NamedTuple):
    """A rewind or pivot to ``step`` when the ledger ended at ``at``; lines above count no more."""

    step: int
    at: LedgerPosition


class Ledger:
    """The open ledger. One writer only, which the run's lock ensures."""

    def __init__(self, file: AppendFile, path: Path, run: str, found: Found) -> None:
        self._file = file
        self._path = path
        self._run = run
        self._segments = found.segments
        self._lockstep = Lockstep(file.descriptor, found.segments)
        self._partial = found.partial
        self._writer, self._extras = found.attempt, found.extras  # of the last line
        self._borne = frozenset(found.marks)
        self._region = found.region
        self._marks: deque[str] = deque()
        self._attempt = self._resumed = self._next = 0
        self._cut: Cut | None = None
        self.position = found.position
        self.torn: TornRegion | None = found.torn

    @classmethod
    def open(cls, path: Path, run: str, after: LedgerPosition | None, *, fresh: bool) -> Self:
        """Open to append and verify from ``after``, the newest seal's position (None: all).

        ``run`` is what the first line's mark says behind ``run:``: the identity, and where the run
        comes from. A ``fresh`` run's file may be absent and is created. Raises LedgerError for a
        ledger that is missing, shorter than ``after``, of another run, or one of two; OSError.
        """
        refuse_unless_alone(path, fresh=fresh)
        file = AppendFile(path, create=fresh)
        try:
            # What an earlier life could not sync may be in memory only: read it from the disk.
            file.settle(after.bytes if after else 0)
            found = read_back(file.descriptor, path, run, after)
            if found.bare:
                file.append(b"\n")
                file.sync()  # lost before later lines, it would spoil the first of all
        except BaseException:
            file.close()
            raise
        return cls(file, path, run, found)

    def note_cut(self, cut: Cut) -> None:
        """Take a rewind or a pivot into account, before an attempt begins.

        Raises LedgerError where the ledger is shorter than it was then.
        """
        if self.position.entries < cut.at.entries:
            raise LedgerError(
                f"cannot use the ledger {self._path}: it holds {self.position.entries} lines, but"
                f" the rewind or pivot to step {cut.step} speaks of {cut.at.entries}; put the"
                " whole file back"
            )
        self._cut = cut
        self._segments.cut(cut.step, cut.at.entries)

    @property
    def last_step(self) -> int:
        """The last step that stands: the last line's, or that of a rewind or pivot since."""
        if self._cut is not None and self.position.entries == self._cut.at.entries:
            return self._cut.step
        return self.position.step

    def begin(self, attempt: int, resumed: int, digest: str) -> None:
        """Steps of ``attempt`` come next; it resumed after step ``resumed`` (0: from nothing).

        ``digest`` is that of the ``.bin`` it loaded, empty for none. May be said again for an
        attempt that has lines already. Raises LedgerError if the ledger ends before ``resumed``.
        """
        entries = self.position.entries
        if entries and resumed > self.position.step:
            raise LedgerError(
                f"cannot begin attempt {attempt} after step {resumed}: the ledger {self._path}"
                f" ends at step {self.position.step}"
            )
        self._attempt, self._resumed, self._next = attempt, resumed, 0
        self._marks = deque(mark for mark in self._marks if not mark.startswith(("run:", "from:")))
        # The first line of all bears the run's mark, so that attempt's own mark comes second.
        if digest and (self._writer != attempt or entries == 1):
            self._marks.appendleft(f"from:{digest[:32]}")
        if not entries:
            self._marks.appendleft(f"run:{self._run}")
        self._lockstep.forget()

    def mark(self, text: str) -> None:
        """Put ``text`` on the next appended line, unless one behind the newest seal bears it."""
        if text not in self._borne and text not in self._marks:
            self._marks.append(text)

    def record(self, attempt: int, policy: int, steps: Sequence[Step], wall: str) -> Outcome:
        """Take steps in, in order, stamped ``wall``.

        Lines that this attempt has already are passed over; should one not be equal, it stands and
        ``difference`` says so. After an OSError give the same steps again: what is owed is written
        first, from the byte where it stopped. Raises OSError; LedgerError for a step that would
        leave a gap.
        """
        if attempt != self._attempt:
            raise ValueError(f"cannot record attempt {attempt}: attempt {self._attempt} has begun")
        self._file.append(b"")
        self._check_order(steps)
        replay = Replay(attempt, policy)
        taken = 0
        position = self.position
        last: Standing | None = None
        for step in steps:
            standing = self._standing(step.step)
            if standing is None or not replay.repeats(step, standing):
                break
            taken += 1
            last = standing
        rest = steps[taken:]
        if rest:
            self._append(policy, rest, wall, replay.difference)
            position = self.position
        elif last is not None:
            position = self._lockstep.position(last)
            self._next = steps[-1].step + 1
        return Outcome(
            position,
            replay.proved,
            replay.consistent,
            replay.differed,
            replay.difference,
            len(rest),
            replay.origin,
        )

    def losses(self, first: int, last: int) -> dict[int, float | str]:
        """The loss of each of these steps that stands behind where this was opened, or its word.

        Raises OSError, LedgerError.
        """
        return losses.standing(Lockstep(self._file.descriptor, self._segments), first, last)

    @property
    def lost(self) -> bool:
        """Whether a sync has failed, so that only opening anew helps."""
        return self._file.lost

    def sync(self) -> None:
        """Make every line durable. Raises OSError, and at every later call and record too.

        What a failed sync left out may be gone though a second one succeeds. Close and open again:
        opening reads back from the disk, and the lines that are lost are recorded anew.
        """
        self._file.sync()

    def close(self) -> None:
        """Give the file back."""
        self._file.close()

    def _check_order(self, steps: Sequence[Step]) -> None:
        """Steps follow each other; only going over known ones again may begin lower."""
        expected = 0
        for step in steps:
            if step.step <= self._resumed:
                expected = self._resumed + 1
            elif not expected and step.step <= (self._next or step.step):
                expected = step.step
            if step.step != (expected or self._next):
                raise LedgerError(
                    f"cannot record step {step.step} of attempt {self._attempt}: step"
                    f" {expected or self._next} is next"
                )
            expected = step.step + 1

    def _standing(self, step: int) -> Standing | None:
        standing = self._lockstep.at(step)
        if standing is None and step <= self.last_step and self._partial:
            self._read_all()
            standing = self._lockstep.at(step)
        return standing

    def _read_all(self) -> None:
        """An attempt that resumed before the newest seal needs lines that opening did not read."""
        found = read_back(self._file.descriptor, self._path, self._run, None)
        if found.position != self.position:
            raise LedgerError(
                f"cannot compare a replay with the ledger {self._path}: it verifies up to entry"
                f" {found.position.entries} of {self.position.entries} only; run stepkeeper audit"
            )
        self._segments, self._partial = found.segments, False
        if self._cut is not None:
            self._segments.cut(self._cut.step, self._cut.at.entries)
        self._lockstep = Lockstep(self._file.descriptor, found.segments)

    def _append(self, policy: int, steps: Sequence[Step], wall: str, difference: str) -> None:
        first = steps[0].step
        if self.position.entries and first > self.position.step + 1:
            raise LedgerError(
                f"cannot append step {first} of attempt {self._attempt} to {self._path}: the"
                f" ledger ends at step {self.position.step}"
            )
        if self._writer != self._attempt:
            self._extras = tuple(written_name(name) for name, _ in steps[0].extras)
            self._writer = self._attempt
        layout = Layout(self._attempt, policy, self._extras)
        self._lockstep.forget()
        batch = Batch(self._file.size)
        chain = self.position.chain
        for step in steps:
            mark = self._marks[0] if self._marks else ""
            if self._region:
                batch, piece, mark, chain = self._cover(layout, step, wall)
            else:
                piece, chain = close(chain, layout.body(step, mark, wall))
            if batch.size + len(piece) > MAX_WRITE and batch.pieces:
                self._give(batch, difference)
                batch = Batch(self._file.size)
            batch.add(step.step, piece, chain)
            self._region = b""
            if mark:
                self._marks.remove(mark)
            if not self.position.entries:  # a power cut that took its bytes and kept later ones
                self._give(batch, difference)  # would leave a ledger that names no run
                self._file.sync()
                batch = Batch(self._file.size)
        if batch.pieces:
            self._give(batch, difference)

    def _cover(self, layout: Layout, step: Step, wall: str) -> tuple[Batch, bytes, str, str]:
        """The line that follows a torn region: the torn piece completed, or closed off."""
        closed, fragment = cut(self._region)
        size = self._file.size
        when = torn_time(fragment, wall)
        for mark in (*self._marks, "") if fragment else ():
            line, chain = close(self.position.chain, layout.body(step, mark, when), closed)
            if line.startswith(fragment):
                return Batch(size - len(fragment)), line[len(fragment) :], mark, chain
        ending = b"\n" if fragment else b""
        mark = self._marks[0] if self._marks else ""
        line, chain = close(
            self.position.chain, layout.body(step, mark, wall), self._region + ending
        )
        return Batch(size + len(ending)), ending + line, mark, chain

    def _give(self, batch: Batch, difference: str) -> None:
        """One write. What it leaves out is owed: the state counts it, the file goes on there."""
        first, number = batch.steps[0], self.position.entries + 1
        attempts = [self._attempt] * len(batch.steps)
        ends = [self._file.size + end for end in batch.ends]
        self._segments.extend(Stretch(batch.start, number, batch.steps, attempts, ends))
        segment = self._segments.find(first)
        if segment is not None and segment.voided and segment.first == first:
            segment.difference = difference
        self.position = LedgerPosition(
            self.position.entries + len(batch.steps), ends[-1], batch.chain, batch.steps[-1]
        )
        self._next = batch.steps[-1] + 1
        self._file.append(b"".join(batch.pieces))
