"""Rewinds as the journal tells of them, held against the ledger and the seals."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

from supervisor.cli.audit_findings import Findings
from supervisor.cli.audit_journal import NAME
from supervisor.cli.audit_seals import Seals
from supervisor.core.messages import LedgerPosition
from supervisor.sidecars.events import EventLine, read
from supervisor.sidecars.ledger import Audit


class Rewind(NamedTuple):
    """From the ledger's end ``at`` back to step ``to``, behind attempt ``attempt``."""

    line: int
    at: LedgerPosition
    to: int
    seal: str
    attempt: int
    by: str
    time: str


def read_rewinds(findings: Findings) -> list[Rewind]:
    """Every rewind, in order. A journal that is missing is named elsewhere. Raises OSError."""
    path = findings.run / NAME
    found = []
    for event in read(path) if path.is_file() else ():
        if isinstance(event, EventLine) and event.event == "rewound":
            rewind = _rewind(event)
            if rewind is None:
                findings.fault(path, "a rewind without its numbers", event.line)
            else:
                found.append(rewind)
    return found


def _rewind(event: EventLine) -> Rewind | None:
    facts: dict[str, Any] = event.facts
    try:
        at = LedgerPosition(**facts["ledger"])
        to, attempt = int(facts["to"]), int(facts["attempt"])
        return Rewind(event.line, at, to, str(facts["seal"]), attempt, str(facts["by"]), event.time)
    except (KeyError, TypeError, ValueError):
        return None


def check_rewinds(
    rewinds: list[Rewind], ledger: Audit | None, seals: Seals, findings: Findings
) -> None:
    """Each went back to a seal that is there, and the next lines go on from it. Raises OSError."""
    for nth, rewind in enumerate(rewinds, 1):
        until = rewinds[nth].attempt if nth < len(rewinds) else sys.maxsize
        seal = seals.find(rewind.seal)
        if seal is None or seal.record.step != rewind.to:
            what = f"no seal {rewind.seal[:32]} of step {rewind.to} is there to rewind to"
            findings.fault(NAME, what, rewind.line)
        if ledger is None or ledger.fault_line:
            continue
        later = [lines for lines in ledger.attempts if rewind.attempt < lines.attempt <= until]
        if later and later[0].first_step > rewind.to + 1:
            what = (
                f"attempt {later[0].attempt} goes on with step {later[0].first_step}; "
                f"{NAME} line {rewind.line} rewound to step {rewind.to}"
            )
            findings.fault(findings.run / NAME, what, rewind.line)
