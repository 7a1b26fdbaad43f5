"""``status`` and ``checkpoints``: what is at risk, what needs somebody, what can be resumed."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.command import command
from tests.support.daemon import Daemon
from tests.support.runs import scripted
from tests.support.waiting import wait_until

pytestmark = pytest.mark.system

Supervise = Callable[..., Daemon]


def test_status_tells_what_runs_and_what_is_at_risk(supervise: Supervise) -> None:
    daemon = supervise(scripted(every=100, rate=50), every=100).start()
    daemon.until_seal(100)
    daemon.until_step(110)
    told = command("status", daemon.run.path, "--json")
    facts = told.facts()
    assert (told.code, told.err, facts["alarms"]) == (0, "", [])
    assert facts["state"] == "running"
    assert facts["supervisor"] == {"alive": True, "answers": True}
    assert facts["trainer"] == {"alive": True, "pid": daemon.until_trainer()}
    assert facts["step"] >= 110
    assert facts["at_risk"]["steps"] == facts["step"] - facts["sealed"]["step"]
    assert 0 <= facts["at_risk"]["seconds"] < 60
    assert facts["rate"] == pytest.approx(50, rel=0.3)
    assert facts["head"].startswith(f"{facts['sealed']['step']}:")
    assert sum(arm["share"] for arm in facts["arms"]["live"].values()) == pytest.approx(1)
    text = command("status", daemon.run.path).out
    assert "steps/s" in text
    assert "since the last seal" in text
    assert daemon.stop() == 0
    rest = command("status", daemon.run.path, "--json")
    assert (rest.code, rest.facts()["state"]) == (0, "stopped")
    assert rest.facts()["at_risk"]["steps"] == 0


def test_status_shouts_where_a_trainer_is_alone(supervise: Supervise) -> None:
    daemon = supervise(scripted(every=1000, rate=200), every=1000).start()
    daemon.until_step(20)
    daemon.kill()
    seen = daemon.run.reports(1, "step")[-1]["step"]
    wait_until(
        lambda: daemon.run.reports(1, "step")[-1]["step"] > seen + 20, "steps that nobody reads"
    )
    told = command("status", daemon.run.path)
    assert told.code == 1
    assert "TRAINER ALIVE, NO SUPERVISOR" in told.out
    facts = command("status", daemon.run.path, "--json").facts()
    assert facts["state"] == "trainer alive, no supervisor"
    assert facts["at_risk"]["steps"] == facts["step"] > daemon.run.last_step()
    os.kill(daemon.until_trainer(), signal.SIGKILL)
    wait_until(lambda: not daemon.run.pids(), "the trainer's end")
    assert command("status", daemon.run.path, "--json").facts()["state"] == "nothing runs"


def test_status_of_a_finished_run_and_of_one_that_never_started(supervise: Supervise) -> None:
    fresh = supervise(scripted()).run
    told = command("status", fresh.path)
    assert (told.code, told.err) == (0, "")
    assert "never started" in told.out
    daemon = supervise(scripted(steps=30)).start()
    assert daemon.wait() == 0
    assert command("status", daemon.run.path, "--json").facts()["state"] == "finished"
    (fresh.path / "run.toml").write_text("name = [")
    broken = command("status", fresh.path)
    assert (broken.code, broken.out) == (2, "")
    assert broken.complaint().startswith(f"cannot read {fresh.path}/run.toml")


def test_checkpoints_are_listed_with_their_state(supervise: Supervise) -> None:
    daemon = supervise(scripted(every=50, steps=170), every=50)
    assert command("checkpoints", daemon.run.path).out == "no checkpoint yet\n"
    assert daemon.start().wait() == 0
    folder = daemon.run.path / "checkpoints"
    told = command("checkpoints", daemon.run.path, "--verify", "--json")
    rows = {row["step"]: row for row in told.facts()["checkpoints"]}
    assert (told.code, list(rows)) == (0, [170, 150, 100, 50])
    assert all(row["verified"] and row["state"] == "sealed" for row in rows.values())
    damage(folder / "step_000100.bin")
    (folder / "step_000050.bin").unlink()
    (folder / "step_000160.bin").write_bytes((folder / "step_000150.bin").read_bytes())
    plain = command("checkpoints", daemon.run.path, "--json").facts()["checkpoints"]
    states = {row["step"]: row["state"] for row in plain}
    assert states == {170: "sealed", 160: "unsealed", 150: "sealed", 100: "sealed", 50: "deleted"}
    bad = command("checkpoints", daemon.run.path, "--verify")
    assert bad.code == 1
    [line] = [line for line in bad.out.splitlines() if "BAD" in line]
    assert line.startswith("100 ")
    assert "sha256: expected" in line
    assert "3 read back, 1 of them not as sealed" in bad.out


def damage(path: Path) -> None:
    """Flip the lowest bit of a weight."""
    data = bytearray(path.read_bytes())
    data[8] ^= 1
    path.write_bytes(data)


def test_the_size_of_a_checkpoint_follows_from_its_parameters(supervise: Supervise) -> None:
    run = supervise(scripted()).run
    facts = command("checkpoints", run.path, "--size", "98698752", "--json").facts()
    assert facts["bytes"] == 1_184_385_032
    assert facts["fit"] == facts["free"] // facts["bytes"]
    told = command("checkpoints", run.path, "--size", "12780288")
    assert told.out.startswith("153363464 bytes (153 MB)")
    assert json.dumps(facts)
