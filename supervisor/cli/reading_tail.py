"""The command ``tail``: the newest steps of the ledger, and those that come.

Imports next to nothing: it must answer at once on a ledger of any length.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from supervisor.cli import printing, standing
from supervisor.cli.parameters import Run, existing
from supervisor.cli.reading_follow import follow as until_interrupted
from supervisor.errors import UnknownError
from supervisor.sidecars.tailing import Tail, follow, tail_at

_HEAD = ("step", "loss", "arm", "lr", "policy", "attempt", "time")
_WIDTHS = (8, 10, 14, 9, 6, 7, 24)


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
    if not as_json:
        printing.say(_row(_HEAD))
    _show(found, path, as_json=as_json)
    return until_interrupted(_Following(path, found.offset, as_json=as_json).look) if go_on else 0


class _Following:
    """Shows each line once, as soon as it is whole."""

    def __init__(self, path: Path, offset: int, *, as_json: bool) -> None:
        self._path = path
        self._offset = offset
        self._as_json = as_json

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
        _show(found, self._path, as_json=self._as_json)
        self._offset, before = found.offset, self._offset
        return found.offset > before


def _show(found: Tail, path: Path, *, as_json: bool) -> None:
    for start, line in found.torn:
        printing.complain(f"cannot read {path.name} at byte {start}: torn, {_begin(line)}")
    text = list(_raw(found.lines) if as_json else _rows(found.lines, path))
    if text:
        printing.say("\n".join(text))


def _raw(lines: Iterable[bytes]) -> Iterable[str]:
    return (line.decode("ascii", "backslashreplace") for line in lines)


def _rows(lines: Iterable[bytes], path: Path) -> Iterable[str]:
    for line in lines:
        try:
            yield _row(_cells(json.loads(line)))
        except (ValueError, KeyError, TypeError, AttributeError):
            printing.complain(f"cannot read a line of {path.name}: no step, {_begin(line)}")


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


def _row(cells: tuple[str, ...]) -> str:
    """Columns of a fixed width, since what comes later is not known; numbers to the right."""
    step, loss, arm, *rest = (
        cell.ljust(width) if name in ("arm", "time") else cell.rjust(width)
        for name, cell, width in zip(_HEAD, cells, _WIDTHS, strict=True)
    )
    return "  ".join((step, loss, arm, *rest)).rstrip()


def _begin(line: bytes) -> str:
    """How a line that cannot be read begins, for whoever looks for it."""
    return f"{len(line)} bytes that begin {line[:40]!r}"
