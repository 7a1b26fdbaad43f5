"""What a report says of the loss: the series decimated, voided lines apart, and the claims."""

from __future__ import annotations

import json
import math
import re
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Any

from supervisor.core.decimation import decimate
from supervisor.core.smoothing import ema
from supervisor.sidecars.ledger.columns import Columns

POINTS = 2400  # of the losses, two to a pixel of a wide screen
AVERAGES = 1200
VOIDED_POINTS = 400
STRETCHES = 60  # of voided lines that are drawn, the longest first
NEWEST = 1000  # steps at the end that are drawn once more, every line of them
_PIVOTS = 20  # pivots that are claims by themselves
_NONFINITE = 200
_LOSS = re.compile(rb'"loss":([^,]*),')


class Series:
    """The canonical losses with their average; ``steps`` and ``losses`` have one entry a line.

    ``averages`` are the EMA with ``alpha`` after each of them; a loss that is not finite leaves
    it as it was. ``known`` are the places of the finite ones.
    """

    def __init__(self, columns: Columns, alpha: float) -> None:
        self.columns = columns
        self.alpha = alpha
        self.steps = array("q")
        self.losses = array("d")
        for segment in columns.standing:
            rows = slice(segment.number - 1, segment.number + segment.last - segment.first)
            self.steps += columns.steps[rows]
            self.losses += columns.losses[rows]
        finite = [not math.isnan(loss) for loss in self.losses]
        self.known: Sequence[int] = range(len(finite))
        values: Iterable[float | None] = self.losses
        if not all(finite):
            self.known = [at for at, here in enumerate(finite) if here]
            values = (
                loss if here else None for loss, here in zip(self.losses, finite, strict=True)
            )
        none_yet = float("nan")
        self.averages = array("d", (none_yet if x is None else x for x in ema(values, alpha)))

    def at(self, step: int) -> int | None:
        """The place of a step, or None."""
        found = bisect_left(self.steps, step)
        return found if found < len(self.steps) and self.steps[found] == step else None

    def lowest(self) -> int | None:
        """The place of the lowest average."""
        if not self.known:
            return None
        first = self.known[0]
        averages = self.averages[first:] if first else self.averages
        return first + averages.index(min(averages))


def facts(series: Series) -> dict[str, Any]:
    """The whole chart as data, and the numbers that sum it up."""
    columns, known, steps = series.columns, series.known, series.steps
    losses = series.losses if len(known) == len(steps) else array("d", _of(series.losses, known))
    shown = [known[at] for at in decimate(losses, POINTS)]
    averages = (
        series.averages if len(known) == len(steps) else array("d", _of(series.averages, known))
    )
    smooth = [known[at] for at in decimate(averages, AVERAGES)]
    newest = known[-NEWEST:]
    last = len(steps) - 1
    return {
        "alpha": series.alpha,
        "lines": len(columns.steps),
        "bad_lines": columns.bad_lines,
        "bad": [{"line": line, "why": why} for line, why in columns.bad],
        "steps": len(steps),
        "first_step": steps[0] if steps else None,
        "last_step": steps[last] if steps else None,
        "last_loss": _number(series.losses[last]) if steps else None,
        "last_average": _number(series.averages[last]) if steps else None,
        "nonfinite": _nonfinite(series),
        "points": _rows(series, shown),
        "averages": _smooth(series, smooth),
        "newest": _rows(series, newest),
        "newest_averages": _smooth(series, newest),
        **_voided(columns),
    }


def _rows(series: Series, places: Iterable[int]) -> list[list[float]]:
    return [[series.steps[at], series.losses[at]] for at in places]


def _smooth(series: Series, places: Iterable[int]) -> list[list[float | None]]:
    """Step, average, loss and line at these places."""
    steps, line_of = series.steps, series.columns.line_of
    return [
        [steps[at], series.averages[at], series.losses[at], line_of(steps[at])] for at in places
    ]


def _of(values: Sequence[float], places: Iterable[int]) -> Iterable[float]:
    return (values[at] for at in places)


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value


def _nonfinite(series: Series) -> dict[str, Any]:
    """Losses that count and are not finite: how many, and the newest of them."""
    columns = series.columns
    if len(series.known) == len(series.steps):
        return {"count": 0, "newest": []}
    unknown = [step for step, x in zip(series.steps, series.losses, strict=True) if math.isnan(x)]
    rows = []
    for step in unknown[-_NONFINITE:]:
        line = columns.line_of(step)
        rows.append({"step": step, "line": line, "word": columns.words.get(line or 0, "")})
    return {"count": len(unknown), "newest": rows}


def _voided(columns: Columns) -> dict[str, Any]:
    """Lines that a later one took the place of, as pieces of their own, each in file order."""
    pieces: list[tuple[int, int]] = []
    for first, last in columns.voided:
        begin = first
        for line in range(first, last + 1):
            here = columns.steps[line - 1]
            goes_on = line > first and here == columns.steps[line - 2] + 1
            if here < 0 or not goes_on:
                if line > begin:
                    pieces.append((begin, line - 1))
                begin = line + 1 if here < 0 else line
        if begin <= last:
            pieces.append((begin, last))
    pieces.sort(key=lambda piece: piece[0] - piece[1])
    drawn = []
    for first, last in pieces[:STRETCHES]:
        rows = [(columns.steps[at], columns.losses[at]) for at in range(first - 1, last)]
        rows = [row for row in rows if not math.isnan(row[1])]
        kept = decimate([loss for _, loss in rows], VOIDED_POINTS)
        drawn.append({"line": first, "points": [list(rows[at]) for at in kept]})
    return {
        "voided": sum(last - first + 1 for first, last in pieces),
        "voided_pieces": len(pieces),
        "voided_drawn": [piece for piece in drawn if piece["points"]],
    }


def claims(
    series: Series, asked: Sequence[int], pivots: Sequence[int], sound_before: int
) -> list[dict[str, Any]]:
    """Loss and average at steps that somebody may ask about, each with its line of the ledger.

    ``pivots`` are first steps under a policy. Lines before ``sound_before`` were verified; 0 says
    that none was. Raises OSError.
    """
    wanted: dict[int, str] = {}
    if asked:
        wanted = dict.fromkeys(asked, "asked for")
    elif series.steps:
        lowest = series.lowest()
        for step in pivots[-_PIVOTS:]:
            wanted[step] = "the first step after a pivot"
            wanted.setdefault(step - 1, "the last step before a pivot")
        if lowest is not None:
            wanted.setdefault(series.steps[lowest], "the lowest EMA")
        wanted.setdefault(series.steps[-1], "the last step")
    lines = {step: series.columns.line_of(step) for step in sorted(wanted)}
    texts = series.columns.texts(line for line in lines.values() if line is not None)
    return [
        _claim(series, step, wanted[step], line, texts.get(line or 0), sound_before)
        for step, line in lines.items()
    ]


def _claim(
    series: Series, step: int, why: str, line: int | None, text: bytes | None, sound_before: int
) -> dict[str, Any]:
    at = series.at(step)
    if line is None or text is None or at is None:
        return {"step": step, "why": why, "line": None}
    fields = json.loads(text)
    exact = _LOSS.search(text)
    return {
        "step": step,
        "why": why,
        "line": line,
        "loss": exact[1].decode("ascii", "replace") if exact else "",
        "nonfinite": str(fields.get("nonfinite", "")),
        "average": _number(series.averages[at]),
        "arm": str(fields.get("arm", "")),
        "policy": fields.get("policy"),
        "attempt": fields.get("attempt"),
        "time": str(fields.get("time", "")),
        "chain": str(fields.get("chain", "")),
        "verified": line < sound_before,
    }
