"""A plain-text plot of the loss, ASCII only, with marks at steps that matter."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from supervisor.core.smoothing import Bucket, decimate, ema, smma

ALPHA = 0.05
_FINER = 8  # so many buckets or half of them go into a column
_LABEL = 9  # columns of the axis on the left
_BETWEEN = 12  # columns from one number under the axis to the next, at least


class Mark(NamedTuple):
    """A step to point at: one letter in the plot, its meaning below it."""

    step: int
    letter: str
    text: str


def plot(
    points: Iterable[tuple[int, float | None]],
    *,
    width: int = 79,
    height: int = 16,
    alpha: float = ALPHA,
    over: int | None = None,
    marks: Sequence[Mark] = (),
) -> str:
    """The series of (step, loss) as text of at most ``width`` columns.

    A ``.`` covers what the losses of its steps span, ``#`` is their moving average (EMA with
    ``alpha``, or SMMA ``over`` so many), ``:`` a marked step. A loss of None is left out and
    counted below.
    """
    steps, losses = array("q"), array("d")
    for step, loss in points:
        steps.append(step)
        losses.append(float("nan") if loss is None else loss)
    known = [None if loss != loss else loss for loss in losses]  # noqa: PLR0124 - NaN alone differs from itself
    columns = max(1, width - _LABEL)
    spans = _columns(zip(steps, known, strict=True), columns)
    smooth = ema(known, alpha) if over is None else smma(known, over)
    curve = _columns(zip(steps, smooth, strict=True), columns)
    lows = [span.low for span in spans if span.low is not None]
    highs = [span.high for span in spans if span.high is not None]
    if not lows or not highs:
        return "no finite loss to plot"
    grid = _Grid(min(lows), max(highs), len(spans), height)
    shown = [mark for mark in marks if steps[0] <= mark.step <= steps[-1]]
    for mark in shown:
        grid.column(_at(spans, mark.step), ":")
    for at, (span, averages) in enumerate(zip(spans, curve, strict=True)):
        grid.span(at, span)
        if averages.end is not None:
            grid.put(at, averages.end, "#")
    name = f"EMA, alpha {alpha:g}" if over is None else f"SMMA over {over}"
    lines = [*grid.lines(), *_axis(spans, shown), *_legend(spans, name, shown)]
    return "\n".join(line.rstrip() for line in lines)


class _Grid:
    """Characters over a range of losses, the highest loss in the first row."""

    def __init__(self, low: float, high: float, columns: int, rows: int) -> None:
        self._low = low
        self._high = high
        self._rows = [[" "] * columns for _ in range(max(rows, 2))]

    def put(self, column: int, loss: float, letter: str) -> None:
        """Write one character at the row of ``loss``."""
        self._rows[self._row(loss)][column] = letter

    def span(self, column: int, bucket: Bucket) -> None:
        """Write dots from the bucket's lowest loss to its highest."""
        if bucket.low is not None and bucket.high is not None:
            for row in range(self._row(bucket.high), self._row(bucket.low) + 1):
                self._rows[row][column] = "."

    def column(self, column: int, letter: str) -> None:
        """Fill a whole column."""
        for row in self._rows:
            row[column] = letter

    def lines(self) -> list[str]:
        """The rows with their losses on the left, every third one named."""
        last = len(self._rows) - 1
        step = (self._high - self._low) / last
        labels = [f"{self._high - step * row:7.3f}" for row in range(last + 1)]
        return [
            f"{labels[row] if row % 3 == 0 or row == last else '':>7} |{''.join(cells)}"
            for row, cells in enumerate(self._rows)
        ]

    def _row(self, loss: float) -> int:
        last = len(self._rows) - 1
        if self._high == self._low:
            return last
        return round((self._high - loss) / (self._high - self._low) * last)


def _columns(points: Iterable[tuple[int, float | None]], columns: int) -> list[Bucket]:
    """Buckets that fill all columns, or one for each point where there are fewer."""
    fine = decimate(points, _FINER * columns)
    if len(fine) <= columns:
        return fine
    groups: list[list[Bucket]] = [[] for _ in range(columns)]
    for i, bucket in enumerate(fine):
        groups[i * columns // len(fine)].append(bucket)
    return [_joined(group) for group in groups]


def _joined(group: list[Bucket]) -> Bucket:
    return Bucket(
        group[0].first,
        group[-1].last,
        min((b.low for b in group if b.low is not None), default=None),
        max((b.high for b in group if b.high is not None), default=None),
        next((b.end for b in reversed(group) if b.end is not None), None),
        sum(b.unknown for b in group),
    )


def _at(spans: Sequence[Bucket], step: int) -> int:
    """The column that holds ``step``, or the next one after it."""
    return next((i for i, span in enumerate(spans) if span.last >= step), len(spans) - 1)


def _axis(spans: Sequence[Bucket], marks: Sequence[Mark]) -> list[str]:
    """The line below, the letters of the marks, and steps at regular columns."""
    letters, numbers = [" "] * len(spans), ""
    for mark in marks:
        at = _at(spans, mark.step)
        letters[at] = mark.letter if letters[at] == " " else "*"
    for at in range(0, len(spans), max(1, _BETWEEN)):
        text = str(spans[at].first)
        if at + len(text) <= len(spans):
            numbers = numbers.ljust(at) + text
    lines = [f"{'':7} +{'-' * len(spans)}", f"{'step':>7}  {numbers}"]
    return [*lines[:1], f"{'':9}{''.join(letters)}", *lines[1:]] if marks else lines


def _legend(spans: Sequence[Bucket], name: str, marks: Sequence[Mark]) -> list[str]:
    """What the characters mean; marks of one letter and meaning share a line."""
    steps: dict[tuple[str, str], list[str]] = {}
    for mark in marks:
        steps.setdefault((mark.letter, mark.text), []).append(str(mark.step))
    shown = f"steps {spans[0].first} to {spans[-1].last}"
    lines = [f"{'':9}. span of the losses   # their {name}   {shown}"]
    lines += [
        f"{'':9}{letter} {text} (step{'s' if len(at) > 1 else ''} {', '.join(at)})"
        for (letter, text), at in steps.items()
    ]
    if unknown := sum(span.unknown for span in spans):
        lines.append(f"{'':9}{unknown} losses are not finite and not shown")
    return lines
