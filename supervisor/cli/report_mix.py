"""What a report says of the data mix: which policy was in force when, and the shares over time."""

from __future__ import annotations

import json
import mmap
import os
import tomllib
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from supervisor.cli import standing
from supervisor.cli.report_loss import Series
from supervisor.core import shares
from supervisor.core.shares import Ordered, Window
from supervisor.errors import StepkeeperError
from supervisor.sidecars import archive, attempts

WINDOWS = 120
_LEAST = 50  # steps in a window, below which a share says little
ARMS = 64  # that are drawn, those with the largest share first
_PHASE = b'"report":"phase"'
_BLOCK = 1 << 20


def spans(series: Series) -> list[Window]:
    """The steps under each policy that count, in order, neighbours of one policy as one."""
    found: list[Window] = []
    for segment in series.columns.standing:
        policy = series.columns.policies.get(segment.attempt, 0)
        if found and found[-1].policy == policy and found[-1].last + 1 == segment.first:
            found[-1] = found[-1]._replace(last=segment.last)
        else:
            found.append(Window(segment.first, segment.last, policy))
    return found


def facts(run: Path, series: Series, problems: list[str]) -> dict[str, Any]:
    """Windows with the shares that were drawn and ordered, arm by arm."""
    most = max(1, min(WINDOWS, len(series.steps) // _LEAST))
    cuts = shares.windows(spans(series), most)
    drawn = [shares.drawn(fields) for fields in _fields(series, cuts)]
    phases = shares.standing(_lives(run, problems))
    ordered = shares.ordered(cuts, phases)
    total: defaultdict[str, float] = defaultdict(float)
    for window, mix in zip(cuts, drawn, strict=True):
        for arm, share in mix.items():
            total[arm] += share * (window.last - window.first + 1)
    for mix in ordered:
        for arm in mix:
            total[arm] += 0.0
    arms = sorted(total, key=lambda arm: (-total[arm], arm))
    return {
        "windows": [window._asdict() for window in cuts],
        "phases": len(phases),
        "arms": arms,
        "drawn": {arm: [mix.get(arm, 0.0) if mix else None for mix in drawn] for arm in arms},
        "ordered": {arm: [mix.get(arm, 0.0) if mix else None for mix in ordered] for arm in arms},
        "steps": {arm: round(total[arm], 3) for arm in arms},
    }


def _fields(series: Series, cuts: Sequence[Window]) -> Iterator[dict[str, int]]:
    """How often each arm field stands on the lines that count, for each window."""
    columns = series.columns
    names = columns.names
    segments = columns.standing
    firsts = [segment.first for segment in segments]
    for window in cuts:
        counts: Counter[int] = Counter()
        for segment in segments[max(0, bisect_right(firsts, window.first) - 1) :]:
            if segment.first > window.last:
                break
            first, last = max(segment.first, window.first), min(segment.last, window.last)
            begin = segment.number - 1 + first - segment.first
            counts.update(columns.arms[begin : begin + max(0, last - first + 1)])
        yield {names[number]: count for number, count in counts.items()}


def _lives(run: Path, problems: list[str]) -> Iterator[tuple[int, list[Ordered]]]:
    for number in attempts.numbers(run):
        resumed = 0
        try:
            record = attempts.read(run, number)
            resumed = record.resume.step if record.resume else 0
            phases = list(_phases(standing.reports_path(run, number)))
        except FileNotFoundError:
            continue  # it never came so far
        except (StepkeeperError, OSError, ValueError) as error:
            problems.append(f"phases of attempt {number}: {error}")
            continue
        yield resumed, phases


def _phases(path: Path) -> Iterator[Ordered]:
    """The finished phases that an attempt reported; lines that are none are passed over."""
    with path.open("rb") as file:
        if not os.fstat(file.fileno()).st_size:
            return
        with mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as data:
            at = data.find(_PHASE)
            while at >= 0:
                end = data.find(b"\n", at)
                if end < 0:
                    return
                start = data.rfind(b"\n", max(0, at - _BLOCK), at) + 1
                if (phase := _phase(data[start:end])) is not None:
                    yield phase
                at = data.find(_PHASE, end)


def _phase(line: bytes) -> Ordered | None:
    try:
        record = json.loads(line)
        weights = {str(arm): float(weight) for arm, weight in record["weights"].items()}
        first, last = record["first"], record["last"]
        named = record["report"] == "phase"
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    total = sum(weights.values())
    if not named or type(first) is not int or type(last) is not int or not total > 0:
        return None
    return Ordered(first, last, tuple((arm, weight / total) for arm, weight in weights.items()))


def policies(run: Path, series: Series | None, problems: list[str]) -> list[dict[str, Any]]:
    """Every policy that was ever in force: its steps that count, its settings and bounds."""
    ranges = spans(series) if series is not None else []
    numbers = sorted({*archive.policies(run), *(span.policy for span in ranges)})
    since = _since(series, ranges) if series is not None else {}
    found = []
    for number in numbers:
        path = archive.policy_path(run, number)
        text: dict[str, Any] = {}
        try:
            text = tomllib.loads(path.read_text("utf-8"))
        except (OSError, ValueError) as error:
            problems.append(f"policies/{path.name}: {error}")
        arms = text.pop("arms", {})
        held = [span for span in ranges if span.policy == number]
        found.append(
            {
                "policy": number,
                "steps": [[span.first, span.last] for span in held],
                "since": since.get(number, ""),
                "algorithm": str(text.get("algorithm", "")),
                "unit": str(text.get("unit", "share")),
                "settings": {str(key): value for key, value in text.items() if key != "schema"},
                "arms": _bounds(arms if isinstance(arms, dict) else {}),
            }
        )
    return found


def _since(series: Series, ranges: Sequence[Window]) -> dict[int, str]:
    """When the first step that counts under each policy was recorded."""
    lines = {series.columns.line_of(span.first): span.policy for span in reversed(ranges)}
    texts = series.columns.texts(line for line in lines if line is not None)
    return {lines[line]: str(json.loads(text).get("time", "")) for line, text in texts.items()}


def _bounds(arms: dict[str, Any]) -> dict[str, dict[str, float]]:
    found = {}
    for name, bounds in arms.items():
        table = bounds if isinstance(bounds, dict) else {}
        given = {key: table.get(key) for key in ("floor", "cap", "weight")}
        numbers = {k: float(v) for k, v in given.items() if isinstance(v, int | float)}
        found[str(name)] = {"floor": 0.0, "cap": 1.0, **numbers}
    return found


def first_steps(series: Series) -> list[int]:
    """The first step of each policy but the first, as the ledger has them."""
    return [span.first for span in spans(series)[1:]]
