"""Measured figures as a table: median, least and most of what was seen, beside its target."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple


class Figure(NamedTuple):
    """Repeated measurements of one thing. ``target`` is a bound of the median, or None."""

    name: str
    unit: str
    values: Sequence[float]
    target: float | None = None
    at_least: bool = False

    @property
    def reached(self) -> bool:
        """Whether the median keeps its bound."""
        middle = median(self.values)
        if self.target is None:
            return True
        return middle >= self.target if self.at_least else middle <= self.target


def say(text: str = "") -> None:
    """One line at once, so that a long bench shows where it is."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def table(title: str, figures: Sequence[Figure]) -> int:
    """Print the figures; 0 where every target is reached, else 1."""
    say(f"\n{title}")
    head = ("", "unit", "n", "median", "min", "max", "target", "of target", "")
    rows = [head, *map(_row, figures)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
    for row in rows:
        left = f"{row[0]:<{widths[0]}}  {row[1]:<{widths[1]}}"
        say("  ".join([left, *(f"{c:>{w}}" for c, w in zip(row[2:], widths[2:], strict=True))]))
    return 0 if all(figure.reached for figure in figures) else 1


def _row(figure: Figure) -> tuple[str, ...]:
    middle = median(figure.values)
    shown = [_short(v) for v in (middle, min(figure.values), max(figure.values))]
    bound, ratio, verdict = "", "", ""
    if figure.target is not None:
        bound = f"{'>=' if figure.at_least else '<='} {_short(figure.target)}"
        ratio = f"{middle / figure.target:.2f}" if figure.target else ""
        verdict = "reached" if figure.reached else "MISSED"
    return (figure.name, figure.unit, str(len(figure.values)), *shown, bound, ratio, verdict)


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
