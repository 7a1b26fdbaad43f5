"""A run with a history, kept by the real supervisor, in the place that the README speaks of."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from supervisor import environment
from tests.support.daemon import Daemon
from tests.support.runs import ROOT, Run

Done = subprocess.CompletedProcess[str]


class Kept:
    """``folder`` holds ``stepkeeper-demo``; ``five`` is what the five commands answered."""

    def __init__(self, folder: Path, daemon: Daemon) -> None:
        self.folder = folder
        self.daemon = daemon
        self.five: list[tuple[str, Done]] = []
        self._programs = folder / "bin"
        self._programs.mkdir()
        self._install("stepkeeper", f'exec {sys.executable} -P -m supervisor "$@"')
        self._install("python3", f'exec {sys.executable} "$@"')

    @property
    def run(self) -> Run:
        """The run directory."""
        return self.daemon.run

    def shell(self, line: str) -> Done:
        """Run a line of the README as written, beside the run directory."""
        return self._do(["bash", "-euo", "pipefail", "-c", line])

    def python(self, script: str, more: str = "") -> Done:
        """Run a Python block of the README as written, and then ``more``."""
        return self._do([sys.executable, "-c", script + more])

    def _do(self, command: list[str]) -> Done:
        env = environment.own()
        env |= {"PATH": f"{self._programs}:{env['PATH']}", "PYTHONPATH": str(ROOT)}
        return subprocess.run(
            command,
            cwd=self.folder,
            env=env,
            capture_output=True,
            text=True,
            timeout=50,
            check=False,
            stdin=subprocess.DEVNULL,
        )

    def _install(self, name: str, script: str) -> None:
        path = self._programs / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
