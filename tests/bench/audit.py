"""How fast the ledger takes steps in and is audited, on a ledger of a million lines."""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from supervisor.sidecars.ledger import Ledger, audit, canonical, find
from supervisor.sidecars.tailing import tail
from tests.bench.figures import Figure, say, table
from tests.support.steps import WALL, steps

PER_RECORD = 300  # about one read of 64 KiB of reports


def main(argv: list[str]) -> int:
    """Write, replay, open, audit and read; 1 where a target is missed."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench audit")
    parser.add_argument("--quick", action="store_true", help="100,000 lines in place of a million")
    options = parser.parse_args(argv)
    lines = 100_000 if options.quick else 1_000_000
    share = lines / 1_000_000
    with tempfile.TemporaryDirectory(prefix="stepkeeper-bench-") as folder:
        path = Path(folder) / "bench.loss.json"
        say(f"audit: a ledger of {lines:,} lines ...")
        appended, replayed = _write(path, lines)
        tries = 3
        one = [_seconds(lambda: _whole(path, lines, 1)) for _ in range(tries)]
        two = [_seconds(lambda: _whole(path, lines, 2)) for _ in range(tries)]
        figures = [
            Figure("steps appended", "/s", [lines / appended], 80_000, at_least=True),
            Figure("steps replayed and proved", "/s", [lines / replayed], 80_000, at_least=True),
            Figure("audit, one process", "s", one, 2.5 * share),
            Figure("audit, two processes", "s", two, 1.5 * share if _cores() > 1 else None),
            Figure("open, nothing sealed", "s", [_seconds(lambda: _open(path, lines))]),
            Figure("canonical view, every line", "s", [_seconds(lambda: _view(path, lines))]),
            Figure("find a step", "s", [_seconds(lambda: find(path, lines // 2))]),
            Figure("tail of 20", "ms", [1000 * _seconds(lambda: tail(path, 20))]),
        ]
    return table("audit", figures)


def _write(path: Path, lines: int) -> tuple[float, float]:
    """Seconds for appending the lines, and for replaying them all; making steps not counted."""
    ledger = Ledger.open(path, "bench", None, fresh=True)
    spent = []
    for attempt in (1, 2):
        ledger.begin(attempt, 0, "")
        seconds = 0.0
        for first in range(1, lines + 1, PER_RECORD):
            batch = steps(first, min(first + PER_RECORD - 1, lines), extras=(("grad_norm", 0.5),))
            began = time.perf_counter()
            outcome = ledger.record(attempt, 1, batch, WALL)
            seconds += time.perf_counter() - began
            if outcome.proved + outcome.appended != len(batch):
                raise ValueError(f"cannot go on: {outcome}")
        began = time.perf_counter()
        ledger.sync()
        spent.append(seconds + time.perf_counter() - began)
    ledger.close()
    return spent[0], spent[1]


def _whole(path: Path, lines: int, processes: int) -> None:
    found = audit(path, processes=processes)
    if found.fault or found.entries != lines:
        raise ValueError(f"cannot go on: {found}")


def _open(path: Path, lines: int) -> None:
    ledger = Ledger.open(path, "bench", None, fresh=False)
    ledger.close()
    if ledger.position.entries != lines:
        raise ValueError(f"cannot go on: {ledger.position}")


def _view(path: Path, lines: int) -> None:
    if sum(1 for _ in canonical(path)) != lines:
        raise ValueError("cannot go on: the canonical view is not whole")


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _cores() -> int:
    return len(os.sched_getaffinity(0))
