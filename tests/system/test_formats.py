"""Runs whose checkpoints are single files of torch or folders of shards, kept by the supervisor."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.audited import faults
from tests.support.command import command
from tests.support.daemon import Daemon
from tests.support.runs import Run, scripted
from trainer.contract.checkpoint_format import form_of, name_of

pytestmark = pytest.mark.system

Supervise = Callable[..., Daemon]


def sealed(run: Run) -> dict[int, str]:
    """The format of each sealed checkpoint by step."""
    return {step: form_of(seal["bin"]["name"]) for step, seal in sorted(run.seals().items())}


def visible(run: Run) -> list[str]:
    """Names in checkpoints/ that are no seal and no companion."""
    names = [path.name for path in (run.path / "checkpoints").iterdir()]
    return sorted(name for name in names if not name.endswith(".json"))


@pytest.mark.parametrize("form", ["pt", "sharded"])
def test_a_run_lives_through_a_crash_and_keeps_the_newest(
    supervise: Supervise, form: str, *, thorough: bool
) -> None:
    if form == "pt" and not thorough:
        pytest.skip("the other format: run it with --thorough")
    trainer = scripted(steps=400, every=50, rate=1000, format=form, kill_at=170, attempts=1)
    daemon = supervise(trainer, every=50, keep_last=2)
    run = daemon.run
    assert daemon.start().wait(40) == 0, daemon.output()
    assert sealed(run) == dict.fromkeys(range(50, 401, 50), form)
    assert list(run.canonical()) == list(range(1, 401))
    resumed = run.attempts()[1]["resume"]
    assert resumed["step"] == 150
    assert run.events("replay")[0]["proved"] == 20
    assert visible(run) == [name_of(step, form) for step in (350, 400)]
    assert [gone["name"] for gone in run.events("checkpoint-deleted")] == [
        name_of(step, form) for step in range(50, 350, 50)
    ]
    assert faults(run) == []
    told = command("checkpoints", run.path, "--verify", "--json").facts()
    rows = {row["step"]: row for row in told["checkpoints"] if row["state"] == "sealed"}
    assert {step: row["name"] for step, row in rows.items()} == {
        step: name_of(step, form) for step in (350, 400)
    }
    assert all(row["verified"] for row in rows.values())
    status = command("status", run.path, "--json").facts()
    assert str(run.path / "checkpoints" / name_of(400, form)) in json.dumps(status)
    plan = command("checkpoints", run.path, "--plan", "--json").facts()
    assert plan["bytes"] == rows[400]["bytes"]


def test_a_run_may_change_its_format_between_attempts(supervise: Supervise) -> None:
    faulty = {"kill_at": 130, "attempts": 1}
    trainer = scripted(steps=600, every=50, rate=300, format="bin,sharded,pt", **faulty)
    daemon = supervise(trainer, every=50)
    run = daemon.run
    daemon.start().until_seal(200)
    assert daemon.stop() == 0
    stopped = max(run.seals())
    assert daemon.start().wait(40) == 0, daemon.output()
    forms = sealed(run)
    assert {step for step, form in forms.items() if form == "bin"} == {50, 100}
    sharded = {step for step, form in forms.items() if form == "sharded"}
    assert sharded == {*range(150, stopped, 50), stopped}
    assert {step for step, form in forms.items() if form == "pt"} == {
        step for step in range(50, 601, 50) if step > stopped
    }
    assert list(run.canonical()) == list(range(1, 601))
    assert run.events("replay-differed") == []
    assert faults(run) == []


def test_what_goes_with_the_last_seal_is_gone_when_the_supervisor_ends(
    supervise: Supervise,
) -> None:
    trainer = scripted(steps=150, every=50, rate=100, format="sharded")
    daemon = supervise(trainer, every=50, keep_last=2)
    run = daemon.run
    daemon.start().until_seal(50)
    first = run.path / "checkpoints" / name_of(50, "sharded")
    for number in range(10_000):  # so many that to remove them takes longer than to end
        os.link(first / "meta.pt", first / f"more-{number}")
    assert daemon.wait(40) == 0, daemon.output()
    assert visible(run) == [name_of(step, "sharded") for step in (100, 150)]


def test_an_adopted_trainer_keeps_its_format_and_orders_print_its_paths(
    supervise: Supervise,
) -> None:
    daemon = supervise(scripted(every=50, rate=200, format="sharded"), every=50)
    run = daemon.run
    daemon.start().until_seal(100)
    daemon.kill()
    daemon.start().until_seal(max(run.seals()) + 50)
    told = command("save", run.path)
    assert told.code == 0, told.err
    saved = Path(told.out.strip())
    assert (saved.suffix, (saved / "index.json").is_file()) == (".sharded", True)
    step = int(saved.stem.removeprefix("step_"))
    assert command("pin", run.path, step).out == f"pinned {saved}\n"
    assert command("stop", run.path).code == 0
    newest = name_of(max(run.seals()), "sharded")
    dry = command("checkpoints", run.path, "--dry-run", "--json").facts()
    fates = {row["name"]: row["why"] for row in dry["checkpoints"]}
    assert fates[saved.name] == "pinned"
    assert newest in fates


def test_a_fork_and_a_rewind_of_folders(
    supervise: Supervise, tmp_path: Path, *, thorough: bool
) -> None:
    if not thorough:
        pytest.skip("slow: run it with --thorough")
    trainer = scripted(steps=200, every=50, rate=1000, format="sharded")
    daemon = supervise(trainer, every=50)
    run = daemon.run
    assert daemon.start().wait(40) == 0, daemon.output()
    told = command("fork", run.path, tmp_path / "new", "--step", 100, "--json")
    assert told.facts()["step"] == 100
    new = Run(tmp_path / "new")
    assert visible(new) == [name_of(100, "sharded")]
    forked = Daemon(new)
    try:
        assert forked.start().wait(40) == 0, forked.output()
    finally:
        forked.finish()
    assert faults(new) == []
    done = command("rewind", run.path, "--step", 100, "--yes")
    assert done.code == 0, done.err
    assert visible(run) == [*(name_of(step, "sharded") for step in (50, 100)), "superseded"]
    assert daemon.start().wait(40) == 0, daemon.output()
    assert sorted(run.seals()) == [50, 100, 150, 200]
    assert faults(run) == []
