"""Tells the whole lines of a chained record from the torn bytes between them.

A line is whole when its chain holds over the previous whole line's chain and all bytes since
that line. What does not verify is torn; it is accounted for once a later whole line covers it.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import NamedTuple

from supervisor.core.chain import START, TAIL_BYTES, stated


class Run(NamedTuple):
    """Whole lines without a torn byte between them.

    ``at`` is the first one's index among the lines taken, ``lines`` how many they are, ``start``
    the byte at which the first begins, ``number`` its place among the record's whole lines and
    ``line`` among all its lines, both from 1.
    """

    at: int
    lines: int
    start: int
    number: int
    line: int


class ChainWalk:
    """Goes over a record's lines in order and knows where its last whole line ends.

    ``entries`` whole lines end at byte ``end`` with ``chain``; bytes up to ``offset``, which is
    physical line ``line``, are taken. ``regions`` and ``buried`` count the torn regions covered by
    a later whole line, and the lines in them that look whole. Of the region that is open now,
    ``torn_line`` is the first line and ``suspect`` the first one that looks whole (0: none).
    """

    __slots__ = (
        "_region",
        "_stray",
        "_torn",
        "buried",
        "chain",
        "end",
        "entries",
        "line",
        "offset",
        "regions",
        "suspect",
        "torn_line",
    )

    def __init__(self, chain: str = START, entries: int = 0, end: int = 0) -> None:
        self.chain = chain
        self.entries = entries
        self.end = end
        self.offset = end
        self.line = entries
        self.regions = 0
        self.buried = 0
        self.suspect = 0
        self.torn_line = 0
        self._stray = 0
        self._torn = False
        self._region = sha256()

    def take(self, lines: Sequence[bytes]) -> list[Run]:
        """Go over these lines, given without newlines; returns the whole ones among them."""
        runs: list[Run] = []
        at = 0
        while at < len(lines):
            count = self._cover(lines[at]) if self._torn else self._straight(lines, at)
            if count:
                size = sum(map(len, lines[at : at + count])) + count
                runs.append(Run(at, count, self.offset, self.entries + 1, self.line + 1))
                at += count
                self.line += count
                self.entries += count
                self.offset += size
                self.end = self.offset
            elif at < len(lines):
                self._lose(lines[at])
                at += 1
        return runs

    @property
    def torn(self) -> bool:
        """Whether a torn region is open."""
        return self._torn

    def skip(self, lines: int, stop: int, chain: str) -> None:
        """Go on behind ``lines`` whole lines that were verified elsewhere and end at ``stop``."""
        self.line += lines
        self.entries += lines
        self.offset = self.end = stop
        self.chain = chain

    def _straight(self, lines: Sequence[bytes], at: int) -> int:
        """How many lines from ``at`` on verify one after the other."""
        previous = self.chain.encode("ascii")
        first = at
        for line in lines[at:] if at else lines:
            chain = sha256(previous + line[:-TAIL_BYTES]).hexdigest()[:32].encode("ascii")
            if line[-TAIL_BYTES:] != b',"chain":"%b"}' % chain:
                break
            previous = chain
            at += 1
        self.chain = previous.decode("ascii")
        return at - first

    def _cover(self, line: bytes) -> int:
        """1 if this line covers the open region, which it then closes."""
        if stated(line) is None:
            return 0
        cover = self._region.copy()
        cover.update(line[:-TAIL_BYTES])
        chain = cover.hexdigest()[:32]
        if chain != stated(line):
            return 0
        self.chain = chain
        self.regions += 1
        self.buried += self._stray
        self._torn, self._stray, self.suspect, self.torn_line = False, 0, 0, 0
        return 1

    def _lose(self, line: bytes) -> None:
        """Take this line as torn, newline included."""
        if not self._torn:
            self._torn, self.torn_line = True, self.line + 1
            self._region = sha256(self.chain.encode("ascii"))
        self._region.update(line + b"\n")
        self.line += 1
        self.offset += len(line) + 1
        if stated(line) is not None:
            self._stray += 1
            # A power cut may leave zeros for a line's beginning and keep its end: that is torn.
            self.suspect = self.suspect or (0 if b"\0" in line else self.line)
