"""What status says of the mix, and of files that cannot be read."""

from __future__ import annotations

import json

import pytest

from supervisor.cli.status_arms import alarms, lines
from tests.support.command import command
from tests.support.runs import Run


def test_a_mix_that_a_guard_has_frozen_is_said_to_be() -> None:
    arms = {"live": {}, "retired": {}, "standing": {}, "frozen": "the guard gate of step 380"}
    assert lines(arms) == [
        "mix       frozen by the guard gate of step 380: as under static, until the next pivot"
    ]
    assert lines({**arms, "frozen": ""}) == []


@pytest.mark.parametrize("name", ["demo.samples.json", "demo.state.json"])
def test_a_file_that_cannot_be_read_is_an_alarm_and_the_rest_is_told(run: Run, name: str) -> None:
    (run.path / name).write_text("no JSON")
    told = command("status", run.path)
    assert told.code == 1
    assert f"ALARM: cannot read {run.path / name}" in told.out
    assert "sealed    step" in told.out


def test_a_source_that_is_gone_while_the_run_trains_needs_somebody() -> None:
    stands = {"a": "live", "b": "unavailable", "c": "changed"}
    (text,) = alarms({"standing": stands}, "RUN")
    assert text.startswith("no source of b is there: bring it back")
    assert alarms({"standing": {"a": "live", "z": "zombie"}}, "RUN") == []


def test_behind_a_rewind_the_gate_is_not_said_to_know_what_came_after(run: Run) -> None:
    path = run.path / "demo.samples.json"
    last = max(run.seals())
    standing = {"last": {"step": last}, "firing": "5 in a row", "since": last}
    path.write_text(json.dumps({**json.loads(path.read_bytes()), "gate": {"standing": standing}}))
    assert command("rewind", run.path, "--step", run.checkpoints()[-2], "--yes").code == 0
    assert command("status", run.path, "--json").facts()["gate"] is None
