"""The sections of a report on what was trained: the loss and the data mix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from supervisor.cli import report_charts as charts
from supervisor.cli.report_charts import Axis
from supervisor.cli.report_html import DASH, Html, count, folded, plural, table, tag
from supervisor.cli.report_loss import AVERAGES, NEWEST, POINTS
from supervisor.cli.report_mix import ARMS

_ROWS = 40


def loss(facts: dict[str, Any]) -> list[Html]:
    """The losses with their average, marks over them, and what is not drawn in words."""
    series = facts["loss"]
    if series is None or not series["points"]:
        return [tag("p", "No step with a finite loss is recorded.", class_="empty")]
    x = charts.steps_axis(series["first_step"], series["last_step"])
    views = [
        _view("all", "All steps", series["points"], series["averages"], series, facts, x),
    ]
    newest = series["newest"]
    if len(newest) < series["steps"]:
        narrow = charts.steps_axis(int(newest[0][0]), int(newest[-1][0]))
        name = f"Newest {len(newest):,}"
        views.append(
            _view("newest", name, newest, series["newest_averages"], series, facts, narrow)
        )
    entries = [("raw", "loss"), ("ema", f"EMA, alpha {series['alpha']:g}")]
    if series["voided"]:
        entries.append(("void", "voided: a later line took its place"))
    entries += [("pivot", "P pivot"), ("crash", "✕ unwanted end")]
    kinds = {mark["kind"] for mark in facts["marks"]}
    entries += [("rollback", "↺ went back")] if "rollback" in kinds else []
    entries += [("guard", "! guard")] if "guard" in kinds else []
    return [
        *_unsound(facts["audit"]["ledger_fault"]),
        tag("div", *_choices(views), *(view for _, _, view in views), class_="views"),
        charts.legend(*entries),
        tag("p", "", class_="readout", aria_live="polite", hidden=True),
        tag("p", _behind(series), class_="note"),
        *_marks_table(facts["marks"]),
        *_nonfinite(series["nonfinite"]),
        *_bad_lines(series),
    ]


def _unsound(line: int | None) -> list[Html]:
    """That the drawing is not vouched for, where the ledger is broken."""
    if line is None:
        return []
    text = (
        f"The ledger does not hold from line {line:,} on. What is drawn is what the file says now;"
        " the audit below names the fault."
    )
    return [tag("div", tag("p", text), class_="fault", role="note")]


def _choices(views: Sequence[tuple[str, str, Html]]) -> list[Html]:
    """Which stretch is shown: radio buttons that need no script."""
    if len(views) == 1:
        return []
    found = []
    for nth, (key, title, _) in enumerate(views):
        name = f"view-{key}"
        attributes = {"type": "radio", "name": "view", "id": name, "class_": f"choose {name}"}
        found.append(tag("input", **attributes, checked=nth == 0))
        found.append(tag("label", title, for_=name))
    return found


def _view(  # noqa: PLR0913, PLR0917 - what a drawing is made of
    key: str,
    title: str,
    points: Sequence[Sequence[float]],
    averages: Sequence[Sequence[float]],
    series: dict[str, Any],
    facts: dict[str, Any],
    x: Axis,
) -> tuple[str, str, Html]:
    pieces = [
        [point for point in piece["points"] if x.low <= point[0] <= x.high]
        for piece in series["voided_drawn"]
    ]
    pieces = [piece for piece in pieces if piece]
    y = charts.axis_of(
        [point[1] for point in points] + [point[1] for piece in pieces for point in piece]
    )
    drawn = [charts.line(points, x, y, "raw")]
    drawn += [charts.line(piece, x, y, "void") for piece in pieces]
    drawn.append(charts.line([a for a in averages if x.low <= a[0] <= x.high], x, y, "ema"))
    label = (
        f"Loss by step, {int(x.low):,} to {int(x.high):,}: from {points[0][1]:.4g} to "
        f"{points[-1][1]:.4g}; the claims and the table of marks say it in numbers"
    )
    body = charts.frame(
        drawn,
        x,
        y,
        label=label,
        say=lambda value: f"{value:g}",
        marks=charts.rail(facts["marks"], x),
        class_="tall",
        data_chart=key,
        data_low=x.low,
        data_high=x.high,
        tabindex="0",
        role="group",
        aria_label=f"{title}: arrow keys read the values out",
    )
    scale = "Loss by step, on a logarithmic axis" if y.log else "Loss by step"
    return key, title, tag("div", tag("p", scale, class_="unit"), body, class_=f"view {key}")


def _behind(series: dict[str, Any]) -> str:
    """How many lines stand behind what one sees."""
    steps, points = series["steps"], len(series["points"])
    text = f"{plural(steps, 'line')} of the ledger count"
    if series["voided"]:
        text += f", {plural(series['voided'], 'voided line')} stand apart"
        hidden = series["voided_pieces"] - len(series["voided_drawn"])
        text += f" (of {hidden:,} short stretches none is drawn)" if hidden else ""
    if points < steps:
        per = steps / ((POINTS - 2) // 2)
        text += (
            f". Drawn are {points:,} of them: the first, the last, and of every stretch of about"
            f" {_few(per)} lines the lowest and the highest, so no excursion is left out; on a plot"
            f" of 1,000 pixels about {_few(steps / 1000)} lines stand behind a pixel. The EMA was"
            f" computed over every line, then drawn at {AVERAGES:,} steps at most in the same way"
        )
    else:
        text += "; every one of them is drawn"
    if points < steps or series["steps"] > NEWEST:
        text += f". The newest {min(NEWEST, steps):,} are drawn once more, line by line"
    return text + ". Every corner of the thin line is a line of the ledger."


def _few(number: float) -> str:
    return f"{number:,.1f}" if number < 10 else f"{number:,.0f}"  # noqa: PLR2004 - one digit


def _marks_table(marks: Sequence[dict[str, Any]]) -> list[Html]:
    if not marks:
        return []
    rows = [(f"{mark['step']:,}", mark["kind"], mark["text"]) for mark in marks[-200:]]
    title = f"Marks as a table ({len(marks):,})"
    return [folded(title, table(("step", "kind", "what"), rows, "Marks", "n"))]


def _nonfinite(found: dict[str, Any]) -> list[Html]:
    if not found["count"]:
        return []
    rows = [
        (f"{row['step']:,}", row["word"], count(row["line"])) for row in found["newest"][-_ROWS:]
    ]
    title = f"Losses that are not finite and not drawn ({found['count']:,})"
    head = ("step", "loss", "line")
    return [folded(title, table(head, rows, "Losses that are not finite", "n-n"))]


def _bad_lines(series: dict[str, Any]) -> list[Html]:
    if not series["bad_lines"]:
        return []
    rows = [(f"{row['line']:,}", row["why"]) for row in series["bad"]]
    title = f"{plural(series['bad_lines'], 'line')} of the ledger that cannot be read"
    return [folded(title, table(("line", "why"), rows, "Lines that cannot be read", "n"))]


def mix(facts: dict[str, Any]) -> list[Html]:
    """One small chart for each arm: what was drawn, what was ordered, and the bounds."""
    found = facts["mix"]
    if found is None or not found["windows"]:
        return [tag("p", "No step is recorded.", class_="empty")]
    windows, arms = found["windows"], found["arms"][:ARMS]
    x = charts.steps_axis(windows[0]["first"], windows[-1]["last"])
    bounds = {policy["policy"]: policy for policy in facts["policies"]}
    tops = [share for arm in arms for share in found["drawn"][arm] if share is not None]
    y = charts.fixed(0.0, min(1.0, max([*tops, 0.1]) * 1.15))
    cells = [_arm(arm, found, bounds, x, y) for arm in arms]
    size = windows[0]["last"] - windows[0]["first"] + 1
    text = (
        f"{plural(len(windows), 'window')} of about {plural(size, 'step')}, none across a pivot. "
        "Drawn shares are counted on the ledger's lines; ordered ones are the weights that the "
        f"trainer reported for {plural(found['phases'], 'finished phase')}. The number beside an"
        " arm is what was drawn of it in the newest window."
    )
    if any(policy["unit"] == "weight" for policy in facts["policies"]):
        text += " Bounds in weights are no shares and are not drawn; the policies name them."
    left = len(found["arms"]) - len(arms)
    text += f" {plural(left, 'arm')} with the smallest shares are not drawn." if left else ""
    return [
        charts.legend(
            ("drawn", "drawn"), ("ordered", "ordered"), ("band", "between floor and cap")
        ),
        tag("div", *cells, class_="multiples"),
        tag("p", text, class_="note"),
        _shares_table(found, bounds, windows),
    ]


def _arm(
    arm: str, found: dict[str, Any], bounds: dict[int, dict[str, Any]], x: Axis, y: Axis
) -> Html:
    windows = found["windows"]
    held: list[tuple[float, float, float, float]] = []
    for window in windows:
        policy = bounds.get(window["policy"], {})
        limits = policy.get("arms", {}).get(arm)
        if limits and policy.get("unit") == "share":
            ends = (window["first"] - 1 if held else window["first"], window["last"])
            held.append((*ends, limits["floor"], min(limits["cap"], y.high)))
    shares = [
        (window["first"], window["last"], share)
        for window, share in zip(windows, found["drawn"][arm], strict=True)
        if share is not None
    ]
    asked = [
        (window["first"], window["last"], share)
        for window, share in zip(windows, found["ordered"][arm], strict=True)
        if share is not None
    ]
    drawn = [
        charts.band(held, x, y),
        charts.levels([(a, b, low) for a, b, low, _ in held], x, y, "bound"),
        charts.levels([(a, b, high) for a, b, _, high in held if high < y.high], x, y, "bound"),
        charts.line([((a + b) / 2, min(s, y.high)) for a, b, s in asked], x, y, "ordered"),
        charts.line([((a + b) / 2, s) for a, b, s in shares], x, y, "drawn"),
    ]
    last = shares[-1][2] if shares else 0.0
    label = f"Share of {arm} by step, {last:.1%} in the newest window"
    title = tag("h3", tag("span", arm), tag("b", f"{last:.1%}"))
    body = charts.frame(drawn, x, y, label=label, say=lambda value: f"{value:.0%}", class_="low")
    return tag("div", title, body, class_="multiple")


def _shares_table(
    found: dict[str, Any], bounds: dict[int, dict[str, Any]], windows: Sequence[dict[str, Any]]
) -> Html:
    """The newest window and the whole run in numbers."""
    total = sum(found["steps"].values()) or 1.0
    newest = bounds.get(windows[-1]["policy"], {}).get("arms", {})
    rows = []
    for arm in found["arms"]:
        limits = newest.get(arm, {})
        rows.append(
            (
                arm,
                _percent(found["drawn"][arm][-1]),
                _percent(found["ordered"][arm][-1]),
                *(f"{limits[key]:g}" if key in limits else DASH for key in ("floor", "cap")),
                f"{found['steps'][arm] / total:.1%}",
                f"{found['steps'][arm]:,.0f}",
            )
        )
    head = ("arm", "drawn", "ordered", "floor", "cap", "whole run", "steps")
    return folded("Shares as a table", table(head, rows, "Shares of the arms", "-nnnnnn"))


def _percent(share: float | None) -> str:
    return DASH if share is None else f"{share:.1%}"
