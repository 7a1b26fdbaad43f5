"""Reads a ledger back at the start: whether it is the one the seals speak of, where it ends."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path

from supervisor.core.chain import stated
from supervisor.core.messages import LedgerPosition
from supervisor.core.walk import ChainWalk, Run
from supervisor.errors import LedgerError
from supervisor.sidecars.ledger.blocks import blocks, ends, records
from supervisor.sidecars.ledger.line import cut, extra_names
from supervisor.sidecars.ledger.segments import Segments, Stretch

NOTHING = LedgerPosition(0, 0, ChainWalk().chain, 0)
SUFFIX = ".loss.json"

_LINE = 1 << 20
_needed = itemgetter("step", "attempt", "mark")


@dataclass(frozen=True, slots=True)
class TornRegion:
    """Bytes behind the last line that verifies: ``lines`` pieces, ``whole`` of which look whole."""

    start: int
    bytes: int
    lines: int
    whole: int


@dataclass(slots=True)
class Found:
    """What reading back found; ``region`` are the torn bytes, ``bare`` a last line without newline.

    ``marks`` are those on the lines read, ``attempt`` and ``extras`` are the last line's.
    ``partial`` says that reading began behind the first line.
    """

    position: LedgerPosition
    segments: Segments = field(default_factory=Segments)
    marks: set[str] = field(default_factory=set)
    attempt: int = 0
    extras: tuple[str, ...] = ()
    region: bytes = b""
    torn: TornRegion | None = None
    bare: bool = False
    partial: bool = False


def refuse_unless_alone(path: Path, *, fresh: bool) -> None:
    """Raise LedgerError for a missing ledger, two of them, or something that is no file."""
    others = sorted(other for other in path.parent.glob(f"*{SUFFIX}") if other != path)
    if others:
        raise LedgerError(
            f"cannot open the ledger {path}: {others[0].name} stands beside it, and a run has one"
            " ledger; move the one that is not this run's away"
        )
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        if fresh:
            return
        raise LedgerError(
            f"cannot open the ledger {path}: it is missing, and this run is not new; put it back"
        ) from None
    if not stat.S_ISREG(mode):
        raise LedgerError(f"cannot open the ledger {path}: it is not a regular file")


def read_back(descriptor: int, path: Path, run: str, after: LedgerPosition | None) -> Found:
    """Verify from ``after`` (None: the first line) to the end. Raises LedgerError, OSError."""
    size = os.fstat(descriptor).st_size
    found = Found(after or NOTHING)
    if after is not None and after.entries:
        _check_seal(descriptor, path, size, after, found)
    _check_run(descriptor, path, size, run)
    walk = ChainWalk(found.position.chain, found.position.entries, found.position.bytes)
    for lines in blocks(descriptor, walk.end, size):
        for part in walk.take(lines):
            _take(found, path, part, lines[part.at : part.at + part.lines])
    torn = os.pread(descriptor, size - walk.end, walk.end)
    _, fragment = cut(torn)
    if stated(fragment) is not None:
        for part in walk.take([fragment]):
            _take(found, path, part, [fragment])
            torn, found.bare = b"", True
    if torn:
        pieces = torn.removesuffix(b"\n").split(b"\n")
        whole = sum(stated(piece) is not None for piece in pieces)
        found.region = torn
        found.torn = TornRegion(walk.end, len(torn), len(pieces), whole)
    return found


def _take(found: Found, path: Path, run: Run, lines: list[bytes]) -> None:
    parsed = records(lines)
    try:
        steps, attempts, marks = zip(*map(_needed, parsed), strict=True)  # type: ignore[arg-type] # None raises TypeError
    except (KeyError, TypeError):
        raise LedgerError(
            f"cannot use the ledger {path}: an entry between {run.number} and"
            f" {run.number + run.lines - 1} verifies but is no ledger line"
        ) from None
    offsets = ends(run.start, lines)
    found.segments.extend(Stretch(run.start, run.number, steps, attempts, offsets))
    found.marks.update(filter(None, marks))
    found.attempt = attempts[-1]
    found.extras = extra_names(parsed[-1] or {})
    found.position = LedgerPosition(
        run.number + run.lines - 1, offsets[-1], stated(lines[-1]) or "", steps[-1]
    )


def _check_seal(
    descriptor: int, path: Path, size: int, after: LedgerPosition, found: Found
) -> None:
    """The seal's line must stand exactly where the seal says."""
    if size < after.bytes:
        raise LedgerError(
            f"cannot use the ledger {path}: it holds {size} bytes, but the seal of step"
            f" {after.step} speaks of {after.bytes}; put the whole file back"
        )
    start = max(0, after.bytes - _LINE)
    data = os.pread(descriptor, after.bytes - start, start)
    line = data[:-1].rpartition(b"\n")[2]
    if data[-1:] != b"\n" or stated(line) != after.chain:
        raise LedgerError(
            f"cannot use the ledger {path}: byte {after.bytes} is not the end of the line that"
            f" the seal of step {after.step} names ({after.chain}); it was changed, put the"
            " original back"
        )
    record = records([line])[0] or {}
    found.partial = True
    found.attempt = record.get("attempt", 0)
    found.extras = extra_names(record)


def _check_run(descriptor: int, path: Path, size: int, run: str) -> None:
    """The first line that verifies must bear this run's mark."""
    walk, looked_whole = ChainWalk(), False
    for lines in blocks(descriptor, 0, size):
        parts = walk.take(lines)
        if parts:
            mark = (records([lines[parts[0].at]])[0] or {}).get("mark")
            if mark != f"run:{run}":
                raise LedgerError(
                    f"cannot use the ledger {path}: its first line is marked {mark!r}, this run is"
                    f" {run!r}; it belongs to another run"
                )
            return
        looked_whole = looked_whole or walk.suspect > 0
    if looked_whole:
        raise LedgerError(
            f"cannot use the ledger {path}: line {walk.suspect} does not match its chain; run"
            " stepkeeper audit, and put the original back"
        )
