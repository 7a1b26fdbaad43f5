"""Whether the pulls that each seal counts are those of the steps since the seal before it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, BinaryIO, Final

from pydantic_core import from_json

from supervisor.cli.audit_findings import Findings
from supervisor.cli.audit_seals import Seals
from supervisor.sidecars.bandit_state import SCHEMA
from supervisor.sidecars.checkpoints.seals import SealRecord

_LINE: Final = 1 << 16  # bytes; a longer line is not looked at
_CHECKED: Final = (SCHEMA,)  # an older one counted no pulls of what had left


def check_served(seals: Seals, ledger: Path, findings: Findings) -> None:
    """Each step served one pull; where its line names several arms, one for each at least.

    Which of both it is, the seal's own line of the ledger says. Raises OSError.
    """
    with ledger.open("rb") as lines:
        for file in sorted(seals.files.values(), key=lambda file: file.record.step):
            before = seals.find(file.record.previous) if file.record.previous else None
            pulls = pulls_between(before.record, file.record) if before is not None else None
            if before is None or pulls is None:
                continue
            steps = file.record.step - before.record.step
            mixed = is_mixed(lines, file.record.ledger.bytes)
            if pulls < steps or (pulls > steps and mixed is False):
                what = f"it counts {pulls} pulls in the {steps} steps since {before.path.name}"
                findings.fault(file.path, what)


def is_mixed(ledger: BinaryIO, end: int) -> bool | None:
    """Whether the line that ends at this byte counts pulls by arm; None where it is no line."""
    ledger.seek(max(0, end - _LINE))
    line = ledger.read(min(end, _LINE)).rstrip(b"\n").rpartition(b"\n")[2]
    try:
        return "=" in from_json(line)["arm"]
    except (ValueError, KeyError, TypeError):
        return None


def pulls_between(before: SealRecord, seal: SealRecord) -> int | None:
    """Pulls counted since the seal before; None where one of them does not count all.

    What was imported is of policy 0, none of ours, and counts nothing.
    """
    if not seal.policy:
        return None
    since = served(before.bandit) if before.policy == seal.policy else 0
    until = served(seal.bandit)
    return None if since is None or until is None else until - since


def served(record: dict[str, Any]) -> int | None:
    """All pulls that a sealed state has served, whoever has left; None where it may lack some."""
    if record.get("schema") not in _CHECKED:
        return None
    try:
        arms = sum(int(arm["served"]) for arm in record["arms"].values())
        left = sum(int(one["numbers"]["served"]) for one in record["retired"])
        return arms + left + sum(map(int, record["strangers"].values()))
    except (KeyError, TypeError, AttributeError, ValueError):
        return None  # what it is instead is told by whoever resumes from it
