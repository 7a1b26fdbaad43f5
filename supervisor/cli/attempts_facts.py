"""Every attempt of a run and where its time went, gathered from files alone.

A record that cannot be read is told as a problem and left out; the rest goes on.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from supervisor import clock
from supervisor.cli import standing
from supervisor.core.goodput import Account, Span, Times, account, canonical, goodput
from supervisor.errors import RefusedError
from supervisor.sidecars import attempts
from supervisor.sidecars.attempts import AttemptModel
from supervisor.sidecars.events import EventLine, read
from supervisor.sidecars.report_times import ReportTimes, report_times

_PARTS = ("in_steps", "between", "starting", "waiting", "voided", "paused")


class Told(NamedTuple):
    """What the journal adds: differences, proofs, and the attempts that came after a stop."""

    differed: dict[int, int]
    replays: dict[int, tuple[int, int]]
    paused: set[int]


def gather(run: Path) -> dict[str, Any]:
    """``attempts``, ``summary`` and ``problems`` as JSON values. Raises OSError."""
    problems: list[str] = []
    records = list(_records(run, problems))
    told = _journal(run, problems)
    # Asked before the reports are read: what is still being written ends now.
    kept = standing.supervised(run) or standing.trained(run)
    now = clock.unix()
    spans, times = _spans(run, records, told, now, problems)
    ranges = canonical(spans)
    rows, accounts = [], []
    before: float | None = None
    for record, span, read_times in zip(records, spans, times, strict=True):
        found = account(span, read_times(ranges.get(span.number)), before)
        rows.append(_row(record, span, ranges.get(span.number), told, found))
        accounts.append(found)
        before = span.ended
    after = 0.0
    if kept and before is not None and records[-1].ended is not None:
        after = max(0.0, now - before)
    return {
        "run": str(run),
        "attempts": rows,
        "summary": _summary(ranges, accounts, after),
        "problems": problems,
    }


def _records(run: Path, problems: list[str]) -> Iterator[AttemptModel]:
    for number in attempts.numbers(run):
        try:
            record = attempts.read(run, number)
            for time in (record.started, *([record.ended.time] if record.ended else [])):
                datetime.fromisoformat(time)
        except RefusedError as error:
            problems.append(str(error))
        except ValueError as error:
            path = attempts.folder(run, number) / "attempt.json"
            problems.append(f"cannot read {path}: {error}")
        else:
            yield record


def _journal(run: Path, problems: list[str]) -> Told:
    told = Told({}, {}, set())
    stopped, last = False, 0
    try:
        lines = list(read(run / "events.jsonl"))
    except FileNotFoundError:
        return told
    for line in lines:
        if not isinstance(line, EventLine):
            problems.append(f"cannot read events.jsonl: {line}")
            continue
        facts = line.facts
        attempt = facts.get("attempt")
        if line.event == "stop-asked":
            stopped = True
        elif line.event == "attempt-started" and type(attempt) is int:
            if stopped and last:
                told.paused.add(attempt)
            stopped, last = False, attempt
        elif line.event == "replay-differed" and type(attempt) is int:
            told.differed.setdefault(attempt, int(facts.get("step", 0)))
        elif line.event == "replay" and type(attempt) is int:
            told.replays[attempt] = (int(facts.get("proved", 0)), int(facts.get("consistent", 0)))
    return told


class _Reports:
    """Answers for the times of one attempt's reports, given its canonical steps."""

    def __init__(self, path: Path, span: Span, problems: list[str]) -> None:
        self._path = path
        self._span = span
        self._problems = problems

    def __call__(self, steps: tuple[int, int] | None) -> Times:
        try:
            with report_times(self._path) as found:
                return _times(found, self._span, steps) if found is not None else Times()
        except (OSError, ValueError, KeyError) as error:
            self._problems.append(f"cannot read {self._path}: {error}")
            return Times()


def _times(found: ReportTimes, span: Span, steps: tuple[int, int] | None) -> Times:
    if found.first is None or found.last is None:
        return Times()
    total = found.last - found.first
    end = found.at(span.last) if span.last else None
    if steps is None:
        # Steps that ran and count for nothing, from the first new one on.
        begin = _before(found, span, span.first_new) if span.last >= span.first_new else None
        voided = end - begin if begin is not None and end is not None else 0.0
        waiting = found.waited(found.first, found.last)
        return Times(0.0, max(0.0, voided), min(waiting, total), total)
    begin, last = _before(found, span, steps[0]), found.at(steps[1])
    if begin is None or last is None or end is None:
        raise ValueError(f"steps {steps[0]} to {steps[1]} are not all reported in it")
    inside = found.waited(begin, last)
    late = found.waited(last, end)
    return Times(
        in_steps=max(0.0, last - begin - inside),
        voided=max(0.0, end - last - late),
        waiting=found.waited(found.first, found.last),
        total=total,
    )


def _before(found: ReportTimes, span: Span, step: int) -> float | None:
    """When the step began: with the one before it, or with ``ready``."""
    return found.ready if step == span.resumed + 1 else found.at(step - 1)


def _spans(
    run: Path, records: list[AttemptModel], told: Told, now: float, problems: list[str]
) -> tuple[list[Span], list[_Reports]]:
    spans, times = [], []
    finished = False
    for record in records:
        end = record.ended
        path = standing.reports_path(run, record.attempt)
        differed = end.differed if end is not None else told.differed.get(record.attempt)
        span = Span(
            number=record.attempt,
            resumed=record.resume.step if record.resume else 0,
            ledger_step=record.ledger_step,
            last=end.last_step if end is not None else _last_step(path),
            differed=differed,
            started=_unix(record.started),
            ended=_unix(end.time) if end is not None else now,
            paused=finished or record.attempt in told.paused,
        )
        spans.append(span)
        times.append(_Reports(path, span, problems))
        finished = end is not None and end.cause == "finished"
    return spans, times


def _last_step(path: Path) -> int:
    try:
        with report_times(path) as found:
            return found.last_step if found is not None else 0
    except OSError:
        return 0


def _row(
    record: AttemptModel,
    span: Span,
    steps: tuple[int, int] | None,
    told: Told,
    found: Account,
) -> dict[str, Any]:
    end = record.ended
    proved, consistent = told.replays.get(record.attempt, (0, 0))
    return {
        "attempt": record.attempt,
        "policy": record.policy,
        "started": record.started,
        "ended": end.time if end is not None else None,
        "cause": end.cause if end is not None else None,
        "status": end.status if end is not None else None,
        "resumed": span.resumed,
        "last": span.last,
        "canonical": list(steps) if steps is not None else None,
        "replayed": span.replayed,
        "proved": end.proved if end is not None else proved,
        "consistent": end.consistent if end is not None else consistent,
        "differed": span.differed,
        "sealed": end.sealed if end is not None else None,
        "lost": round(found.lost, 3),
        "seconds": {part: round(getattr(found, part), 3) for part in _PARTS},
    }


def _summary(
    ranges: dict[int, tuple[int, int]], accounts: list[Account], after: float
) -> dict[str, Any]:
    share = goodput(accounts, after)
    seconds = {part: round(sum(getattr(a, part) for a in accounts), 3) for part in _PARTS}
    seconds["between"] = round(seconds["between"] + after, 3)
    lost = sum(seconds[part] for part in ("between", "starting", "waiting", "voided"))
    return {
        "attempts": len(accounts),
        "canonical_steps": sum(last - first + 1 for first, last in ranges.values()),
        "goodput": None if share is None else round(share, 6),
        "wall": round(seconds["in_steps"] + lost, 3),
        "lost": round(lost, 3),
        "seconds": seconds,
    }


def _unix(time: str) -> float:
    return datetime.fromisoformat(time).timestamp()
