"""Charts as SVG that fills any width: lines of constant weight, and labels that are text beside it.

The drawing is stretched to the space that there is, so nothing in it may be text or round; axes
and marks are HTML over it, placed in percent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from supervisor.cli.report_html import Html, tag

WIDTH, HEIGHT = 1000, 300
_RATIO = 30.0  # from the lowest to the highest value, above which an axis is logarithmic
_TICKS = 5
_NEAR = 1.6  # percent of the width in which marks of one kind become one
_SHOWN = 6  # of the texts of marks that became one
_GLYPHS = {"pivot": "P", "crash": "✕", "rollback": "↺", "guard": "!"}


class Axis(NamedTuple):
    """From ``low`` to ``high``; ``place`` gives 0 to 1, ``ticks`` what is written beside it."""

    low: float
    high: float
    log: bool
    ticks: tuple[float, ...]

    def place(self, value: float) -> float:
        """Where a value stands between 0 and 1."""
        if self.log:
            low, high = math.log10(self.low), math.log10(self.high)
            return (math.log10(max(value, self.low)) - low) / (high - low or 1.0)
        return (value - self.low) / (self.high - self.low or 1.0)


def axis_of(values: Iterable[float]) -> Axis:
    """An axis that holds these finite values, logarithmic where they span too much."""
    found = list(values) or [0.0, 1.0]
    low, high = min(found), max(found)
    if low > 0 and high / low > _RATIO:
        first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
        ticks = tuple(10.0**power for power in range(first, last + 1))
        return Axis(low, high, log=True, ticks=tuple(t for t in ticks if low <= t <= high))
    margin = (high - low) * 0.04 or abs(high) * 0.05 or 1.0
    low, high = low - margin, high + margin
    return Axis(low, high, log=False, ticks=_ticks(low, high, _TICKS))


def fixed(low: float, high: float) -> Axis:
    """An axis with these very ends."""
    return Axis(low, high, log=False, ticks=_ticks(low, high, _TICKS))


def steps_axis(first: int, last: int) -> Axis:
    """The axis of steps, which has whole numbers."""
    ticks = [tick for tick in _ticks(first, last, _TICKS) if tick == int(tick)]
    return Axis(first, max(last, first + 1), log=False, ticks=tuple(ticks))


def _ticks(low: float, high: float, most: int) -> tuple[float, ...]:
    rough = (high - low) / most
    if not rough > 0:
        return (low,)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next((power * f for f in (1, 2, 2.5, 5) if power * f >= rough * 0.999), power * 10)
    first = math.ceil(low / step - 1e-9)
    found = []
    while first * step <= high + step * 1e-9:
        found.append(round(first * step, 12))
        first += 1
    return tuple(found)


def line(points: Iterable[Sequence[float]], x: Axis, y: Axis, class_: str) -> Html:
    """One line through points."""
    return _path(_moves(points, x, y), class_)


def dots(points: Iterable[Sequence[float]], x: Axis, y: Axis, class_: str) -> Html:
    """Points by themselves: lines of no length, whose ends are round."""
    moves = "".join(f"M{_x(x, p[0])} {_y(y, p[1])}h0" for p in points)
    return _path(moves, f"dots {class_}")


def band(rows: Sequence[tuple[float, float, float, float]], x: Axis, y: Axis) -> Html:
    """What lies between a lower and an upper bound: (from, to, low, high), one after the other."""
    over = [f"{_x(x, a)} {_y(y, high)}L{_x(x, b)} {_y(y, high)}" for a, b, _, high in rows]
    under = [f"{_x(x, b)} {_y(y, low)}L{_x(x, a)} {_y(y, low)}" for a, b, low, _ in reversed(rows)]
    return _path(f"M{'L'.join([*over, *under])}Z" if rows else "", "band")


def levels(rows: Sequence[tuple[float, float, float]], x: Axis, y: Axis, class_: str) -> Html:
    """Level stretches: (from, to, value)."""
    moves = "".join(f"M{_x(x, a)} {_y(y, value)}H{_x(x, b)}" for a, b, value in rows)
    return _path(moves, class_)


def _path(moves: str, class_: str) -> Html:
    return tag("path", d=moves, class_=class_) if moves else Html("")


def _moves(points: Iterable[Sequence[float]], x: Axis, y: Axis) -> str:
    text = "L".join(f"{_x(x, point[0])} {_y(y, point[1])}" for point in points)
    return f"M{text}" if text else ""


def _x(axis: Axis, value: float) -> str:
    return _short(axis.place(value) * WIDTH)


def _y(axis: Axis, value: float) -> str:
    return _short((1 - axis.place(value)) * HEIGHT)


def _short(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def frame(  # noqa: PLR0913 - what a drawing is made of
    drawn: Sequence[Html],
    x: Axis,
    y: Axis,
    *,
    label: str,
    say: Callable[[float], str],
    marks: Html | None = None,
    class_: str = "",
    **attributes: object,
) -> Html:
    """The drawing with its grid, both axes and its marks. ``say`` writes a value of the y axis."""
    across = "".join(f"M0 {_y(y, tick)}H{WIDTH}" for tick in y.ticks)
    drawing = tag(
        "svg",
        _path(across, "grid"),
        *drawn,
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        preserveAspectRatio="none",
        role="img",
        aria_label=label,
    )
    left = [
        tag("span", say(tick), style=f"top:{100 * (1 - y.place(tick)):.2f}%") for tick in y.ticks
    ]
    below = [
        tag(
            "span",
            short(tick),
            style=f"left:{100 * x.place(tick):.2f}%",
            class_="odd" if nth % 2 else None,
        )
        for nth, tick in enumerate(x.ticks)
    ]
    return tag(
        "div",
        tag("div", *left, class_="yaxis", aria_hidden="true"),
        tag("div", marks, drawing, class_="area", **attributes),
        tag("div", *below, class_="xaxis", aria_hidden="true"),
        class_=f"plot {class_}".rstrip(),
    )


def short(number: float) -> str:
    """A number of steps with few characters: ``2,500``, ``250k``, ``1.5M``."""
    for factor, unit in ((1_000_000, "M"), (1000, "k")):
        if abs(number) >= max(factor, 10_000):
            return f"{number / factor:,.6g}{unit}"
    return f"{number:,.0f}"


def rail(marks: Sequence[dict[str, Any]], x: Axis) -> Html:
    """Marks over a drawing, each with its text for whoever points at it or tabs to it."""
    return tag("div", *(_mark(group, x) for group in _groups(marks, x)), class_="rail")


def _groups(marks: Sequence[dict[str, Any]], x: Axis) -> list[list[dict[str, Any]]]:
    """Marks within the axis, those of one kind that would cover each other together."""
    groups: dict[str, list[list[dict[str, Any]]]] = {}
    for mark in marks:
        if not x.low <= mark["step"] <= x.high:
            continue
        kin = groups.setdefault(mark["kind"], [])
        if kin and 100 * (x.place(mark["step"]) - x.place(kin[-1][0]["step"])) < _NEAR:
            kin[-1].append(mark)
        else:
            kin.append([mark])
    found = [group for kin in groups.values() for group in kin]
    return sorted(found, key=lambda group: int(group[0]["step"]))


def _mark(group: list[dict[str, Any]], x: Axis) -> Html:
    at, kind = 100 * x.place(group[0]["step"]), group[0]["kind"]
    texts = [tag("span", mark["text"]) for mark in group[:_SHOWN]]
    if len(group) > _SHOWN:
        texts.append(tag("span", f"and {len(group) - _SHOWN:,} more"))
    side = "right" if at > 50 else "left"  # noqa: PLR2004 - the side with more room
    return tag(
        "button",
        tag("i", _GLYPHS.get(kind, "•"), aria_hidden="true"),
        tag("span", *texts, class_=f"tip {side}", role="tooltip"),
        type="button",
        class_=f"mark {kind}",
        style=f"left:{at:.2f}%",
    )


def legend(*entries: tuple[str, str]) -> Html:
    """What each look means: (class, text)."""
    items = [
        tag("li", tag("i", class_=f"key {key}", aria_hidden="true"), text) for key, text in entries
    ]
    return tag("ul", *items, class_="legend")
