"""The run that chaos befalls: a real supervisor and our own small trainer, and what was done."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

from supervisor.control import request
from supervisor.errors import StepkeeperError
from tests.support.daemon import Daemon, end_all
from tests.support.runs import ROOT, Run, make_run
from tests.support.volumes import Volume
from tests.support.waiting import wait_until

EVERY = 20
PACE = 0.03
SECONDS = 90.0
# How a supervisor may end: asked to, killed, or signalled before its handlers were in.
ENDS = (0, -signal.SIGKILL, -signal.SIGTERM, -signal.SIGUSR1, -signal.SIGHUP)
TINY = """
[model]
vocabulary = 256
width = 16
heads = 2
layers = 1
context = 12
[train]
steps = 1000000
batch = 3
lr = 0.01
warmup_steps = 4
threads = 1
device = "cpu"
[samples]
every = 100
length = 8
[restart]
first = 0.1
most = 1.0
fall_back_after = 1000
"""


class Broken(Exception):  # noqa: N818 - an invariant is broken; no error of a program
    """What must never be."""


def chaos_run(folder: Path, aside: Path, pace: float, every: int = EVERY) -> Run:
    """A run directory in ``folder``; the files that steer its wrappers stand in ``aside``."""
    aside.mkdir(parents=True, exist_ok=True)
    (aside / "halt").write_text("")
    (aside / "clock").write_text("0")
    env = [f"PYTHONPATH={ROOT}", f"CHAOS_PACE={pace}", f"CHAOS_HALT={aside / 'halt'}"]
    command = ["env", *env, sys.executable, "-m", "tests.chaos.paced"]
    return make_run(folder, command, every=every, algorithm="ucb1", settings=TINY)


class ClockedDaemon(Daemon):
    """The supervisor under a wall clock that a file sets."""

    def __init__(self, run: Run, aside: Path) -> None:
        super().__init__(run)
        self.aside = aside

    def begin(self) -> None:
        """Start a life."""
        number = len(self.logs())
        log = self.run.path.parent / f"{self.run.path.name}.daemon-{number:03d}.log"
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.chaos.clocked", "run", str(self.run.path)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=ROOT,
                env={**os.environ, "CHAOS_CLOCK": str(self.aside / "clock")},  # noqa: TID251 - added to
                start_new_session=True,
            )


class World:
    """``volume`` is the small file system that holds the run, or None where none can be mounted."""

    def __init__(self, folder: Path, volume: Volume | None, seed: int) -> None:
        self.chance = Random(seed)  # noqa: S311 - a schedule, not a secret
        self.aside = folder / "aside"
        place = volume.path if volume else folder
        self.run = chaos_run(place / "run", self.aside, PACE)
        self.daemon = ClockedDaemon(self.run, self.aside)
        self.volume = volume
        self.done: Counter[str] = Counter()
        self.torn = 0
        self.size = 0

    def alive(self) -> bool:
        """Whether the supervisor runs."""
        return self.daemon.process is not None and self.daemon.process.poll() is None

    def begin(self) -> None:
        """Start a supervisor where none runs."""
        if not self.alive():
            self.daemon.begin()

    def kill_supervisor(self) -> None:
        """SIGKILL, whatever it does."""
        if self.alive():
            self.daemon.kill()

    def trainer(self, number: signal.Signals) -> bool:
        """Signal the trainer that is ready, if there is one."""
        pid = self.run.trainer_pid()
        try:
            if pid:
                os.kill(pid, number)
        except ProcessLookupError:
            return False
        return bool(pid)

    def ask(self, verb: str, **fields: object) -> bool:
        """A request to the supervisor; whether it was taken."""
        try:
            answer = request(self.run.path, verb, fields, 5.0)
        except (OSError, StepkeeperError):
            return False
        return "error" not in answer

    def wait(self, seconds: float) -> None:
        """Let it be, but look at what must hold at any time."""
        until = time.perf_counter() + seconds
        wait_until(lambda: self.look() or time.perf_counter() >= until, "time", seconds + 30.0)

    def look(self) -> None:
        """What is cheap to see: the ledger only grows, nothing ended that was not ended."""
        path = self.run.path / "demo.loss.json"
        size = path.stat().st_size if path.exists() else 0
        if size < self.size:
            raise Broken(f"the ledger shrank from {self.size} to {size} bytes")
        self.size = size
        process = self.daemon.process
        if process is not None and process.poll() not in (None, *ENDS):
            raise Broken(f"the supervisor ended with {process.returncode}")

    def until(self, condition: Callable[[], object], reason: str, seconds: float = SECONDS) -> None:
        """Wait for progress. Raises Broken."""
        try:
            wait_until(condition, reason, seconds)
        except AssertionError as error:
            raise Broken(str(error).strip()) from None

    def gets_on(self, condition: Callable[[], object], reason: str) -> None:
        """Wait for something; a supervisor that finished an earlier stop meanwhile begins again."""

        def reached() -> object:
            self.look()
            self.begin()
            return condition()

        self.until(reached, reason)

    def finish(self) -> None:
        """End everything that was started."""
        self.daemon.finish()
        end_all(self.run)
