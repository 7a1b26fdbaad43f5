"""The command ``events``: the journal in words, its chain checked on the way, and what comes."""

from __future__ import annotations

import json
import os
from collections import deque
from pathlib import Path
from typing import Annotated

import typer

from supervisor.cli import printing
from supervisor.cli.events_words import in_words
from supervisor.cli.parameters import Run, existing
from supervisor.cli.reading_follow import follow
from supervisor.core.alarms import is_alarm
from supervisor.core.walk import ChainWalk
from supervisor.errors import UnknownError

NAME = "events.jsonl"
_AT_ONCE = 1 << 20


def events(
    run: Run,
    *,
    n: Annotated[
        int, typer.Option("-n", "--lines", metavar="N", min=0, help="How many events.")
    ] = 20,
    go_on: Annotated[
        bool, typer.Option("-f", "--follow", help="Go on with each event that comes.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the lines as they stand in the journal.")
    ] = False,
) -> int:
    """Show what happened to a run: attempts, seals, replays, pivots, alarms (marked with !).

    The chain of the whole journal is checked on the way. Exits 1 where it does not hold.
    """
    folder = existing(run)
    journal = _Journal(folder / NAME, as_json=as_json)
    if not (folder / NAME).exists() and not go_on:
        raise UnknownError(
            f"cannot show events of {folder}: there is no {NAME} yet; it begins with stepkeeper run"
        )
    while journal.read():
        pass
    journal.show(n)
    if go_on:
        return follow(journal.go_on)
    return 1 if journal.broken else 0


class _Journal:
    """Reads the journal once from its beginning, then what is added."""

    def __init__(self, path: Path, *, as_json: bool) -> None:
        self.broken = False
        self._path = path
        self._as_json = as_json
        self._walk = ChainWalk()
        self._offset = self._number = 0
        self._lines: deque[tuple[int, bytes]] = deque()

    def read(self) -> bool:
        """Take the whole lines that are there; whether there were any. Raises UnknownError."""
        try:
            descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            if os.fstat(descriptor).st_size < self._offset:
                raise UnknownError(f"cannot follow {self._path} any more: it got shorter")
            data = os.pread(descriptor, _AT_ONCE, self._offset)
        finally:
            os.close(descriptor)
        whole = data[: data.rfind(b"\n") + 1]
        lines = whole.split(b"\n")[:-1]
        self._offset += len(whole)
        self._walk.take(lines)
        for line in lines:
            self._number += 1
            self._lines.append((self._number, line))
        self._look_at_the_chain()
        return bool(lines)

    def show(self, n: int | None = None) -> None:
        """Print the last ``n`` of the lines that were read (None: all), and forget all of them."""
        lines = list(self._lines)
        self._lines.clear()
        if n is not None:
            lines = lines[-n:] if n else []
        for number, line in lines:
            self._print(number, line)

    def go_on(self) -> bool:
        """Print what is new; whether there was anything."""
        found = self.read()
        self.show()
        return found

    def _look_at_the_chain(self) -> None:
        """Say once that a line which looks whole does not follow from what is before it."""
        if self._walk.suspect and not self.broken:
            self.broken = True
            printing.complain(
                f"cannot vouch for {NAME} from line {self._walk.suspect} on: it does not match "
                "its chain; run stepkeeper audit"
            )

    def _print(self, number: int, line: bytes) -> None:
        try:
            record = json.loads(line)
            event, facts, time = str(record["event"]), dict(record["facts"]), str(record["time"])
        except (ValueError, KeyError, TypeError, RecursionError):
            text = printing.plain(line[:60].decode("utf-8", "replace"))
            printing.complain(f"cannot read line {number} of {NAME}: no event: {text}")
            return
        if self._as_json:
            printing.say(line.decode("utf-8"))
            return
        mark = "!" if is_alarm(event, facts) else " "
        printing.say(f"{printing.plain(time)} {mark} {in_words(event, facts)}")
