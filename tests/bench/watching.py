"""Looking at a living process and a growing ledger from outside, without disturbing either."""

from __future__ import annotations

import contextlib
import json
import os
import select
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.support.daemon import Daemon
from tests.support.runs import Run
from tests.support.scripted_reports import pause

TICKS = os.sysconf("SC_CLK_TCK")


def resident(pid: int) -> float:
    """Resident memory of a process in MB (of 10^6 bytes)."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise ValueError(f"cannot tell the memory of process {pid}: it has ended")


def cpu_seconds(pid: int) -> tuple[float, float]:
    """Seconds of CPU that a process used itself, and that its ended children used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    own, children = int(fields[11]) + int(fields[12]), int(fields[13]) + int(fields[14])
    return own / TICKS, children / TICKS


def until(
    condition: Callable[[], object], reason: str, seconds: float, every: float = 0.02
) -> None:
    """Wait for a condition. Raises TimeoutError."""
    deadline = time.perf_counter() + seconds
    while not condition():
        if time.perf_counter() > deadline:
            raise TimeoutError(f"cannot go on: waited {seconds} s in vain for {reason}")
        pause(every)


def moment_of_death(pid: int, kill: Callable[[], None], seconds: float = 10.0) -> float:
    """Kill, and return the moment at which the process's pidfd became readable."""
    descriptor = os.pidfd_open(pid)
    try:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        kill()
        if not poll.poll(seconds * 1000):
            raise TimeoutError(f"cannot go on: process {pid} did not end within {seconds} s")
        return time.perf_counter()
    finally:
        os.close(descriptor)


class Tail:
    """Whole new lines of a file since the last look."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.position = path.stat().st_size if path.exists() else 0
        self.rest = b""

    def new(self) -> list[dict[str, object]]:
        """Parse what was appended."""
        if not self.path.exists() or self.path.stat().st_size == self.position:
            return []
        with self.path.open("rb") as file:
            file.seek(self.position)
            data = file.read()
        self.position += len(data)
        *lines, self.rest = (self.rest + data).split(b"\n")
        return [json.loads(line) for line in lines]


@contextlib.contextmanager
def started(run: Run) -> Iterator[Daemon]:
    """The supervisor on a run; on a failure all that helps is shown, and everything is ended."""
    daemon = Daemon(run)
    try:
        yield daemon.start()
    except (TimeoutError, ValueError, AssertionError):
        sys.stdout.write(daemon.describe() + "\n")
        raise
    finally:
        daemon.finish()
