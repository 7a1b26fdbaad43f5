"""The command ``tail``: the newest steps of the ledger, and those that come.

Imports next to nothing: it must answer at once on a ledger of any length.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from supervisor.cli import printing, standing
from supervisor.cli.parameters import Run, existing
from supervisor.cli.reading_follow import follow as until_interrupted
from supervisor.errors import UnknownError
from supervisor.sidecars.tailing import Tail, follow, tail_at

_WIDTHS = {"step": 8, "loss": 10, "arm": 14, "lr": 9, "policy": 6, "attempt": 7, "time": 24}
_HEAD = tuple(_WIDTHS)
_ARM = re.compile(rb'"arm":"([^"]*)"')


def tail(
    run: Run,
    *,
    n: Annotated[
        int, typer.Option("-n", "--lines", metavar="N", min=0, help="How many steps.")
    ] = 10,
    go_on: Annotated[
        bool, typer.Option("-f", "--follow", help="Go on with each step that comes; Ctrl-C ends.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the lines as they stand in the ledger.")
    ] = False,
) -> int:
    """Show the newest steps, and follow them. It makes no difference whether anything runs."""
    folder = existing(run)
    path = standing.ledger_path(folder)
    try:
        found = tail_at(path, n)
    except FileNotFoundError:
        if not go_on:
            raise UnknownError(
                f"cannot show steps of {folder}: there is no {path.name} yet; the first one is "
                "written by stepkeeper run"
            ) from None
        found = Tail([], 0)
    table = _Table(path, found.lines, as_json=as_json)
    if not as_json:
        printing.say(table.row(_HEAD))
    table.show(found)
    return until_interrupted(_Following(path, found.offset, table).look) if go_on else 0


class _Following:
    """Shows each line once, as soon as it is whole."""

    def __init__(self, path: Path, offset: int, table: _Table) -> None:
        self._path = path
        self._offset = offset
        self._table = table

    def look(self) -> bool:
        """Whether there was anything new. Raises UnknownError for a ledger that got shorter."""
        try:
            size = self._path.stat().st_size
            found = follow(self._path, self._offset)
        except FileNotFoundError:
            if not self._offset:
                return False
            raise UnknownError(f"cannot follow {self._path} any more: it is gone") from None
        if size < self._offset:
            raise UnknownError(
                f"cannot follow {self._path} any more: it holds {size} bytes, it held "
                f"{self._offset}; run stepkeeper audit"
            )
        self._table.show(found)
        self._offset, before = found.offset, self._offset
        return found.offset > before


class _Table:
    """Columns of a fixed width, since what comes later is not known: arms as wide as those so far.

    A mix of arms in one step is long.
    """

    def __init__(self, path: Path, lines: Iterable[bytes], *, as_json: bool) -> None:
        self._path = path
        self._as_json = as_json
        found = (_ARM.search(line) for line in lines)
        arm = max((len(match[1]) for match in found if match), default=0)
        self._widths = [max(width, arm * (name == "arm")) for name, width in _WIDTHS.items()]

    def show(self, found: Tail) -> None:
        """Print lines, and complain of those that cannot be read."""
        name = self._path.name
        for start, line in found.torn:
            printing.complain(f"cannot read {name} at byte {start}: torn, {_begin(line)}")
        text = list(_raw(found.lines) if self._as_json else self._rows(found.lines))
        if text:
            printing.say("\n".join(text))

    def row(self, cells: tuple[str, ...]) -> str:
        """One line; numbers to the right."""
        return "  ".join(
            cell.ljust(width) if name in ("arm", "time") else cell.rjust(width)
            for name, cell, width in zip(_HEAD, cells, self._widths, strict=True)
        ).rstrip()

    def _rows(self, lines: Iterable[bytes]) -> Iterable[str]:
        for line in lines:
            try:
                yield self.row(_cells(json.loads(line)))
            except (ValueError, KeyError, TypeError, AttributeError):
                name = self._path.name
                printing.complain(f"cannot read a line of {name}: no step, {_begin(line)}")


def _raw(lines: Iterable[bytes]) -> Iterable[str]:
    return (line.decode("ascii", "backslashreplace") for line in lines)


def _cells(fields: dict[str, Any]) -> tuple[str, ...]:
    loss, lr = fields["loss"], fields["lr"]
    mark = f"  {printing.plain(fields['mark'])}" if fields["mark"] else ""
    return (
        str(fields["step"]),
        str(fields["nonfinite"]) if loss is None else f"{loss:.6f}",
        printing.plain(fields["arm"]),
        "-" if lr is None else f"{lr:.3g}",
        str(fields["policy"]),
        str(fields["attempt"]),
        f"{printing.plain(fields['time'])}{mark}",
    )


def _begin(line: bytes) -> str:
    """How a line that cannot be read begins, for whoever looks for it."""
    return f"{len(line)} bytes that begin {line[:40]!r}"
