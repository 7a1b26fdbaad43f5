"""The demo's supervisor and its commands as real child processes, and the kills it shows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import IO

from supervisor import environment
from supervisor.process.child import adopt
from supervisor.process.identity import Identity
from supervisor.sidecars import attempts

LOG = "supervisor.log"


class Keeper:
    """Starts ``stepkeeper run`` for one run directory, in a session of its own.

    A Ctrl-C at the terminal reaches the demo alone, which then decides what becomes of the run.
    """

    def __init__(self, run: Path) -> None:
        self._run = run
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> int:
        """Start a supervisor, its output appended to ``supervisor.log``; its pid."""
        with (self._run / LOG).open("ab") as log:
            self._process = self._child(("run", str(self._run)), log)
        return self._process.pid

    def command(self, words: tuple[str, ...], output: IO[bytes]) -> subprocess.Popen[bytes]:
        """Start another command of this program, stdout and stderr into ``output``."""
        return self._child(words, output)

    @property
    def alive(self) -> bool:
        """Whether the supervisor started last lives."""
        return self._process is not None and self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        """How the supervisor started last ended; None while it lives."""
        return self._process.poll() if self._process is not None else None

    def kill(self) -> None:
        """SIGKILL to the supervisor alone."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def terminate(self) -> None:
        """SIGTERM: the supervisor stops its trainer, waits for the last seal, and ends."""
        if self._process is not None and self.alive:
            self._process.terminate()

    def kill_trainer(self) -> int:
        """SIGKILL to the trainer, if it is proven to be this run's; its pid, or 0."""
        record = attempts.last(self._run)
        if record is None or record.identity is None:
            return 0
        child = adopt(Identity(**record.identity.model_dump()))
        if child is None:
            return 0
        child.send("KILL")
        child.close()
        return child.pid

    def trainer_lives(self) -> bool:
        """Whether the newest attempt's trainer is proven to be alive."""
        record = attempts.last(self._run)
        if record is None or record.identity is None:
            return False
        child = adopt(Identity(**record.identity.model_dump()))
        if child is None:
            return False
        child.close()
        return True

    def _child(self, words: tuple[str, ...], output: IO[bytes]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "supervisor", *words],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=self._run,
            env=environment.for_own_programs(),
            start_new_session=True,
        )
