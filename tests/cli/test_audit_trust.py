"""The audit holds marks on checkpoints, and what is gone of them, against the journal."""

from __future__ import annotations

import pytest

from supervisor.sidecars.checkpoints import lift, quarantine
from supervisor.sidecars.events import Events
from tests.support.audited import audit, faults
from tests.support.runs import Run


def tell(run: Run, event: str, **facts: object) -> None:
    journal = Events.open(run.path / "events.jsonl")
    journal.append(event, facts, "2026-02-01T00:00:00.000Z")
    journal.sync()
    journal.close()


def test_a_quarantine_that_ended_without_a_word_is_a_fault(run: Run) -> None:
    folder, step = run.path / "checkpoints", max(run.seals())
    digest = run.events("sealed")[-1]["seal"]
    quarantine(folder, digest, "the loss is nan")
    tell(run, "quarantined", step=step, seal=digest, why="the loss is nan")
    assert faults(run) == []
    lift(folder, digest)
    (what,) = faults(run)
    assert what.endswith(f"step {step} is not in quarantine any more, and nobody lifted that")
    tell(run, "quarantine-lifted", step=step, seal=digest, why="by uid 0 pid 1")
    assert faults(run) == []


@pytest.mark.parametrize("name", ["quarantine", "rejected", "pins", "skips"])
def test_marks_that_cannot_be_read_are_a_fault(run: Run, name: str) -> None:
    (run.path / f"checkpoints/{name}.json").write_text("[]")
    found = f"checkpoints/{name}.json: it is not as this program writes it"
    assert found in [f"{f['file']}: {f['what']}" for f in audit(run).facts()["faults"]]


def test_what_retention_took_of_superseded_ones_is_told_of(run: Run) -> None:
    folder, step = run.path / "checkpoints", max(run.seals())
    assert audit(run).facts()["checkpoints"]["untold"] == []
    left = folder / "superseded/attempt-000002"
    left.mkdir(parents=True)
    (folder / f"step_{step:06}.bin").unlink()
    (folder / f"step_{step:06}.seal.json").rename(left / f"step_{step:06}.seal.json")
    name = f"superseded/attempt-000002/step_{step:06}.bin"
    assert audit(run).facts()["checkpoints"]["untold"] == [f"checkpoints/{name}"]
    tell(run, "checkpoint-deleted", step=step, name=name, rule="superseded, and 5 sealed since")
    assert audit(run).facts()["checkpoints"]["untold"] == []
