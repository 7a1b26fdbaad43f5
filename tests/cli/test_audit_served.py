"""The audit holds the pulls that seals count against their steps."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from supervisor.cli.audit_findings import Findings
from supervisor.cli.audit_served import check_served


def sealed(
    step: int, policy: int, *pulls: int, schema: str = "stepkeeper.bandit/2"
) -> SimpleNamespace:
    """A seal whose state counts these pulls: of an arm, of one that left, of a stranger."""
    arm, left, strange = (*pulls, 0, 0)[:3]
    bandit = {
        "schema": schema,
        "arms": {"a": {"served": arm}},
        "retired": [{"numbers": {"served": left}}] if left else [],
        "strangers": {"essays": strange} if strange else {},
    }
    return SimpleNamespace(step=step, policy=policy, bandit=bandit, previous="")


def faults(folder: Path, *records: SimpleNamespace, arm: str = "a") -> list[str]:
    files = {}
    lines = b""
    for at, record in enumerate(records):
        lines += json.dumps({"step": record.step, "arm": arm}).encode() + b"\n"
        record.previous = str(at - 1) if at else ""
        record.ledger = SimpleNamespace(bytes=len(lines))
        path = folder / f"checkpoints/step_{record.step:06d}.seal.json"
        files[str(at)] = SimpleNamespace(record=record, path=path)
    ledger = folder / "demo.loss.json"
    ledger.write_bytes(lines)
    findings = Findings(folder)
    seals = SimpleNamespace(files=files, find=files.get)
    check_served(seals, ledger, findings)  # type: ignore[arg-type]  # as far as it is asked
    return [fault.text for fault in findings.faults]


def test_one_pull_a_step_holds_across_arms_that_leave_and_a_pivot(tmp_path: Path) -> None:
    assert (
        faults(tmp_path, sealed(100, 1, 100), sealed(200, 1, 90, 70, 40), sealed(300, 2, 100)) == []
    )


def test_where_sequences_are_mixed_a_step_has_one_pull_at_least(tmp_path: Path) -> None:
    seals = [sealed(100, 1, 1600), sealed(200, 1, 3200), sealed(250, 1, 3900)]
    assert faults(tmp_path, *seals, arm="a=12 b=4") == []
    (fault,) = faults(tmp_path, sealed(100, 1, 1600), sealed(200, 1, 1690), arm="a=12 b=4")
    assert "it counts 90 pulls in the 100 steps since" in fault


@pytest.mark.parametrize("pulls", [99, 101, 199])
def test_a_pull_that_is_lost_or_counted_twice_is_found(tmp_path: Path, pulls: int) -> None:
    (fault,) = faults(
        tmp_path, sealed(100, 1, 100), sealed(200, 1, 200), sealed(300, 1, 200 + pulls)
    )
    assert fault.startswith("checkpoints/step_000300.seal.json: it counts ")
    assert f"{pulls} pulls in the 100 steps since step_000200.seal.json" in fault


def test_a_new_policy_begins_to_count_at_the_seal_before_it(tmp_path: Path) -> None:
    (fault,) = faults(tmp_path, sealed(100, 1, 100), sealed(200, 2, 50))
    assert "it counts 50 pulls in the 100 steps" in fault


def test_states_that_did_not_count_what_had_left_are_not_held_against_it(tmp_path: Path) -> None:
    first = "stepkeeper.bandit/1"
    assert (
        faults(tmp_path, sealed(100, 1, 90, schema=first), sealed(200, 1, 170, schema=first)) == []
    )
    assert (
        faults(tmp_path, sealed(100, 1, 90, schema=first), sealed(200, 1, 190), sealed(300, 1, 290))
        == []
    )


def test_what_was_imported_was_pulled_by_nobody_and_what_follows_counts(tmp_path: Path) -> None:
    imported = (sealed(100, 0, 0), sealed(200, 0, 0))
    assert faults(tmp_path, *imported, sealed(300, 1, 100)) == []
