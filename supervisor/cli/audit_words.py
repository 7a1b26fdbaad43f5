"""An audit's outcome in words for a person, and as data."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from supervisor.cli import printing
from supervisor.cli.audit_checkpoints import Checkpoints
from supervisor.cli.audit_findings import Findings
from supervisor.cli.audit_journal import NAME, Journal, Replays
from supervisor.cli.audit_origin import Origin
from supervisor.cli.audit_pivots import Pivot
from supervisor.cli.audit_rewinds import Rewind
from supervisor.cli.audit_seals import Seals, lineage
from supervisor.cli.events_words import in_words
from supervisor.sidecars.ledger import Audit

_SHOWN = 10


class Outcome(NamedTuple):
    """Everything that was found; ``ledger`` is None where it is missing, ``attempts`` a count.

    ``head`` is None where none was given, or there is no telling.
    """

    name: str
    ledger: Audit | None
    journal: Journal
    seals: Seals
    pivots: list[Pivot]
    attempts: int
    replays: Replays
    checkpoints: Checkpoints
    head: bool | None
    rewinds: list[Rewind]
    origin: Origin | None


def lines(outcome: Outcome, findings: Findings) -> list[str]:
    """One line for each part, then the faults and the verdict."""
    rows = [
        *_origin(outcome.origin),
        *_ledger(outcome),
        ("attempts", str(outcome.attempts)),
        *_replays(outcome.replays),
        *_pivots(outcome),
        *_rewinds(outcome),
        *_rollbacks(outcome),
        *_seals(outcome),
        ("journal", _journal(outcome.journal)),
    ]
    if outcome.head is not None:
        rows.append(("head", "held" if outcome.head else "NOT held"))
    rows += [("FAULT", printing.plain(fault.text)) for fault in findings.faults[:_SHOWN]]
    if len(findings.faults) > _SHOWN:
        rows.append(("FAULT", f"{len(findings.faults) - _SHOWN} more; --json names all"))
    if not findings.faults:
        rows.append(("clean", "all of this holds"))
    return [f"{name:<12}  {text}" for name, text in rows]


def _origin(origin: Origin | None) -> list[tuple[str, str]]:
    if origin is None:
        return []
    if origin.kind == "import":
        text = f"imported at step {origin.step}; the old loss file's digest is {origin.of}"
        return [("origin", text)]
    text = f"fork of run {printing.plain(origin.of)} at step {origin.step}"
    text += f", then at {printing.plain(origin.path)}"
    return [("origin", text), ("parent", f"head {printing.plain(origin.head)}")]


def _ledger(outcome: Outcome) -> list[tuple[str, str]]:
    ledger = outcome.ledger
    if ledger is None:
        return [("ledger", f"{outcome.name} is missing")]
    upto = f" before line {ledger.fault_line}" if ledger.fault_line else ""
    text = f"{outcome.name}: {ledger.entries:,} lines verified{upto}, {ledger.bytes:,} bytes"
    rows = [("ledger", f"{text}, chain {ledger.chain}")]
    if ledger.steps:
        text = f"{ledger.first_step} to {ledger.last_step}, no gap, none twice"
        if ledger.voided:
            text += f"; {ledger.voided} older lines are voided by a later attempt"
        if ledger.nonfinite:
            text += f"; {ledger.nonfinite} losses are not finite"
        rows.append(("steps", text))
    if ledger.torn_regions or ledger.torn_tail:
        buried = f", in them {ledger.buried} lines that look whole" if ledger.buried else ""
        tail = f"; {ledger.torn_tail} bytes behind the last line" if ledger.torn_tail else ""
        rows.append(("torn", f"{ledger.torn_regions} closed off{buried}{tail}"))
    rows.append(("marks", str(len(ledger.marks))))
    return rows


def _replays(replays: Replays) -> list[tuple[str, str]]:
    times = f"{replays.replays} replay" + ("" if replays.replays == 1 else "s")
    text = f"{replays.proved} steps proved equal in {times}"
    if replays.consistent:
        text += f"; {replays.consistent} equal, without a digest of their data"
    for attempt, step in replays.differed:
        text += f"; attempt {attempt} differed from step {step} on"
    return [("replays", text)]


def _pivots(outcome: Outcome) -> list[tuple[str, str]]:
    rows = []
    for _, certificate in outcome.pivots:
        text = f"policy {certificate.policy_after} after step {certificate.pin.step}"
        text += f", asked at step {certificate.asked_step}"
        rows.append(("pivot", text if certificate.done else f"{text}, not done yet"))
    by_hand = [event.facts.get("policy") for event in outcome.journal.named("pivot-by-hand")]
    return rows + [("pivot", f"policy {printing.plain(policy)}, by hand") for policy in by_hand]


def _rollbacks(outcome: Outcome) -> list[tuple[str, str]]:
    told = outcome.journal.named("rolled-back")
    return [("rollback", in_words(event.event, event.facts)) for event in told]


def _rewinds(outcome: Outcome) -> list[tuple[str, str]]:
    rows = []
    for rewind in outcome.rewinds:
        text = f"from step {rewind.at.step} back to step {rewind.to} after attempt {rewind.attempt}"
        text += f", by {printing.plain(rewind.by)} at {printing.plain(rewind.time)}"
        rows.append(("rewind", text))
    return rows


def _seals(outcome: Outcome) -> list[tuple[str, str]]:
    seals, found = outcome.seals, outcome.checkpoints
    walked = lineage(seals)
    newest = f", the newest of step {walked[0].record.step}" if walked else ""
    behind = sum(file.superseded for file in seals.files.values())
    superseded = f"; {behind} superseded" if behind else ""
    size = f"{found.bytes:,} bytes"
    how = "digests compared" if found.digests else "sizes only; --digests reads all of them"
    text = f"{found.present} checkpoints as sealed, {size}: {how}"
    if found.gone:
        text += f"; {found.gone} deleted since"
    if found.untold:
        more = f" and {len(found.untold) - 1} more" if found.untold[1:] else ""
        text += f", of which the journal does not tell {found.untold[0]}{more}"
    if found.unsealed:
        text += f"; {found.unsealed} without a seal"
    return [
        ("seals", f"{len(walked)} in the lineage{newest}{superseded}"),
        ("checkpoints", text),
    ]


def _journal(journal: Journal) -> str:
    text = f"{NAME}: {journal.entries} events verified, chain {journal.chain}"
    return text + (f"; {journal.torn_regions} torn regions" if journal.torn_regions else "")


def facts(run: Path, outcome: Outcome, findings: Findings) -> dict[str, Any]:
    """The outcome as plain data."""
    ledger, journal = outcome.ledger, outcome.journal
    return {
        "run": str(run),
        "clean": not findings.faults,
        "faults": [fault._asdict() for fault in findings.faults],
        "ledger": _ledger_facts(outcome.name, ledger) if ledger is not None else None,
        "attempts": outcome.attempts,
        "replays": {**outcome.replays._asdict(), "differed": list(outcome.replays.differed)},
        "pivots": [
            {
                "policy": certificate.policy_after,
                "step": certificate.pin.step,
                "asked_step": certificate.asked_step,
                "done": certificate.done,
            }
            for _, certificate in outcome.pivots
        ],
        "origin": outcome.origin._asdict() if outcome.origin else None,
        "rewinds": [
            {"from": r.at.step, "to": r.to, "attempt": r.attempt, "by": r.by, "time": r.time}
            for r in outcome.rewinds
        ],
        "seals": {
            "lineage": [file.record.step for file in lineage(outcome.seals)],
            "superseded": sum(file.superseded for file in outcome.seals.files.values()),
        },
        "checkpoints": outcome.checkpoints._asdict(),
        "journal": {
            "events": journal.entries,
            "chain": journal.chain,
            "torn_regions": journal.torn_regions,
            "torn_tail": journal.torn_tail,
        },
        "head_held": outcome.head,
    }


def _ledger_facts(name: str, ledger: Audit) -> dict[str, Any]:
    plain = ("run", "entries", "bytes", "chain", "first_step", "last_step", "steps", "voided")
    torn = ("nonfinite", "torn_regions", "buried", "torn_tail")
    return {
        "name": name,
        **{field: getattr(ledger, field) for field in (*plain, *torn)},
        "attempts": [lines._asdict() for lines in ledger.attempts],
        "marks": len(ledger.marks),
    }
