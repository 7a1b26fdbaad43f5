"""What an audit found, put together from ranges of the ledger in order."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from supervisor.core.messages import LedgerPosition
from supervisor.core.walk import ChainWalk
from supervisor.sidecars.ledger.blocks import blocks
from supervisor.sidecars.ledger.examine import Course, Findings, Hit, Mark, Range


class MarkedLine(NamedTuple):
    """A line with a mark: its number among the whole lines and in the file."""

    entry: int
    line: int
    step: int
    attempt: int
    mark: str


class AttemptLines(NamedTuple):
    """What one attempt appended."""

    attempt: int
    policy: int
    first_step: int
    last_step: int
    first_line: int
    lines: int


@dataclass(frozen=True, slots=True)
class Audit:
    """What a ledger holds, up to its first fault (``fault`` is empty for a good one).

    ``entries`` whole lines end at byte ``bytes`` with ``chain``. ``steps`` stand in the canonical
    view, ``voided`` lines do not. ``torn_regions`` are covered by a later line; ``buried`` lines in
    them look whole. ``torn_tail`` bytes follow the last whole line. ``missed`` are the positions
    asked about that are not the end of their line, and ``head_held`` answers for the head (None:
    not asked, or not known because of an earlier fault).
    """

    run: str
    entries: int
    bytes: int
    chain: str
    first_step: int
    last_step: int
    steps: int
    voided: int
    nonfinite: int
    torn_regions: int
    buried: int
    torn_tail: int
    attempts: tuple[AttemptLines, ...]
    marks: tuple[MarkedLine, ...]
    fault_line: int
    fault: str
    missed: tuple[LedgerPosition, ...] = ()
    head_held: bool | None = None


class Total:
    """Adds up ranges in order; stops at the first fault."""

    def __init__(self, wanted: Collection[str]) -> None:
        self._wanted = wanted
        self._walk = ChainWalk()
        self._run = ""
        self._low = self._high = 0  # the canonical view: all steps between, without gap
        self._voided = 0
        self._nonfinite = 0
        self._attempts: list[AttemptLines] = []
        self._marks: list[MarkedLine] = []
        self._hits: dict[str, Hit] = {}
        self._fault_line = 0
        self.fault = ""

    def add(self, descriptor: int, found: Range) -> None:
        """Take a range's findings, or go over it again where they do not join. Raises OSError."""
        walk = self._walk
        if found.clean and not walk.torn and walk.chain == found.before:
            self._merge(found, walk.entries, walk.line)
            walk.skip(found.lines, found.end, found.after)
            return
        for lines in blocks(descriptor, found.start, found.stop):
            for run in walk.take(lines):
                findings = Findings(self._wanted)
                findings.take(lines[run.at : run.at + run.lines], run.start)
                self._merge(findings, run.number - 1, run.line - 1)

    def result(
        self, size: int, positions: Sequence[LedgerPosition], head: tuple[int, str] | None
    ) -> Audit:
        """The audit of a file of ``size`` bytes."""
        walk = self._walk
        if walk.suspect:
            reason = "does not match its chain"
            if walk.suspect != walk.torn_line:
                reason = f"is torn or changed, and line {walk.suspect} {reason}"
            self._fail(walk.torn_line, reason)
        missed: tuple[LedgerPosition, ...] = ()
        held: bool | None = None
        if not self.fault:
            missed, held = self._missed(positions), self._holds(head)
            self._blame(missed, head if held is False else None)
        return Audit(
            self._run,
            walk.entries,
            walk.end,
            walk.chain,
            self._low,
            self._high,
            self._high - self._low + 1 if walk.entries else 0,
            self._voided,
            self._nonfinite,
            walk.regions,
            walk.buried,
            size - walk.end,
            tuple(self._attempts),
            tuple(self._marks),
            self._fault_line,
            self.fault,
            missed,
            held,
        )

    def _fail(self, line: int, reason: str) -> None:
        """Keep the fault that stands first in the file."""
        if not self.fault or line < self._fault_line:
            self._fault_line, self.fault = line, reason

    def _merge(self, found: Range | Findings, entries: int, line: int) -> None:
        """Findings on whole lines that follow entry ``entries`` and physical line ``line``."""
        if self.fault:
            return
        for course in found.courses:
            self._follow(course, line + course.nth + 1)
        for mark in found.marks:
            self._note(mark, entries + mark.nth + 1, line + mark.nth + 1)
        if not self._run and found.courses:
            self._fail(line + 1, "the first line bears no run's mark")
        for hit in found.hits:
            self._hits[hit.chain] = hit._replace(nth=entries + hit.nth + 1)
        self._nonfinite += found.nonfinite
        if found.fault:
            self._fail(line + found.fault_index + 1, found.fault)

    def _follow(self, course: Course, line: int) -> None:
        """Lines of consecutive steps come next; they must continue what stands."""
        count = course.last - course.first + 1
        if not self._attempts:
            self._low = course.first
            self._attempts.append(AttemptLines(*course[3:], *course[1:3], line, count))
        else:
            before = self._attempts[-1]
            self._explain(before, course, line)
            self._voided += max(0, self._high - max(course.first, self._low) + 1)
            self._low = min(self._low, course.first)
            if before.attempt == course.attempt:
                self._attempts[-1] = before._replace(
                    last_step=course.last, lines=before.lines + count
                )
            else:
                self._attempts.append(AttemptLines(*course[3:], *course[1:3], line, count))
        self._high = course.last

    def _explain(self, before: AttemptLines, course: Course, line: int) -> None:
        """Only a new attempt may go back, and nothing may leave a gap."""
        if course.attempt < before.attempt:
            reason = f"attempt {course.attempt} comes after attempt {before.attempt}"
        elif course.first > self._high + 1:
            reason = f"step {course.first} follows step {self._high}: a gap"
        elif course.attempt > before.attempt:
            return
        elif course.policy != before.policy:
            reason = f"attempt {course.attempt} changes from policy {before.policy}"
        elif course.first <= self._high:
            reason = f"step {course.first} stands twice in attempt {course.attempt}"
        else:
            return
        self._fail(line, reason)

    def _note(self, mark: Mark, entry: int, line: int) -> None:
        self._marks.append(MarkedLine(entry, line, mark.step, mark.attempt, mark.text))
        if mark.text.startswith("run:"):
            if entry == 1:
                self._run = mark.text.removeprefix("run:").partition(" ")[0]
            else:
                self._fail(line, f"a second run's mark: {mark.text}")

    def _missed(self, positions: Sequence[LedgerPosition]) -> tuple[LedgerPosition, ...]:
        """Those that are not the exact end of their line."""
        missed = []
        for position in sorted(positions):
            entries, end, chain, step = position
            hit = self._hits.get(chain)
            if entries and (hit is None or (hit.nth, hit.end, hit.step) != (entries, end, step)):
                missed.append(position)
        return tuple(missed)

    def _holds(self, head: tuple[int, str] | None) -> bool | None:
        """Whether the head's line still stands."""
        if head is None:
            return None
        hit = self._hits.get(head[1])
        return not head[0] or (hit is not None and hit.nth == head[0])

    def _blame(self, missed: tuple[LedgerPosition, ...], lost: tuple[int, str] | None) -> None:
        if missed:
            entries, end, chain, step = missed[0]
            self.fault = (
                f"no line of step {step} with chain {chain} is entry {entries} and ends at"
                f" byte {end}, as a seal says"
            )
        elif lost is not None:
            self.fault = f"entry {lost[0]} with chain {lost[1]} is not held any more"
