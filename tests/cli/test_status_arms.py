"""What status says of the mix, and of files that cannot be read."""

from __future__ import annotations

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
