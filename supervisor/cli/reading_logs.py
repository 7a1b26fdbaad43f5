"""The command ``logs``: what the trainer printed, attempt after attempt, or the supervisor.

Bytes are passed on as they are, as ``cat`` does; where the middle is not kept, a line says so.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from supervisor.cli import printing
from supervisor.cli.parameters import Run, existing
from supervisor.cli.reading_follow import follow
from supervisor.cli.reading_holes import last_whole, pass_on
from supervisor.errors import UnknownError, UsageError

SUPERVISOR_LOG = "supervisor.log"
_BLOCK = 1 << 16


def logs(
    run: Run,
    *,
    n: Annotated[
        int | None,
        typer.Option("-n", "--lines", metavar="N", min=0, help="Only so many of the last lines."),
    ] = None,
    go_on: Annotated[
        bool, typer.Option("-f", "--follow", help="Go on with what comes, across attempts.")
    ] = False,
    attempt: Annotated[
        int | None,
        typer.Option("--attempt", metavar="N", min=1, help="Another attempt than the newest."),
    ] = None,
    of_supervisor: Annotated[
        bool, typer.Option("--supervisor", help="The supervisor's own output, where it is a file.")
    ] = False,
) -> int:
    """Show what the trainer of the newest attempt printed, and follow it across attempts."""
    folder = existing(run)
    if of_supervisor and attempt is not None:
        raise UsageError("cannot show an attempt of the supervisor: give one of the two options")
    source: _Source | _Newest
    if of_supervisor:
        source = _Source(folder / SUPERVISOR_LOG)
    elif attempt is not None:
        source = _Source(_output(folder, attempt))
    else:
        source = _Newest(folder)
    if not source.open(n) and not go_on:
        raise UnknownError(_nothing_there(folder, attempt, of_supervisor=of_supervisor))
    source.show()
    return follow(source.show) if go_on else 0


def _nothing_there(folder: Path, attempt: int | None, *, of_supervisor: bool) -> str:
    if of_supervisor:
        return (
            f"cannot show the supervisor's output: there is no {folder / SUPERVISOR_LOG}; it went "
            "to the terminal, or to the journal of its service (journalctl)"
        )
    if attempt is not None:
        return f"cannot show attempt {attempt}: there is no {_output(folder, attempt)}"
    return f"cannot show a trainer's output: no attempt has begun in {folder}"


class _Source:
    """A file that is passed on from where it was left, whether it is there already or not."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def open(self, n: int | None) -> bool:
        """Begin ``n`` lines from its end (None: at its beginning); False where it is not there."""
        if not self._path.is_file():
            return False
        self._offset = 0 if n is None else _start_of_last(self._path, n)
        return True

    def show(self) -> bool:
        """Pass on what is new; whether there was anything. Raises UnknownError, OSError."""
        try:
            with self._path.open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                if size < self._offset:
                    raise UnknownError(
                        f"cannot follow {self._path} any more: it holds {size} bytes, it held "
                        f"{self._offset}"
                    )
                before = self._offset
                self._offset = pass_on(file.fileno(), before, sys.stdout.buffer)
        except FileNotFoundError:
            return False
        sys.stdout.flush()
        return self._offset > before


class _Newest:
    """The output of the newest attempt; once a newer one begins, that one's."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        numbers = _attempts(folder)
        self._attempt = numbers[-1] if numbers else 0
        self._source = _Source(_output(folder, self._attempt))

    def open(self, n: int | None) -> bool:
        """As of one file."""
        return self._source.open(n)

    def show(self) -> bool:
        """Pass on what is new, then go on to the next attempt if there is one."""
        # Asked first: a newer attempt begins only after all that the older one prints.
        newer = [number for number in _attempts(self._folder) if number > self._attempt]
        found = self._source.show()
        if not newer:
            return found
        self._attempt = newer[0]
        self._source = _Source(_output(self._folder, self._attempt))
        printing.say(f"==> attempt {self._attempt} <==")
        return True


def _attempts(folder: Path) -> list[int]:
    """The attempts that have printed or may print, in order."""
    found = (path.parent.name for path in (folder / "attempts").glob("*/output.log"))
    return sorted(int(name) for name in found if name.isdigit())


def _output(folder: Path, attempt: int) -> Path:
    return folder / "attempts" / f"{attempt:06d}" / "output.log"


def _start_of_last(path: Path, n: int) -> int:
    """The byte at which the last ``n`` lines begin; a piece without newline is a line too."""
    with path.open("rb") as file:
        size = at = file.seek(0, os.SEEK_END)
        if n == 0 or size == 0:
            return size
        file.seek(size - 1)
        newlines = n + 1 if file.read(1) == b"\n" else n  # the last of these is before the lines
        first = last_whole(file.fileno())
        while at > first:
            begin = max(first, at - _BLOCK)
            file.seek(begin)
            data = file.read(at - begin)
            where = len(data)
            while newlines and (where := data.rfind(b"\n", 0, where)) >= 0:
                newlines -= 1
            if not newlines:
                return begin + where + 1
            at = begin
    return first
