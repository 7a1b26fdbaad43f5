"""Trainer processes for tests: started through the real spawn, always ended."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from supervisor.control.server import Server
from supervisor.process.child import Child, spawn
from supervisor.process.leftovers import end_leftovers
from supervisor.process.locks import take
from tests.process.serving import Loop
from tests.support.runs import ROOT
from tests.support.waiting import wait_until

SLEEP = ("sleep", "1000")


class Lives:
    """Processes of one test on one run directory, and others that have nothing to do with it."""

    def __init__(self, run: Path) -> None:
        self.run = run
        self.mark = secrets.token_hex(8)  # another suite may run on this machine
        self.output = run / "output.log"
        self._children: list[Child] = []
        self._others: list[subprocess.Popen[bytes]] = []
        self._pids: list[int] = []

    def env(self, mark: str = "") -> dict[str, str]:
        """What a trainer of this run is started with."""
        path = f"{Path(sys.executable).parent}:{os.defpath}"
        return {
            "PATH": path,
            "PYTHONPATH": str(ROOT),
            "STEPKEEPER_RUN": str(self.run),
            "STEPKEEPER_TOKEN": mark or self.mark,
        }

    def trainer(self, command: Sequence[str] = SLEEP) -> Child:
        """Spawn a trainer that holds the trainer's lock."""
        lock = take(self.run / "trainer.lock", 0)
        try:
            child = spawn(command, self.run, self.env(), self.output, lock, self.mark)
        finally:
            os.close(lock)
        self._children.append(child)
        return child

    def python(self, code: str) -> Child:
        """Spawn a trainer that is a Python script."""
        return self.trainer((sys.executable, "-c", code))

    def other(self, command: Sequence[str] = SLEEP, **more: object) -> subprocess.Popen[bytes]:
        """Start a process that no trainer started."""
        settings = {"stdin": subprocess.DEVNULL, "cwd": "/", "start_new_session": True, **more}
        process = subprocess.Popen(command, **settings)  # type: ignore[call-overload] # pass-through
        self._others.append(process)
        return process

    def remember(self, pid: int) -> int:
        """End this process too when the test is over."""
        self._pids.append(pid)
        return pid

    def said(self, lines: int = 1) -> list[str]:
        """Wait for whole lines of the trainer's output."""
        wait_until(lambda: self._text().count("\n") >= lines, f"{lines} lines", 20, self._text)
        return self._text().splitlines()

    def _text(self) -> str:
        return self.output.read_text() if self.output.exists() else ""

    def end(self) -> None:
        """Kill whatever is left."""
        for child in self._children:
            if child.pidfd >= 0:
                child.send("KILL")
                wait_until(child.gone, "the trainer's end")
                child.status()
                child.close()
        for process in self._others:
            process.kill()
            process.wait()
        for pid in self._pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        end_leftovers(self.run, grace=0.0)


@pytest.fixture
def lives(tmp_path: Path) -> Iterator[Lives]:
    """Start processes of one run; all are ended with the test."""
    run = tmp_path / "run"
    run.mkdir()
    lives = Lives(run)
    yield lives
    lives.end()


@pytest.fixture
def loop(tmp_path: Path) -> Iterator[Loop]:
    loop = Loop(Server(tmp_path))
    yield loop
    loop.end()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A server whose turns the test makes itself."""
    server = Server(tmp_path)
    yield server
    server.close()


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return text[text.rfind(")") + 2] not in "ZX"
