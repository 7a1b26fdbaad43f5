"""A trainer that tells of its checkpoints steps later, in whatever state a supervisor dies."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from itertools import pairwise

import pytest

from tests.support.command import command
from tests.support.daemon import Daemon
from tests.support.runs import Run, scripted
from tests.support.storm import SECONDS, Storm

pytestmark = pytest.mark.system

SEED = 20261130
Supervise = Callable[..., Daemon]


def lateness(run: Run, attempt: int) -> list[int]:
    """How many steps each checkpoint of an attempt was told of after its own."""
    late, newest = [], 0
    for report in run.reports(attempt):
        if report["report"] == "step":
            newest = report["step"]
        elif report["report"] == "checkpoint":
            late.append(newest - report["step"])
    return late


def exact(run: Run) -> None:
    """One line per step; each seal of its own step's place; a chain of seals; nothing refused."""
    seals = run.seals()
    assert [line["step"] for line in run.ledger()] == list(range(1, len(run.ledger()) + 1))
    for step, seal in seals.items():
        assert (seal["ledger"]["entries"], seal["ledger"]["step"]) == (step, step)
    assert run.events("checkpoint-refused") == []
    assert all(replay["differed"] is None for replay in run.events("replay"))
    assert command("audit", run.path).code == 0


@pytest.mark.timeout(900)
def test_a_storm_of_kills_amid_late_saves_loses_and_doubles_nothing(
    supervise: Supervise, *, thorough: bool
) -> None:
    trainer = scripted(rate=300, every=40, beside=True, slow_save=0.06, sample_every=40)
    daemon = supervise(trainer, every=40, algorithm="ucb1").start()
    storm = Storm(daemon, SEED)
    daemon.until_seal(80, seconds=SECONDS)
    for turn in range(40 if thorough else 4):
        if turn % 4 == 2:
            os.kill(daemon.until_trainer(seconds=SECONDS), signal.SIGKILL)
        storm.blow()
    storm.answers()
    daemon.until_seal(daemon.run.last_step() + 80, seconds=SECONDS)
    assert daemon.stop(SECONDS) == 0
    run = daemon.run
    late = [lateness(run, one["attempt"]) for one in run.attempts()]
    assert max(max(found, default=0) for found in late) >= 5
    assert len(late) > 1
    exact(run)
    sampled = {seal["step"]: seal["sample"] for seal in run.seals().values()}
    assert all(sample == step for step, sample in sampled.items() if step % 40 == 0)
    steps = sorted(run.seals())
    assert all(after - before <= 40 for before, after in pairwise(steps))


def test_a_late_save_that_hangs_is_found_by_the_next_and_costs_what_was_not_saved(
    supervise: Supervise,
) -> None:
    trainer = scripted(rate=300, every=50, steps=200, beside=True, hang_in_save=100, attempts=1)
    patience = "[hang]\nleast = 2.0\nfirst_step = 20.0\nsave = 1.5\n[stop]\ngrace = 0.5\n"
    daemon = supervise(trainer, every=50, settings=patience).start()
    assert daemon.wait(SECONDS) == 0
    run = daemon.run
    assert [one["ended"]["cause"] for one in run.attempts()] == ["hung", "finished"]
    [hang] = run.events("hang")
    assert (hang["doing"], hang["step"]) == ("save", 150)
    assert run.attempts()[1]["resume"]["step"] == 50
    exact(run)


def test_a_request_and_a_pivot_amid_a_late_save_are_answered_by_their_own(
    supervise: Supervise,
) -> None:
    trainer = scripted(rate=200, every=100, beside=True, slow_save=0.3)
    daemon = supervise(trainer, every=100).start()
    daemon.until_step(101)
    saved = command("save", daemon.run.path, "--pin", "--json").facts()
    assert saved["pinned"]
    assert saved["step"] > 101
    daemon.until_step(201)
    assert command("pivot", daemon.run.path, "--cap", "a=0.8").code == 0
    daemon.until(lambda: daemon.run.events("pivot-done"), "the pivot's end", SECONDS)
    [pivot] = daemon.run.events("pivot-done")
    [asked] = daemon.run.events("pivot-requested")
    assert pivot["pin"] == -(-asked["step"] // 100) * 100
    assert daemon.stop(SECONDS) == 0
    assert command("audit", daemon.run.path).code == 0
