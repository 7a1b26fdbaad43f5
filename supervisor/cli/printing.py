"""What commands print: facts as JSON or text on stdout, one line of error on stderr."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from typing import Any

from supervisor.errors import StepkeeperError


def say(text: str) -> None:
    """A line on stdout, at once. Raises BrokenPipeError where nobody reads any more."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def emit(facts: dict[str, Any]) -> None:
    """Facts as one JSON object on one line; a number that is not finite becomes null."""
    say(json.dumps(_finite(facts)))


def complain(error: str | StepkeeperError) -> None:
    """One line on stderr, whatever the error has to say; a reader that is gone is ignored."""
    head, *more = str(error).splitlines() or ["cannot say what is wrong"]
    parts = "; ".join(line.strip() for line in more)
    try:
        sys.stderr.write(f"{head} {parts}\n" if parts else f"{head}\n")
        sys.stderr.flush()
    except OSError:
        silence()


def note(text: str) -> None:
    """A line on stderr that is no error; a reader that is gone is ignored."""
    complain(plain(text))


def silence() -> None:
    """Let nothing be written any more, so that the interpreter's end is quiet too."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as they need to be, two spaces between them."""
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    lines = (
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (head, *rows)
    )
    return "\n".join(lines)


def plain(text: object) -> str:
    """Text from a file, with ``?`` for characters that a terminal would act on."""
    return "".join(c if c.isprintable() else "?" for c in str(text))


def change(facts: dict[str, Any]) -> str:
    """A changed setting with its old and new value, as TOML has them, and when it takes effect."""
    old, new = (
        "unset" if facts[key] is None else json.dumps(facts[key], ensure_ascii=False)
        for key in ("old", "new")
    )
    return f"{plain(facts['setting'])}: {plain(old)} -> {plain(new)} ({facts['reach']})"


def duration(seconds: float) -> str:
    """``42 s``, ``12 min`` or ``3.5 h``."""
    if seconds < 120:  # noqa: PLR2004 - two minutes read better in seconds
        return f"{seconds:.0f} s"
    if seconds < 7200:  # noqa: PLR2004 - and two hours in minutes
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def bytes_text(size: int) -> str:
    """``776 B``, ``10.4 MB`` or ``1.44 GB``."""
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= factor:
            return f"{size / factor:.3g} {unit}"
    return f"{size} B"


def _finite(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    if isinstance(value, float) and not -float("inf") < value < float("inf"):
        return None
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return value
