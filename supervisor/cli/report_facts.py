"""Everything that a report shows, gathered part by part: what cannot be read is said in its place.

The journal is read first, then the ledger up to one line, its head; what names a later line is
left out. So a report of a run that goes on is that of one moment.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from supervisor import clock
from supervisor.cli import report_loss, report_mix, report_records, standing, status
from supervisor.cli.attempts_facts import gather as gather_attempts
from supervisor.cli.audit_findings import Findings
from supervisor.cli.audit_seals import lineage
from supervisor.cli.audit_words import Outcome
from supervisor.cli.audit_words import facts as audit_facts
from supervisor.cli.audit_words import lines as audit_lines
from supervisor.cli.reading_audit import examine
from supervisor.cli.reading_progress import Progress
from supervisor.cli.report_loss import Series
from supervisor.errors import StepkeeperError
from supervisor.sidecars import kept_settings
from supervisor.sidecars.events import EventLine
from supervisor.sidecars.ledger import SUFFIX, columns

T = TypeVar("T")
_MEANT = ("finished", "stopped", None)
_DAMAGE = (StepkeeperError, OSError, ValueError, KeyError, TypeError, AttributeError, IndexError)


class _Parts:
    """Runs each part of the gathering; what one of them raises is its problem, not the end."""

    def __init__(self) -> None:
        self.problems: dict[str, list[str]] = {}

    def of(self, part: str) -> list[str]:
        """The problems of a part, to be added to."""
        return self.problems.setdefault(part, [])

    def get(self, part: str, work: Callable[[], T]) -> T | None:
        """What the work gives, or None and a problem."""
        try:
            return work()
        except (*_DAMAGE, RecursionError) as error:
            text = str(error) if isinstance(error, StepkeeperError | OSError) else repr(error)
            self.of(part).append(" ".join(text.split()))
            return None


def gather(run: Path, progress: Progress, *, alpha: float, asked: Sequence[int]) -> dict[str, Any]:
    """The facts of a report as JSON values, problems by part among them."""
    parts = _Parts()
    written, name = clock.wall(), name_of(run)
    path = run / f"{name}{SUFFIX}"
    events = parts.get("events", lambda: report_records.journal(run, parts.of("events"))) or []
    audited = parts.get("audit", lambda: examine(run, None, progress, digests=False))
    outcome, findings = (audited[1], audited[0]) if audited else (None, Findings(run))
    series = parts.get("loss", lambda: _series(path, outcome, progress, alpha))
    last = series.steps[-1] if series is not None and series.steps else None
    entries = _entries(outcome, series)
    facts: dict[str, Any] = {
        "run": str(run),
        "name": name,
        "written": written,
        "state": parts.get("state", lambda: _state(run)) or {"state": "unknown", "alarms": []},
        "target": _target(run),
        "audit": _audit(run, outcome, findings, entries),
        "loss": None,
        "mix": None,
        "claims": [],
        "policies": parts.get(
            "policies", lambda: report_mix.policies(run, series, parts.of("policies"))
        )
        or [],
        "samples": parts.get(
            "samples", lambda: report_records.samples(run, name, last, parts.of("samples"))
        )
        or [],
        "checkpoints": parts.get(
            "checkpoints",
            lambda: report_records.checkpoints(run, entries, parts.of("checkpoints")),
        )
        or {"rows": [], "superseded": 0},
        "attempts": parts.get("attempts", lambda: _attempts(run, parts)),
        "events": report_records.told(events),
    }
    if series is not None:
        facts["loss"] = parts.get("loss", lambda: report_loss.facts(series))
        facts["mix"] = parts.get("mix", lambda: report_mix.facts(run, series, parts.of("mix")))
        facts["claims"] = parts.get("claims", lambda: _claims(series, outcome, asked)) or []
    facts["marks"] = _marks(facts, events, series)
    facts["problems"] = {part: told for part, told in parts.problems.items() if told}
    return facts


def name_of(run: Path) -> str:
    """What the run's sidecars are called, by its settings, or else by a ledger that is alone."""
    try:
        return standing.name_of(run)
    except StepkeeperError:
        found = list(run.glob(f"*{SUFFIX}"))
        return found[0].name.removesuffix(SUFFIX) if len(found) == 1 else run.name


def _series(path: Path, outcome: Outcome | None, progress: Progress, alpha: float) -> Series:
    """The ledger up to the line that the audit ended with, or where there is a fault, all of it."""
    ledger = outcome.ledger if outcome is not None else None
    stop = ledger.bytes if ledger is not None and not ledger.fault else None
    return Series(
        columns.read(path, stop, lambda done, total: progress.show(path.name, done, total)), alpha
    )


def _entries(outcome: Outcome | None, series: Series | None) -> int | None:
    """How many lines of the ledger the report is of, or None where there is no telling."""
    if outcome is not None and outcome.ledger is not None and not outcome.ledger.fault:
        return outcome.ledger.entries
    return len(series.columns.steps) if series is not None else None


def _state(run: Path) -> dict[str, Any]:
    found = status.gather(run)
    return {"state": found["state"], "alarms": found["alarms"]}


def _target(run: Path) -> int | None:
    """How many steps the settings in force want, where they say so."""
    try:
        text = (kept_settings.newest_path(run) or run / "run.toml").read_text("utf-8")
        steps = tomllib.loads(text)["train"]["steps"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return steps if type(steps) is int and steps > 0 else None


def _audit(
    run: Path, outcome: Outcome | None, findings: Findings, entries: int | None
) -> dict[str, Any]:
    """The audit as data and in words, with the head that it holds for."""
    if outcome is None:
        names = ("clean", "head", "head_step", "ledger", "ledger_fault", "facts")
        nothing = dict.fromkeys(names)
        return {**nothing, "words": [], "faults": []}
    sealed = [
        file.record
        for file in lineage(outcome.seals)
        if entries is None or file.record.ledger.entries <= entries
    ]
    ledger = outcome.ledger
    return {
        "clean": not findings.faults,
        "head": standing.head_of(sealed[0]) if sealed else None,
        "head_step": sealed[0].step if sealed else None,
        "ledger": f"{ledger.entries}:{ledger.chain}" if ledger is not None else None,
        "ledger_fault": ledger.fault_line if ledger is not None and ledger.fault else None,
        "words": audit_lines(outcome, findings),
        "faults": [fault.text for fault in findings.faults],
        "facts": audit_facts(run, outcome, findings),
    }


def _attempts(run: Path, parts: _Parts) -> dict[str, Any]:
    found = gather_attempts(run)
    parts.of("attempts").extend(found.pop("problems"))
    return found


def _claims(series: Series, outcome: Outcome | None, asked: Sequence[int]) -> list[dict[str, Any]]:
    ledger = outcome.ledger if outcome is not None else None
    before = 0
    if ledger is not None:
        before = ledger.fault_line if ledger.fault else len(series.columns.steps) + 1
    return report_loss.claims(series, asked, report_mix.first_steps(series), before)


def _marks(
    facts: dict[str, Any], events: list[EventLine], series: Series | None
) -> list[dict[str, Any]]:
    """What happened at a step: pivots by the ledger, crashes by the attempts, and moves."""
    found: list[dict[str, Any]] = []
    for span in report_mix.spans(series)[1:] if series is not None else ():
        text = f"pivot: policy {span.policy} from step {span.first} on"
        found.append({"step": span.first, "kind": "pivot", "text": text})
    for row in (facts["attempts"] or {}).get("attempts", ()):
        if row["cause"] not in _MEANT:
            text = f"attempt {row['attempt']} ended at step {row['last']}: {row['cause']}"
            found.append({"step": row["last"], "kind": "crash", "text": text})
    found += report_records.moves(events)
    return sorted(found, key=lambda mark: (mark["step"], mark["kind"]))
