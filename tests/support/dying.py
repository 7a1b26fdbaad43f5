"""Run a command of the program in this process and kill it before its n-th durable call.

``python dying.py N COUNT WORDS -- COMMAND…``: from the moment the run's ``pivot.json`` exists, each
write to a file, sync, rename, link, unlink and mkdir is counted; before the N-th one the process
kills itself with SIGKILL. WORDS, with commas between them, restrict the count to calls whose path
holds one of them; ``from:NAME`` names another file of the run than ``pivot.json`` to begin at.
The number of calls so far stands in the file COUNT. N = 0 only counts.
"""

from __future__ import annotations

import os
import signal
import stat
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from supervisor.cli import run

_LOCK = threading.Lock()


class Counter:
    """Counts calls and ends the process at the chosen one."""

    def __init__(self, at: int, count: Path, words: list[str], journal: Path) -> None:
        self.at, self.words, self.journal = at, words, journal
        # In place and of one width, so that whoever is killed in the middle leaves a number.
        self.count = os.open(count, os.O_RDWR | os.O_CREAT, 0o640)
        self.calls = 0
        os.pwrite(self.count, b"%6d" % 0, 0)
        self.begun = False

    def note(self, path: str) -> None:
        """One call is about to happen on ``path``."""
        if self.words and not any(word in path for word in self.words):
            return
        with _LOCK:
            self.begun = self.begun or self.journal.exists()
            if not self.begun:
                return
            self.calls += 1
            os.pwrite(self.count, b"%6d" % self.calls, 0)
            if self.calls == self.at:
                os.kill(os.getpid(), signal.SIGKILL)


def by_descriptor(counter: Counter, call: Callable[..., object]) -> Callable[..., object]:
    """Count a call on a descriptor of a file or folder; pipes and sockets do not matter."""

    def counted(descriptor: int, *rest: object) -> object:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
            counter.note(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        return call(descriptor, *rest)

    return counted


def by_path(counter: Counter, call: Callable[..., object]) -> Callable[..., object]:
    """Count a call on a path, or on two."""

    def counted(path: object, *rest: object, **named: object) -> object:
        counter.note(" ".join(str(part) for part in (path, *rest)))
        return call(path, *rest, **named)

    return counted


def main() -> int:
    """Patch, then run the command."""
    at, count, words = int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    command = sys.argv[sys.argv.index("--") + 1 :]
    given = [word for word in words.split(",") if word]
    begins = [word.removeprefix("from:") for word in given if word.startswith("from:")]
    journal = Path(command[1]) / (begins or ["pivot.json"])[0]
    counter = Counter(at, count, [w for w in given if not w.startswith("from:")], journal)
    for name in ("write", "fsync", "fdatasync"):
        setattr(os, name, by_descriptor(counter, getattr(os, name)))
    for name in ("rename", "link", "unlink", "mkdir"):
        setattr(os, name, by_path(counter, getattr(os, name)))
    return run(command)


if __name__ == "__main__":
    sys.exit(main())
