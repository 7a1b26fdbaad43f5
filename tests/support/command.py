"""One command line, run in this process: its exit code and everything that it printed."""

from __future__ import annotations

import contextlib
import io
import json
import sys
from typing import Any, NamedTuple

from supervisor.cli import run


class Told(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str

    def facts(self) -> dict[str, Any]:
        """The one JSON object on stdout."""
        [line] = self.out.splitlines()
        record: dict[str, Any] = json.loads(line)
        return record

    def complaint(self) -> str:
        """The one line on stderr, which begins as every error does."""
        [line] = self.err.splitlines()
        assert line.startswith("cannot ")
        return line


def command(*words: object) -> Told:
    """``stepkeeper`` with these words."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run([str(word) for word in words])
    return Told(code, out.getvalue(), err.getvalue())


def program(*words: object) -> list[str]:
    """The same as a command for a process of its own."""
    return [sys.executable, "-m", "supervisor", *map(str, words)]
