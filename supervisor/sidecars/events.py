"""The supervisor's journal ``events.jsonl``: what happened, one chained line each, append-only.

``{"event":"…","facts":{…},"time":"…Z","chain":"…"}``, chained and closed off like the ledger.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

from pydantic_core import from_json

from supervisor.core.chain import close, stated
from supervisor.core.walk import ChainWalk
from trainer.contract.durable import AppendFile

RECENT = 1024


class Head(NamedTuple):
    """Where the journal ends: whole lines, the bytes up to the last one's end, its chain."""

    entries: int
    bytes: int
    chain: str


class EventLine(NamedTuple):
    """One event as it stands in the file, on physical line ``line``."""

    line: int
    event: str
    facts: dict[str, Any]
    time: str
    chain: str


class Appended(NamedTuple):
    """A line that was taken: the journal's whole line number ``entry``, closed by ``chain``."""

    entry: int
    event: str
    facts: Mapping[str, Any]
    time: str
    chain: str


class Events:
    """The open journal. One writer only, which the run's lock ensures.

    ``tell`` hears of each line when it is taken, whether or not the disk has it yet; it must not
    block.
    """

    def __init__(self, file: AppendFile, head: Head, region: bytes, recent: deque[bytes]) -> None:
        self._file = file
        self._region = region
        self._recent = recent
        self.head = head
        self.torn = len(region)
        self.tell: Callable[[Appended], None] = lambda _: None

    @classmethod
    def open(cls, path: Path, after: Head | None = None) -> Self:
        """Open to append, creating the file; verify from ``after`` if a line ends there, else all.

        What does not verify is closed off before the next event. Raises OSError.
        """
        file = AppendFile(path, create=True)
        try:
            # What an earlier life could not sync may be in memory only: read it from the disk.
            file.settle(after.bytes if after is not None else 0)
            data = path.read_bytes()
            walk = ChainWalk()
            if after is not None and _stands(data, after):
                walk = ChainWalk(after.chain, after.entries, after.bytes)
            recent: deque[bytes] = deque(_bodies(data[: walk.end]), maxlen=RECENT)
            *lines, fragment = data[walk.end :].split(b"\n")
            for run in walk.take(lines):
                recent.extend(_bodies(b"\n".join(lines[run.at : run.at + run.lines]) + b"\n"))
            end = walk.end
            if stated(fragment) is not None and walk.take([fragment]):
                file.append(b"\n")
                end = walk.end
                recent.extend(_bodies(fragment + b"\n"))
            head = Head(walk.entries, end, walk.chain)
        except BaseException:
            file.close()
            raise
        return cls(file, head, data[end:], recent)

    def append(
        self, event: str, facts: Mapping[str, Any], wall: str, *, once: bool = False
    ) -> bool:
        """Add a line; False where it is ``once`` only and stands among the last RECENT ones.

        Raises ValueError for facts that are not strict JSON, and OSError. After one from a
        write the event is taken and owed: it goes out before the next one. After a failed sync
        nothing is taken.
        """
        what = _what(event, facts)
        self._file.refuse_if_lost()
        if once and what in self._recent:
            return False
        closing = b"\n" if self._region and not self._region.endswith(b"\n") else b""
        body = b'{%b,"time":%b' % (what, json.dumps(wall).encode("ascii"))
        line, chain = close(self.head.chain, body, self._region + closing)
        self._region = b""
        size = self._file.size + len(closing) + len(line)
        self.head = Head(self.head.entries + 1, size, chain)
        self._recent.append(what)
        try:
            self._file.append(closing + line)
        finally:
            self.tell(Appended(self.head.entries, event, facts, wall, chain))
        return True

    @property
    def lost(self) -> bool:
        """Whether a sync has failed, so that only opening anew helps."""
        return self._file.lost

    @property
    def owes(self) -> bool:
        """Whether a line was taken and could not be written."""
        return self._file.owes

    def flush(self) -> None:
        """Write what is owed. Raises OSError."""
        self._file.append(b"")

    def sync(self) -> None:
        """Make every line durable. Raises OSError, and at every later call and append too."""
        self._file.sync()

    def close(self) -> None:
        """Give the file back."""
        self._file.close()


def _what(event: str, facts: Mapping[str, Any]) -> bytes:
    named = f'"event":{json.dumps(event)},"facts":'
    return (named + json.dumps(facts, separators=(",", ":"), allow_nan=False)).encode("ascii")


def _bodies(data: bytes) -> Iterator[bytes]:
    """What the last whole lines say, without their time."""
    for line in data.split(b"\n")[-RECENT - 1 : -1]:
        yield line[1:].rpartition(b',"time":"')[0]


def _stands(data: bytes, head: Head) -> bool:
    """Whether a line with this chain ends at this byte."""
    before = data[: head.bytes]
    if len(before) < head.bytes:
        return False
    return before.endswith(b'"%b"}\n' % head.chain.encode("ascii")) if before else not head.entries


# ---------------------------------------------------------------- readers


def read(path: Path) -> Iterator[EventLine | str]:
    """Every event in order; a bad line comes as a text that says which and why. Raises OSError."""
    for number, line in enumerate(path.read_bytes().split(b"\n")[:-1], 1):
        found = _event(number, line)
        yield f"line {number} is no event: {line[:60]!r}" if found is None else found


def _event(number: int, line: bytes) -> EventLine | None:
    try:
        record = from_json(line, allow_inf_nan=False)
        return EventLine(number, record["event"], record["facts"], record["time"], record["chain"])
    except (ValueError, KeyError, TypeError):
        return None


def created(path: Path) -> EventLine | None:
    """The event that names the run, or None; reads no further than it. Raises OSError."""
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if line.startswith(b'{"event":"run-created",') and stated(line.rstrip(b"\n")):
                return _event(number, line)
    return None


def mark_of(created: EventLine) -> str:
    """The run as the first line of its ledger names it: its identity, then where it comes from."""
    return f"{created.facts['run']} {created.facts.get('origin', '')}".strip()


@dataclass(frozen=True, slots=True)
class Verdict:
    """What verifying found; ``fault`` names the line and the reason, or is empty.

    ``buried`` lines in torn regions look whole.
    """

    head: Head
    torn_regions: int
    buried: int
    torn_tail: int
    fault_line: int
    fault: str


def verify(path: Path, heads: Sequence[Head] = ()) -> Verdict:
    """Check the chain, and that each of ``heads`` is the exact end of a line. Raises OSError."""
    data = path.read_bytes()
    lines = data.split(b"\n")[:-1]
    walk = ChainWalk()
    wanted = sorted(heads)
    ends: dict[int, tuple[int, str]] = {0: (0, walk.chain)}
    for run in walk.take(lines):
        at = run.start
        for i in range(run.at, run.at + run.lines):
            at += len(lines[i]) + 1
            ends[at] = (run.number + i - run.at, stated(lines[i]) or "")
    fault_line, fault = walk.suspect, "does not match its chain" if walk.suspect else ""
    for head in wanted if not fault else ():
        if ends.get(head.bytes) != (head.entries, head.chain):
            fault_line = head.entries
            fault = f"entry {head.entries} does not end at byte {head.bytes} with {head.chain}"
            break
    end = Head(walk.entries, walk.end, walk.chain)
    return Verdict(end, walk.regions, walk.buried, len(data) - walk.end, fault_line, fault)
