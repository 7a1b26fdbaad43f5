"""The sections of a report on what the run keeps: samples with their scores, and checkpoints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from supervisor.cli import printing
from supervisor.cli import report_charts as charts
from supervisor.cli.report_charts import Axis
from supervisor.cli.report_html import DASH, Html, folded, plural, table, tag
from supervisor.core.decimation import decimate

_ROWS = 40
_SAMPLES = 30
_DOTS = 1500  # samples of one verdict that are drawn
_SCORES = ("score", "coherence", "total")
_GOOD, _BAD = ("good", "pass", "passed", "clean", "ok"), ("bad", "fail", "failed", "incoherent")
_SET_ASIDE = ("rejected", "refused", "quarantined", "gap", "unsealed")


def samples(facts: dict[str, Any]) -> list[Html]:
    """Scores by step, coloured by verdict, and the newest samples themselves."""
    found = facts["samples"]
    if not found:
        return [tag("p", "No sample is kept.", class_="empty")]
    key = _score_of(found)
    parts: list[Html] = []
    if key:
        parts += _scores(found, key)
    verdicts = Counter(sample["verdict"] or "not judged" for sample in found)
    told = ", ".join(f"{number:,} {verdict}" for verdict, number in verdicts.most_common())
    files = len({sample["file"] for sample in found})
    text = f"{plural(len(found), 'sample')} in {plural(files, 'file')}, archived ones included: "
    parts.append(tag("p", f"{text}{told}.", class_="note"))
    newest = [_sample(sample) for sample in found[: -_SAMPLES - 1 : -1]]
    title = f"The newest {plural(len(newest), 'sample')}"
    parts.append(folded(title, tag("ol", *newest, class_="samples", reversed=True)))
    return parts


def _score_of(found: Sequence[dict[str, Any]]) -> str:
    """The score to draw: the one that stands for the whole, or the most frequent one."""
    names = Counter(name for sample in found for name in sample["scores"])
    known = next((name for name in _SCORES if name in names), "")
    return known or (names.most_common(1)[0][0] if names else "")


def _scores(found: Sequence[dict[str, Any]], key: str) -> list[Html]:
    rows = [(s["step"], s["scores"][key], _kind(s["verdict"])) for s in found if key in s["scores"]]
    x = charts.steps_axis(rows[0][0], rows[-1][0])
    high = max(value for _, value, _ in rows)
    low = min(value for _, value, _ in rows)
    y = charts.fixed(0.0, 100.0) if 1 < high <= 100 and low >= 0 else charts.axis_of([low, high])  # noqa: PLR2004 - a score out of a hundred
    drawn, entries = [], []
    for kind, text in (("plain", "not judged"), ("good", "pass"), ("bad", "fail")):
        points = [(step, value) for step, value, of in rows if of == kind]
        if points:
            kept = decimate([value for _, value in points], _DOTS)
            drawn.append(charts.dots([points[at] for at in kept], x, y, kind))
            entries.append((f"dot {kind}", f"{text} ({len(points):,})"))
    label = f"{key} of {len(rows)} samples by step, from {low:g} to {high:g}"
    return [
        tag(
            "p",
            "Score of each sample by step" if key == "score" else f"{key} of each sample",
            class_="unit",
        ),
        charts.frame(drawn, x, y, label=label, say=lambda value: f"{value:g}"),
        charts.legend(*entries),
    ]


def _kind(verdict: str) -> str:
    word = verdict.lower()
    return "good" if word in _GOOD else "bad" if word in _BAD else "plain"


def _sample(sample: dict[str, Any]) -> Html:
    scores = ", ".join(f"{name} {value:g}" for name, value in sample["scores"].items())
    where = f"step {sample['step']:,} · attempt {sample['attempt']} · {sample['file']}"
    verdict = sample["verdict"]
    pill = tag("span", verdict, class_=f"pill {_kind(verdict)}") if verdict else None
    text = sample["text"] + (" …" if sample["cut"] else "")
    return tag(
        "li",
        tag("p", where, pill, class_="where"),
        tag("p", scores, class_="where") if scores else None,
        tag("pre", tag("b", sample["prompt"]), text),
    )


def checkpoints(facts: dict[str, Any]) -> list[Html]:
    """Which there are, which are kept for ever, set aside or gone."""
    rows = facts["checkpoints"]["rows"]
    if not rows:
        return [tag("p", "No checkpoint yet.", class_="empty")]
    states = [("pinned" if r.get("pinned") else r["state"], r) for r in rows]
    order = [s for s in ("sealed", "pinned", "deleted", *_SET_ASIDE) if s in dict(states)]
    x = charts.steps_axis(min(r["step"] for r in rows), max(r["step"] for r in rows))
    y = Axis(-0.5, len(order) - 0.5, log=False, ticks=tuple(float(n) for n in range(len(order))))
    drawn = []
    for nth, state in enumerate(order):
        points = [(r["step"], float(nth)) for of, r in states if of == state]
        kept = decimate([step for step, _ in points], _DOTS)
        drawn.append(charts.dots([points[at] for at in kept], x, y, state))
    label = "Checkpoints by step and state"
    plot = charts.frame(
        drawn, x, y, label=label, say=lambda value: order[int(value)], class_="lanes"
    )
    counts = Counter(of for of, _ in states)
    told = ", ".join(f"{counts[state]:,} {state}" for state in order)
    left = facts["checkpoints"]["superseded"]
    told += f", {left:,} superseded by a later attempt" if left else ""
    head = ("step", "state", "sample", "size", "policy", "attempt", "reason", "sealed at", "note")
    special = [row for of, row in states if of in ("pinned", *_SET_ASIDE)]
    newest = [row for row in rows[:_ROWS] if row not in special]
    parts = [plot, tag("p", f"{told}.", class_="note")]
    if special:
        some = [_cells(row) for row in special[:200]]
        title = f"Pinned and set aside ({len(special):,})"
        parts.append(folded(title, table(head, some, title, "n--nnn"), open_=True))
    title = f"The newest {plural(len(newest), 'other')}"
    parts.append(folded(title, table(head, [_cells(row) for row in newest], title, "n--nnn")))
    return parts


def _cells(row: dict[str, Any]) -> tuple[object, ...]:
    state = "pinned" if row.get("pinned") else row["state"]
    size = printing.bytes_text(row["bytes"]) if "bytes" in row else DASH
    plain = [row.get(key, DASH) for key in ("policy", "attempt", "reason", "time")]
    shown = tag("span", state, class_=f"pill {state}")
    verdict = row.get("verdict") or DASH
    judged = tag("span", verdict, class_=f"pill {_kind(verdict)}") if verdict != DASH else DASH
    return (f"{row['step']:,}", shown, judged, size, *plain, row.get("note", ""))
