"""Examines whole ledger lines many at a time, and a range of the file in a process of its own."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Collection, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from supervisor.core.chain import stated
from supervisor.core.walk import ChainWalk
from supervisor.sidecars.ledger.blocks import blocks, ends, records
from supervisor.sidecars.ledger.line import AFTER_EXTRAS, BEFORE_EXTRAS

_values = itemgetter("step", "loss", "nonfinite", "lr", "policy", "attempt", "mark")
_LOSSES = ({float}, {float, type(None)}, {type(None)})
_WORDS = ("nan", "inf", "-inf")
_CHAIN_END = 32 + len('"}')


class Course(NamedTuple):
    """Lines that go on step by step in one attempt; ``nth`` is the first one's place, from 0."""

    nth: int
    first: int
    last: int
    attempt: int
    policy: int


class Mark(NamedTuple):
    """A line's mark, and which line it is among those examined, from 0."""

    nth: int
    step: int
    attempt: int
    text: str


class Hit(NamedTuple):
    """A line whose chain was looked for; ``end`` is the byte behind it."""

    nth: int
    end: int
    chain: str
    step: int


class Findings:
    """What stands on lines examined one after the other."""

    def __init__(self, wanted: Collection[str] = ()) -> None:
        self.wanted = frozenset(chain.encode("ascii", "replace") for chain in wanted)
        self.lines = 0
        self.nonfinite = 0
        self.courses: list[Course] = []
        self.marks: list[Mark] = []
        self.hits: list[Hit] = []
        self.fault_index = -1
        self.fault = ""

    def take(self, lines: Sequence[bytes], start: int) -> None:
        """Examine lines that verify, of which the first begins at byte ``start``.

        Stops at the first one whose content is at fault.
        """
        parsed = records(lines)
        try:
            columns = tuple(zip(*map(_values, parsed), strict=True))  # type: ignore[arg-type] # None raises TypeError
            good = _good(parsed, columns)
        except (KeyError, TypeError):
            columns, good = (), False
        if not good and len(lines) > 1:  # find the one line that is at fault
            for line in lines:
                if not self.fault:
                    self.take([line], start)
                    start += len(line) + 1
            return
        if not good:
            self.fault_index, self.fault = self.lines, "verifies but is no ledger line"
            return
        self._keep(columns)
        if self.wanted:
            self._look(lines, start, columns[0])
        self.lines += len(lines)

    def _keep(self, columns: Sequence[Sequence[Any]]) -> None:
        steps, _, words, _, policies, attempts, marks = columns
        count = len(steps)
        self.nonfinite += count - words.count("")
        if marks.count("") != count:
            self.marks.extend(
                Mark(self.lines + i, steps[i], attempts[i], text)
                for i, text in enumerate(marks)
                if text
            )
        straight = steps == tuple(range(steps[0], steps[0] + count))
        if straight and attempts.count(attempts[0]) == policies.count(policies[0]) == count:
            self._course(0, columns, count)
            return
        at = 0
        for i in range(1, count + 1):
            if i == count or (steps[i], attempts[i], policies[i]) != (
                steps[i - 1] + 1,
                attempts[i - 1],
                policies[i - 1],
            ):
                self._course(at, columns, i)
                at = i

    def _course(self, at: int, columns: Sequence[Sequence[Any]], until: int) -> None:
        first, last = columns[0][at], columns[0][until - 1]
        policy, attempt = columns[4][at], columns[5][at]
        if self.courses:
            tail = self.courses[-1]
            if (tail.last + 1, tail.attempt, tail.policy) == (first, attempt, policy):
                self.courses[-1] = tail._replace(last=last)
                return
        self.courses.append(Course(self.lines + at, first, last, attempt, policy))

    def _look(self, lines: Sequence[bytes], start: int, steps: Sequence[int]) -> None:
        # Lines that verify end in their chain, so it is cut out unseen: a million times a run.
        chains = [line[-_CHAIN_END:-2] for line in lines]
        if self.wanted.isdisjoint(chains):
            return
        offsets = ends(start, lines)
        self.hits.extend(
            Hit(self.lines + i, offsets[i], chain.decode("ascii"), steps[i])
            for i, chain in enumerate(chains)
            if chain in self.wanted
        )


def _good(parsed: Sequence[dict[str, Any] | None], columns: Sequence[Sequence[Any]]) -> bool:
    """Whether these lines have the layout and the types of ledger lines."""
    layouts = set(map(tuple, parsed))  # type: ignore[arg-type] # no None is left here
    steps, losses, words, rates, policies, attempts, marks = columns
    whole = set(map(type, steps)) | set(map(type, policies)) | set(map(type, attempts))
    unknown = losses.count(None)
    return (
        all(
            names[: len(BEFORE_EXTRAS)] == BEFORE_EXTRAS
            and names[-len(AFTER_EXTRAS) :] == AFTER_EXTRAS
            for names in layouts
        )
        and whole == {int}
        and set(map(type, losses)) in _LOSSES
        and set(map(type, rates)) <= {float, type(None)}
        and set(map(type, marks)) == {str}
        and (words.count("") == len(words) if not unknown else _consistent(losses, words))
    )


def _consistent(losses: Sequence[float | None], words: Sequence[str]) -> bool:
    return all(
        word in _WORDS if loss is None else not word
        for loss, word in zip(losses, words, strict=True)
    )


class Range(NamedTuple):
    """What a stretch of the file holds, if every line in it verifies; else ``clean`` is False.

    ``end`` is the byte behind the last whole line, ``before`` the chain that the first line
    follows, ``after`` that of the last one.
    """

    start: int
    stop: int
    clean: bool
    end: int = 0
    before: str = ""
    after: str = ""
    lines: int = 0
    nonfinite: int = 0
    courses: tuple[Course, ...] = ()
    marks: tuple[Mark, ...] = ()
    hits: tuple[Hit, ...] = ()
    fault_index: int = -1
    fault: str = ""


def examine(descriptor: int, start: int, stop: int, wanted: Collection[str]) -> Range:
    """Verify and examine the lines between two line boundaries. Raises OSError."""
    before = ChainWalk().chain
    if start:
        behind = max(0, start - (1 << 20))
        data = os.pread(descriptor, start - behind, behind)
        before = stated(data[:-1].rpartition(b"\n")[2]) or ""
    walk = ChainWalk(before, 0, start)
    findings = Findings(wanted)
    for lines in blocks(descriptor, start, stop):
        runs = walk.take(lines)
        if len(runs) != 1 or runs[0].lines != len(lines):
            return Range(start, stop, clean=False)
        if not findings.fault:
            findings.take(lines, runs[0].start)
    return Range(
        start,
        stop,
        True,  # noqa: FBT003 - a field of a row
        walk.end,
        before,
        walk.chain,
        walk.entries,
        findings.nonfinite,
        tuple(findings.courses),
        tuple(findings.marks),
        tuple(findings.hits),
        findings.fault_index,
        findings.fault,
    )


def to_json(found: Range) -> str:
    """One line of text."""
    return json.dumps(found)


def from_line(line: str) -> Range:
    """Back from that text."""
    row = json.loads(line)
    found = Range(*row)
    return found._replace(
        courses=tuple(Course(*course) for course in found.courses),
        marks=tuple(Mark(*mark) for mark in found.marks),
        hits=tuple(Hit(*hit) for hit in found.hits),
    )


def main() -> None:
    """Examine the ranges that standard input names, one answer a line."""
    task = json.load(sys.stdin)
    descriptor = os.open(Path(task["path"]), os.O_RDONLY | os.O_CLOEXEC)
    for start, stop in task["ranges"]:
        sys.stdout.write(to_json(examine(descriptor, start, stop, task["wanted"])) + "\n")
