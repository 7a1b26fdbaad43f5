"""The gate on a real run: a collapse is seen, told once, and survives the supervisor's death."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from supervisor.core.coherence.gate import WATCHING, Outcome, with_outcome
from tests.support.command import command
from tests.support.daemon import Daemon
from tests.support.runs import scripted
from tests.support.speech import healthy

pytestmark = pytest.mark.system

Supervise = Callable[..., Daemon]
SPOKEN = healthy(random.Random(2), 60)  # noqa: S311 - chance that can be repeated
GATE = "[gate]\nevery = 10\nafter = 0\n"


def test_a_collapse_is_told_once_and_the_supervisors_death_changes_nothing(
    supervise: Supervise,
) -> None:
    trainer = scripted(every=100_000, rate=100, sample_every=10, sample_text=SPOKEN, collapse_at=60)
    daemon = supervise(trainer, every=100_000, settings=GATE).start()
    run = daemon.run
    daemon.until(lambda: run.events("guard"), "the gate")
    assert command("save", run.path).code == 0
    told = command("status", run.path, "--json")
    assert told.code == 1
    gate = told.facts()["gate"]
    assert (gate["firing"].split(" and ")[0], gate["since"]) == ("5 in a row", 100)
    assert "without a word list" in command("status", run.path).out
    daemon.kill()
    before = run.last_step()
    daemon.start()
    daemon.until_step(before + 30)
    saved = command("save", run.path, "--sample", "--json").facts()
    assert saved["sample"]["verdict"] == "fail"
    assert saved["sample"]["step"] == saved["step"]
    assert run.seals()[saved["step"]]["verdict"] == saved["sample"]
    shown = command("samples", run.path, "-n", "3")
    assert len(shown.out.splitlines()) == 4
    assert "region region" in shown.out
    assert daemon.stop() == 0
    (alarm,) = run.events("guard")
    assert alarm["facts"]["step"] == 100
    # What stands in the file is the fold of a life that nobody interrupted.
    kept = run.read("demo.samples.json")
    assert kept is not None
    outcomes: tuple[Outcome, ...] = ()
    for record in kept["gate"]["outcomes"]:
        last = outcomes[-1] if outcomes else None
        sketches = tuple(tuple(sketch) for sketch in record.pop("sketches"))
        came = Outcome(**record, sketches=sketches)
        before = {"sum": last.sum if last else 0.0, "firing": last.firing if last else ""}
        outcomes = with_outcome(outcomes, came._replace(**before), WATCHING)
        assert outcomes[-1] == came
    steps = [outcome.step for outcome in outcomes]
    assert [step for step in steps if step % 10 == 0] == list(range(10, max(steps) + 1, 10))


def test_a_save_says_that_its_trainer_draws_no_sample(supervise: Supervise) -> None:
    daemon = supervise(scripted(every=10_000, rate=200, mute=True), every=10_000).start()
    daemon.until_step(20)
    told = command("save", daemon.run.path, "--sample")
    assert told.code == 0
    path, sample = told.out.splitlines()
    assert path.endswith(".bin")
    assert sample == "no sample: the trainer drew none"
    refused = command("samples", daemon.run.path)
    assert refused.code == 2
    assert "none was drawn" in refused.complaint()
    assert command("status", daemon.run.path).code == 0, "no cadence of samples, so no gate"
    assert daemon.stop() == 0
