"""The real supervisor as a process: started, waited for, killed, and always ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from tests.support.runs import ROOT, Run
from tests.support.waiting import wait_until

T = TypeVar("T")
PROGRAM = (sys.executable, "-m", "supervisor")


class Daemon:
    """``stepkeeper run`` on one run directory; a context that leaves no process behind."""

    def __init__(self, run: Run, program: tuple[str, ...] = PROGRAM) -> None:
        self.run = run
        self.program = program
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *arguments: str, env: dict[str, str] | None = None) -> Daemon:
        """Start another life; its output goes to a file beside the run directory."""
        log = self.run.path.parent / f"{self.run.path.name}.daemon-{len(self.logs()):03d}.log"
        command = [*self.program, "run", str(self.run.path), *arguments]
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=ROOT,
                env={**os.environ, **(env or {})},  # noqa: TID251 - as a service manager adds to it
                start_new_session=True,
            )
        return self

    @property
    def pid(self) -> int:
        """The pid of the life started last."""
        return self._started().pid

    def cli(self, *words: str, seconds: float = 30.0) -> subprocess.CompletedProcess[str]:
        """Run another command of the same program; ``{run}`` is the run's path."""
        command = [word.replace("{run}", str(self.run.path)) for word in words]
        return subprocess.run(
            [*self.program, *command],
            capture_output=True,
            text=True,
            timeout=seconds,
            cwd=ROOT,
            check=False,
            stdin=subprocess.DEVNULL,
        )

    def until(self, condition: Callable[[], T], reason: str, seconds: float = 20.0) -> T:
        """Wait for a condition; a failure shows the daemon's and the trainer's output."""
        return wait_until(condition, reason, seconds, self.describe)

    def until_step(self, step: int, seconds: float = 20.0) -> None:
        """Wait until the ledger holds ``step``."""
        self.until(lambda: self.run.last_step() >= step, f"step {step} in the ledger", seconds)

    def until_seal(self, step: int, seconds: float = 20.0) -> None:
        """Wait until ``step`` or a later one is sealed."""
        self.until(
            lambda: max(self.run.seals(), default=-1) >= step, f"a seal at {step} or above", seconds
        )

    def until_trainer(self, other_than: int = 0, seconds: float = 20.0) -> int:
        """Wait for a living trainer that reported ready; return its pid."""

        def found() -> int:
            pid = self.run.trainer_pid()
            return 0 if pid == other_than else pid

        return self.until(found, "a trainer that is ready", seconds)

    def wait(self, seconds: float = 20.0) -> int:
        """Wait for the end of this life; return its exit code."""
        process = self._started()
        self.until(lambda: process.poll() is not None, "the supervisor's end", seconds)
        return int(process.returncode)

    def signal(self, number: signal.Signals) -> None:
        """Signal the supervisor itself."""
        self._started().send_signal(number)

    def kill(self) -> None:
        """SIGKILL to the supervisor alone."""
        self._started().kill()
        self._started().wait(10)

    def stop(self, seconds: float = 20.0) -> int:
        """SIGTERM, and the exit code after the last seal."""
        self.signal(signal.SIGTERM)
        return self.wait(seconds)

    def output(self) -> str:
        """What every life printed."""
        return "".join(f"--- {p.name}\n{p.read_text(errors='replace')}" for p in self.logs())

    def logs(self) -> list[Path]:
        """One file of output for each life, the first one first."""
        return sorted(self.run.path.parent.glob(f"{self.run.path.name}.daemon-*.log"))

    def describe(self) -> str:
        """Everything that helps after a failure."""
        code = self.process.poll() if self.process else "not started"
        return f"exit code: {code}\n{self.output()}\n{self.run.describe()}"

    def finish(self) -> None:
        """End the supervisor, then every process that carries this run in its environment."""
        if self.process is not None and self.process.poll() is None:
            self.kill()
        end_all(self.run)

    def _started(self) -> subprocess.Popen[bytes]:
        if self.process is None:
            raise AssertionError("start the daemon first")
        return self.process


def end_all(run: Run) -> None:
    """SIGKILL to all that is left of the run's trainers, and wait until nothing is."""

    def nothing_left() -> bool:
        pids = run.pids()
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        return not pids

    wait_until(nothing_left, f"the end of what {run.path} started")
