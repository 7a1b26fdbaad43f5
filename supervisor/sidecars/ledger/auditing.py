"""Audits a whole ledger: the chain, the order of steps and attempts, marks, and heads held.

Ranges of the file are examined side by side, since each line carries its predecessor's chain.
Where a range does not verify straight through, it is gone over again in order, so that a torn
piece between whole lines is told from a line that was changed.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from supervisor.core.messages import LedgerPosition
from supervisor.sidecars.ledger.examine import Range, examine, from_line
from supervisor.sidecars.ledger.verdict import Audit, Total

SHARE = 1 << 22
_START = (
    "import sys, json; sys.path[:] = json.loads(sys.argv[1]);"
    "from supervisor.sidecars.ledger.examine import main; main()"
)


def audit(
    path: Path,
    *,
    positions: Sequence[LedgerPosition] = (),
    head: tuple[int, str] | None = None,
    processes: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> Audit:
    """Verify everything that the file alone can show.

    Each of ``positions`` must be the exact end of its line, and ``head`` (entries, chain) must
    still be held. ``progress`` hears of bytes examined and the file's size. Raises OSError.
    """
    wanted = {position.chain for position in positions} | ({head[1]} if head else set())
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        size = os.fstat(descriptor).st_size
        total = Total(wanted)
        for found in _examined(path, descriptor, size, sorted(wanted), processes):
            total.add(descriptor, found)
            if progress is not None:
                progress(found.stop, size)
            if total.fault:
                break
        return total.result(size, positions, head)
    finally:
        os.close(descriptor)


def _examined(
    path: Path, descriptor: int, size: int, wanted: list[str], processes: int
) -> Iterator[Range]:
    """Every range of the file in order, examined by up to ``processes`` processes."""
    ranges = _ranges(descriptor, size)
    per = max(1, -(-len(ranges) // max(processes, 1)))
    shares = [ranges[at : at + per] for at in range(per, len(ranges), per)]
    children = [_child(path, share, wanted) for share in shares]
    try:
        for start, stop in ranges[:per]:
            yield examine(descriptor, start, stop, wanted)
        for child, share in zip(children, shares, strict=True):
            yield from _answers(child, share)
    finally:
        for child in children:
            child.kill()
            if child.stdout is not None:
                child.stdout.close()
            child.wait()


def _child(path: Path, share: list[tuple[int, int]], wanted: list[str]) -> subprocess.Popen[str]:
    task = json.dumps({"path": os.fspath(path), "ranges": share, "wanted": wanted})
    child = subprocess.Popen(
        [sys.executable, "-c", _START, json.dumps(sys.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    if child.stdin is not None:
        with contextlib.suppress(BrokenPipeError), child.stdin:  # a dead child answers nothing
            child.stdin.write(task)
    return child


def _answers(child: subprocess.Popen[str], share: list[tuple[int, int]]) -> Iterator[Range]:
    """What a child found; what it did not answer for counts as not clean."""
    answered = 0
    for line in child.stdout or ():
        yield from_line(line)
        answered += 1
    yield from (Range(start, stop, clean=False) for start, stop in share[answered:])


def _ranges(descriptor: int, size: int) -> list[tuple[int, int]]:
    """The file cut at line boundaries; what follows the last newline is left out."""
    found: list[tuple[int, int]] = []
    start = 0
    while start < size:
        stop = at = min(start + SHARE, size)
        while at < size:
            data = os.pread(descriptor, 1 << 16, at)
            stop = at + data.find(b"\n") + 1 if b"\n" in data else size
            at = at + len(data) if stop == size else size
        found.append((start, stop))
        start = stop
    return found
