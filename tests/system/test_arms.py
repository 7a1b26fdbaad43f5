"""Arms that come, go and were never there, with the real supervisor and its journal."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable

import pytest

from tests.support.command import command
from tests.support.daemon import Daemon
from tests.support.runs import Run, policy_text, scripted

pytestmark = pytest.mark.system

Supervise = Callable[..., Daemon]


def arms_after(run: Run, step: int) -> set[str]:
    return {line["arm"] for line in run.ledger() if line["step"] > step}


def test_a_source_that_disappears_is_retired_at_the_next_phase(supervise: Supervise) -> None:
    daemon = supervise(scripted(every=100, rate=200), every=100, arms=("a", "b", "c")).start()
    daemon.until_step(60)
    shutil.rmtree(daemon.run.path / "sources" / "c")
    daemon.until(lambda: daemon.run.events("arm-retired"), "the arm's retirement")
    retired = daemon.run.last_step()
    daemon.until_step(retired + 150)
    assert daemon.stop() == 0
    event = daemon.run.events("arm-retired")[0]
    assert (event["arm"], event["why"]) == ("c", "unavailable")
    assert event["served"] > 0
    assert arms_after(daemon.run, retired + 90) == {"a", "b"}
    state = json.loads((daemon.run.path / "demo.state.json").read_text())
    assert [arm["arm"] for arm in state["retired"]] == ["c"]
    assert set(state["arms"]) == {"a", "b"}


def test_a_source_that_changes_is_told_and_one_that_comes_back_is_a_fresh_arm(
    supervise: Supervise,
) -> None:
    daemon = supervise(scripted(every=5000, rate=200), every=5000, arms=("a", "b", "c")).start()
    daemon.until_step(20)
    state = daemon.run.path / "demo.state.json"
    daemon.until(lambda: json.loads(state.read_text())["arms"]["a"]["content"], "the first look")
    (daemon.run.path / "sources/a/text.txt").write_text("another text")
    daemon.until(lambda: daemon.run.events("arm-changed"), "the change of its content")
    source, away = daemon.run.path / "sources" / "c", daemon.run.path / "away"
    source.rename(away)
    daemon.until(lambda: daemon.run.events("arm-retired"), "the arm's retirement")
    before = daemon.run.events("arm-retired")[0]
    away.rename(source)
    daemon.until(lambda: daemon.run.events("arm-joined"), "the arm's return")
    joined = daemon.run.events("arm-joined")[0]
    assert (joined["arm"], joined["back"]) == ("c", True)
    told = command("status", daemon.run.path).out
    assert "  a                changed: its content changed; its numbers are kept" in told
    daemon.until_step(joined["step"] + 150)
    assert daemon.stop() == 0
    last = daemon.run.last_step()
    seal = daemon.run.seals()[last]["bandit"]
    (left,) = seal["retired"]
    assert left["numbers"]["served"] >= before["served"] > 0
    assert 0 < seal["arms"]["c"]["served"] < last - joined["step"]
    numbers = [*seal["arms"].values(), left["numbers"]]
    assert sum(arm["served"] for arm in numbers) == last


def test_a_source_that_is_missing_at_the_start_holds_no_weight(supervise: Supervise) -> None:
    daemon = supervise(scripted(steps=100, every=100, rate=1000), every=100, arms=("a", "b", "c"))
    shutil.rmtree(daemon.run.path / "sources" / "b")
    daemon.start()
    assert daemon.wait() == 0
    assert arms_after(daemon.run, 0) == {"a", "c"}
    assert f"arm b holds no weight: its source {daemon.run.path}/sources/b is" in daemon.output()
    arms = command("status", daemon.run.path, "--json").facts()["arms"]
    assert (set(arms["live"]), arms["retired"]) == ({"a", "c"}, {"b": "unavailable"})


def test_an_arm_that_comes_back_is_not_shown_as_retired(supervise: Supervise) -> None:
    daemon = supervise(
        scripted(steps=400, every=100, rate=1000), every=100, arms=("a", "b")
    ).start()
    daemon.until_seal(100)
    assert daemon.stop() == 0
    shutil.move(daemon.run.path / "sources" / "b", daemon.run.path / "away")
    daemon.start()
    daemon.until(lambda: daemon.run.events("arm-retired"), "the arm's retirement")
    assert daemon.stop() == 0
    shutil.move(daemon.run.path / "away", daemon.run.path / "sources" / "b")
    daemon.start()
    assert daemon.wait() == 0
    arms = command("status", daemon.run.path, "--json").facts()["arms"]
    assert (set(arms["live"]), arms["retired"]) == ({"a", "b"}, {})


def test_a_zombie_arm_is_retired_at_the_start_with_its_numbers(supervise: Supervise) -> None:
    """State carried over from another life names an arm that no policy has any more."""
    daemon = supervise(scripted(every=100, rate=150), every=100, arms=("a", "b", "c")).start()
    daemon.until_seal(100)
    assert daemon.stop() == 0
    last = daemon.run.last_step()
    for path in (daemon.run.path / "policy.toml", daemon.run.path / "policies" / "0001.toml"):
        path.write_text(policy_text(("a", "b"), "static", "share"))
    daemon.start()
    daemon.until_step(last + 150)
    assert daemon.stop() == 0
    event = daemon.run.events("arm-retired")[0]
    assert (event["arm"], event["why"]) == ("c", "zombie")
    assert arms_after(daemon.run, last + 90) == {"a", "b"}
    assert "arm c retired: zombie" in daemon.output()


def test_a_phase_repeated_for_want_of_a_supervisor_is_repeated_in_the_replay(
    supervise: Supervise,
) -> None:
    trainer = scripted(every=10_000, rate=400, phase_wait=0.2)
    arms = ("a", "b", "c", "d", "e", "f", "g", "h")  # enough that no two phases weigh them alike
    daemon = supervise(trainer, every=10_000, arms=arms, algorithm="ucb1").start()
    daemon.until_step(30)
    trainer_pid = daemon.until_trainer()
    daemon.kill()
    daemon.until(
        lambda: [r for r in daemon.run.reports(1, "phase") if r["repeated"]], "a repeated phase"
    )
    os.kill(trainer_pid, signal.SIGKILL)
    reported = daemon.run.reports(1, "step")[-1]["step"]
    daemon.start()
    daemon.until_step(reported + 20)
    assert daemon.stop() == 0
    steps = [line["step"] for line in daemon.run.ledger()]
    assert steps == list(range(1, steps[-1] + 1))
    ended = [p["last"] for p in daemon.run.reports(1, "phase")][-1]
    replay = daemon.run.events("replay")[0]
    assert replay["proved"] >= ended  # the phase in progress at the death has no report to go by


def test_a_supervisor_goes_on_with_a_policy_that_the_sources_left_cannot_satisfy(
    supervise: Supervise,
) -> None:
    """Whoever comes after the one that saw them leave does as that one did: the mix stays."""
    arms = {"a": {"cap": 0.6}, "b": {"cap": 0.6}}
    daemon = supervise(scripted(every=100, rate=400), every=100, arms=arms).start()
    daemon.until_seal(100)
    trainer = daemon.until_trainer()
    shutil.rmtree(daemon.run.path / "sources" / "b")
    daemon.until(lambda: daemon.run.events("policy-unservable"), "word of what cannot be served")
    daemon.kill()
    daemon.start()
    daemon.until_step(daemon.run.last_step() + 100)
    assert daemon.run.trainer_pid() == trainer, "it was adopted"
    os.kill(trainer, signal.SIGKILL)
    daemon.until_trainer(other_than=trainer)
    assert daemon.stop() == 0
    assert daemon.output().count("cannot serve policy 1 with the sources there are") == 2
    assert not daemon.run.events("arm-retired")
