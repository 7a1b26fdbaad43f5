"""The pivot with real processes: to the boundary, across crashes at any write, and by hand."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from supervisor.control import request
from supervisor.daemon.in_force import settings_news
from supervisor.errors import UnknownError
from tests.support.daemon import Daemon
from tests.support.runs import ROOT, Run, copy_of, scripted
from tests.support.waiting import wait_until

pytestmark = pytest.mark.system

Supervise = Callable[..., Daemon]
MOST_CALLS = 400  # far above what a pivot takes; the loop ends where the process survives


def new_policy(run: Run) -> str:
    return (run.path / "policy.toml").read_text().replace("cap = 1.0", "cap = 0.8")


def ask(run: Run, when: str = "boundary") -> dict[str, object]:
    return request(run.path, "pivot", {"policy": new_policy(run), "when": when}, 5.0)


def certificate(run: Run) -> dict[str, object]:
    found = list((run.path / "archive").glob("pivot-0002-*/certificate.json"))
    assert len(found) == 1
    return json.loads(found[0].read_text())


def has_pivoted(run: Run) -> None:
    """Everything that must hold after a pivot to policy 2, whoever died on the way."""
    assert not (run.path / "pivot.json").exists()
    proof = certificate(run)
    pin = proof["pin"]["step"]
    lines = run.ledger()
    steps = [line["step"] for line in lines]
    assert steps == list(range(1, steps[-1] + 1))
    assert {line["policy"] for line in lines if line["step"] <= pin} == {1}
    assert {line["policy"] for line in lines if line["step"] > pin} == {2}
    assert proof["first_step"] == pin + 1
    assert proof["ledger_at_stop"] == proof["ledger_at_install"]
    assert proof["done"]
    folder = run.path / "archive" / f"pivot-0002-step-{pin:06d}"
    archived = json.loads((folder / "demo.state.json").read_text())
    assert archived["policy"] == 1
    state = json.loads((run.path / "demo.state.json").read_text())
    assert state["policy"] == 2
    served = sum(arm["served"] for arm in state["arms"].values())
    assert served <= steps[-1] - pin
    assert (run.path / "policies" / "0002.toml").read_text() == (
        run.path / "policy.toml"
    ).read_text()
    assert [e["pin"] for e in run.events("pivot-done")] == [pin]
    assert not list(run.path.rglob("*.tmp"))


def test_a_pivot_asked_between_boundaries_happens_at_the_next_one(supervise: Supervise) -> None:
    daemon = supervise(scripted(every=100, rate=300), every=100).start()
    daemon.until_step(30)
    asked = ask(daemon.run)["asked_step"]
    daemon.until(lambda: daemon.run.events("pivot-done"), "the pivot's end")
    daemon.until_step(250)
    assert daemon.stop() == 0
    has_pivoted(daemon.run)
    assert certificate(daemon.run)["pin"]["step"] == -(-asked // 100) * 100
    assert certificate(daemon.run)["honoured"] == -(-asked // 100) * 100


def test_a_pivot_now_does_not_wait_for_the_boundary(supervise: Supervise) -> None:
    daemon = supervise(scripted(every=1000, rate=300), every=1000).start()
    daemon.until_step(30)
    ask(daemon.run, "now")
    daemon.until(lambda: daemon.run.events("pivot-done"), "the pivot's end")
    assert daemon.stop() == 0
    has_pivoted(daemon.run)
    assert certificate(daemon.run)["pin"]["step"] < 1000


@pytest.mark.parametrize("kind", ["ignores the exit", "knows no orders"])
def test_a_trainer_that_goes_on_after_its_checkpoint_is_stopped(
    supervise: Supervise, c_trainer: str, kind: str
) -> None:
    python = scripted(every=100, rate=300, ignore_exit=True, attempts=1)
    command = python if kind == "ignores the exit" else [c_trainer, "9999", "300", "100", "64"]
    daemon = supervise(command, every=100).start()
    daemon.until_step(30)
    ask(daemon.run)
    daemon.until(lambda: daemon.run.events("pivot-done"), "the pivot's end")
    assert daemon.stop() == 0
    proof = certificate(daemon.run)
    assert proof["honoured"] is not None
    assert proof["pin"]["step"] >= proof["honoured"]
    steps = [line["step"] for line in daemon.run.ledger()]
    assert steps == list(range(1, steps[-1] + 1))


def test_a_policy_that_does_not_hold_changes_nothing(supervise: Supervise) -> None:
    daemon = supervise(scripted(every=100, rate=300), every=100).start()
    daemon.until_step(30)
    text = new_policy(daemon.run).replace("cap = 0.8", "cap = 0.1")
    answer = request(daemon.run.path, "pivot", {"policy": text}, 5.0)
    assert "the caps sum to 0.2" in answer["error"]
    assert not (daemon.run.path / "pivot.json").exists()
    assert daemon.stop() == 0
    assert {line["policy"] for line in daemon.run.ledger()} == {1}


def test_a_cancelled_pivot_leaves_the_policy_and_the_run_as_they_were(
    supervise: Supervise,
) -> None:
    daemon = supervise(scripted(every=1000, rate=300), every=1000).start()
    daemon.until_step(30)
    ask(daemon.run)
    assert request(daemon.run.path, "cancel-pivot", {}, 5.0)["cancelled"] == 2
    daemon.until_step(daemon.run.last_step() + 50)
    assert len(daemon.run.attempts()) == 1
    assert not (daemon.run.path / "pivot.json").exists()
    assert daemon.stop() == 0


def test_a_crash_right_after_a_pivot_resumes_from_the_pin_with_an_empty_bandit(
    supervise: Supervise,
) -> None:
    daemon = supervise(scripted(every=100, rate=200), every=100).start()
    daemon.until_step(30)
    ask(daemon.run)
    daemon.until(lambda: daemon.run.events("pivot-done"), "the pivot's end")
    pin = certificate(daemon.run)["pin"]["step"]
    os.kill(daemon.until_trainer(), signal.SIGKILL)
    daemon.kill()
    daemon.start()
    daemon.until_step(pin + 150)
    assert daemon.stop() == 0
    has_pivoted(daemon.run)
    resumed = [attempt["resume"]["step"] for attempt in daemon.run.attempts()[1:]]
    assert resumed[:2] == [pin, pin]
    state = json.loads((daemon.run.path / "demo.state.json").read_text())
    assert sum(arm["served"] for arm in state["arms"].values()) == daemon.run.last_step() - pin


def test_a_bandit_state_moved_away_by_hand_is_a_reset_and_never_refilled(
    supervise: Supervise,
) -> None:
    daemon = supervise(scripted(every=100, rate=300), every=100).start()
    daemon.until_seal(100)
    assert daemon.stop() == 0
    last = daemon.run.last_step()
    (daemon.run.path / "demo.state.json").rename(daemon.run.path / "put-away.json")
    daemon.start()
    daemon.until_step(last + 30)
    assert daemon.stop() == 0
    assert [event["policy"] for event in daemon.run.events("pivot-by-hand")] == [2]
    state = json.loads((daemon.run.path / "demo.state.json").read_text())
    assert sum(arm["served"] for arm in state["arms"].values()) == daemon.run.last_step() - last


def test_an_edited_policy_file_takes_no_effect_by_itself(supervise: Supervise) -> None:
    daemon = supervise(scripted(every=100, rate=300), every=100).start()
    daemon.until_seal(100)
    assert daemon.stop() == 0
    (daemon.run.path / "policy.toml").write_text(new_policy(daemon.run))
    last = daemon.run.last_step()
    daemon.start()
    daemon.until_step(last + 10)
    assert daemon.stop() == 0
    assert {line["policy"] for line in daemon.run.ledger()} == {1}
    assert "cannot use policy.toml: it differs from policy 1 in force" in daemon.output()


def test_an_edit_of_the_policy_is_news_and_what_a_pivot_wrote_is_not(supervise: Supervise) -> None:
    daemon = supervise(scripted(steps=300, every=100, rate=300), every=100).start()
    daemon.until_step(10)
    ask(daemon.run)
    assert daemon.wait() == 0
    policy = daemon.run.path / "policy.toml"
    assert daemon.run.events("pivot-done")
    assert list(settings_news(daemon.run.path, {policy})) == []
    policy.write_text(policy.read_text() + "# mine\n")
    [line] = settings_news(daemon.run.path, {policy})
    assert line.startswith("policy.toml changed: what is in force stays as it is")


def dying(run: Run, at: int, words: str = "") -> subprocess.Popen[bytes]:
    """Start the supervisor so that it kills itself at its call number ``at``."""
    count = run.path.parent / f"{run.path.name}.count"
    command = [sys.executable, "-m", "tests.support.dying", str(at), str(count), words]
    return subprocess.Popen(
        [*command, "--", "run", str(run.path)],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def dead_or_done(run: Run, process: subprocess.Popen[bytes]) -> None:
    """Wait until the supervisor has died, or has done the pivot; then it is killed all the same."""

    def over() -> bool:
        done = bool(run.events("pivot-done")) and not (run.path / "pivot.json").exists()
        return process.poll() is not None or done

    try:
        wait_until(over, "death or the pivot's end", describe=run.describe)
    finally:
        process.kill()
        process.wait(10)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_pivot_survives_the_death_of_the_supervisor_before_any_write(
    supervise: Supervise, tmp_path: Path, *, thorough: bool
) -> None:
    """At rest: a stopped run with a requested pivot, its supervisor killed at each call in turn."""
    base = supervise(scripted(every=100, rate=250), every=100).start()
    base.until_seal(100)
    assert base.stop() == 0
    journal = {
        "schema": "stepkeeper.pivot/1",
        "stage": "requested",
        "policy": 2,
        "text": new_policy(base.run),
        "asked_step": base.run.last_step(),
        "when": "now",
        "by": "a test",
        "requested": "2026-01-01T00:00:00.000Z",
    }
    (base.run.path / "pivot.json").write_text(json.dumps(journal))
    for at in range(1, MOST_CALLS, 1 if thorough else 13):
        run = copy_of(base.run, tmp_path / f"killed-{at}")
        daemon = Daemon(run)
        try:
            dead_or_done(run, dying(run, at))
            survived = not (run.path / "pivot.json").exists()
            daemon.start()
            last = run.last_step()
            daemon.until(
                lambda run=run, last=last: run.events("pivot-done") and run.last_step() > last,
                f"the pivot's end after {at}",
            )
            assert daemon.stop() == 0
            has_pivoted(run)
        finally:
            daemon.finish()
        shutil.rmtree(run.path)
        if survived and int((tmp_path / f"killed-{at}.count").read_text()) < at:
            break
    assert survived
    assert at > 20


STAGES = "pivot.json,certificate,policies,policy.toml,orders.json"


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_live_pivot_survives_the_death_of_the_supervisor_at_each_stage(
    supervise: Supervise, *, thorough: bool
) -> None:
    """With a training trainer: killed at each call on the files that carry the stages."""
    for at in range(1, 40, 1 if thorough else 9):
        daemon = supervise(scripted(every=50, rate=150), every=50)
        run = daemon.run
        process = dying(run, at, STAGES)
        try:
            daemon.until_step(10)
            with contextlib.suppress(UnknownError):  # it may die before it answers
                ask(run)
        finally:
            dead_or_done(run, process)
        daemon.start()
        last = run.last_step()
        daemon.until(
            lambda run=run, last=last: run.events("pivot-done") and run.last_step() > last,
            f"the pivot's end after call {at}",
        )
        assert daemon.stop() == 0
        has_pivoted(run)
        daemon.finish()
