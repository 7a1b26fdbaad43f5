"""Commands that are killed before each of their durable calls in turn."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from tests.support.runs import ROOT

MOST_CALLS = 400


def killed_at(at: int, count: Path, *words: object) -> bool:
    """Run a command that is killed before its call number ``at``; False where it has fewer."""
    command = [sys.executable, "-m", "tests.support.dying", str(at), str(count), "from:/", "--"]
    done = subprocess.run(
        [*command, *map(str, words)],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode != 0


def calls(count: Path) -> int:
    """How many calls the last command made."""
    return int(count.read_text())
