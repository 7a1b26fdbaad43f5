"""Phases follow as ordered; if orders, sources or room are missing, training waits or goes on."""

from __future__ import annotations

import errno
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.crash_fs import CrashFs, crash_fs
from tests.trainer.tiny import give_orders, live, phases, send
from trainer.contract.wire import Doing, Phase, Step
from trainer.errors import TrainerError
from trainer.run import Run


def test_phases_follow_each_other_as_ordered_and_are_reported(run: Path) -> None:
    give_orders(run, 2, (*phases(5, 1, files=1.0), *phases(4, 2, records=1.0)[1:]))
    give_orders(run, 3, (*phases(5, 1, files=1.0), *phases(4, 3, records=1.0)[1:]))
    life = live(run, stop_after=10)
    assert [(p.phase, p.first, p.last, p.repeated) for p in life.of(Phase)] == [
        (1, 1, 5, False),
        (2, 6, 9, False),
    ]
    assert [step.arm for step in life.of(Step)] == ["files"] * 5 + ["records"] * 5
    assert [step.phase for step in life.of(Step)] == [1] * 5 + [2] * 4 + [3]
    first = life.of(Phase)[0].arms[0]
    losses = [step.loss for step in life.of(Step)[:5]]
    assert (first.arm, first.pulls, first.failed) == ("files", 5, 0)
    assert first.loss == sum(losses) / 5


def test_a_missing_phase_is_waited_for_and_taken_when_it_comes(run: Path) -> None:
    give_orders(run, 2, phases(5, 1))
    life = live(run, stop_after=7, acts={("doing", 5): lambda: give_orders(run, 3, phases(5, 2))})
    assert [(r.what, r.step) for r in life.of(Doing)][1] == ("wait", 5)
    assert [(p.phase, p.repeated) for p in life.of(Phase)] == [(1, False)]
    assert life.of(Step)[-1].phase == 2


def test_a_phase_that_never_comes_is_the_last_one_again_and_reported_so(
    run: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    give_orders(run, 2, phases(5, 1))

    def hurry(built: Run) -> None:
        built.phase_wait = 0.05

    life = live(run, stop_after=12, change=hurry)
    assert [(p.phase, p.first, p.last, p.repeated) for p in life.of(Phase)] == [
        (1, 1, 5, False),
        (2, 6, 10, True),
    ]
    assert life.of(Phase)[0].weights == life.of(Phase)[1].weights
    assert "no orders for phase 2: repeating the last one" in capfd.readouterr().err


def test_a_source_that_vanishes_is_counted_and_stood_in_for(
    run: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    life = live(run, stop_after=21, acts={("step", 7): lambda: shutil.rmtree(run / "files")})
    assert {step.arm for step in life.of(Step)[:7]} == {"files", "records"}
    assert {step.arm for step in life.of(Step)[8:]} == {"records"}
    later = {result.arm: result for result in life.of(Phase)[2].arms}
    assert later["files"].failed > 0
    assert (later["files"].pulls, later["records"].pulls) == (0, 7)
    said = [line for line in capfd.readouterr().err.splitlines() if "cannot read" in line]
    assert len(said) == 1


def test_with_no_source_left_it_waits_and_can_be_stopped(run: Path) -> None:
    def vanish() -> None:
        shutil.rmtree(run / "files")
        (run / "records.jsonl").unlink()

    life = live(run, acts={("step", 4): vanish, ("doing", 5): send(signal.SIGTERM)} | _stops())
    assert life.leave == "stop"
    assert life.saved()[-1][:2] == (life.last_step(), "stop")
    assert life.last_step() <= 6  # documents already in memory may still be used up


def _stops() -> dict[tuple[str, int], Callable[[], None]]:
    return {("doing", step): send(signal.SIGTERM) for step in (4, 5, 6)}


def test_a_resume_under_another_policy_begins_its_first_phase(run: Path) -> None:
    first = live(run, stop_after=10)
    give_orders(run, 2, phases(6, 2, records=1.0))
    second = live(run, attempt=2, resume=first.newest(), stop_after=17)
    assert [(p.phase, p.first, p.last) for p in second.of(Phase)] == [(1, 11, 16)]
    assert [step.phase for step in second.of(Step)] == [1] * 6 + [2]
    assert {step.arm for step in second.of(Step)} == {"records"}


def test_after_a_rollback_the_data_is_that_of_later_steps(
    run: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def skip(built: Run) -> None:
        built.skip = 3

    first = live(run, stop_after=5)
    second = live(run, attempt=2, resume=first.newest(), stop_after=9, change=skip)
    whole = live(run, attempt=3, stop_after=12)
    data = [step.data for step in whole.of(Step)]
    assert [step.data for step in first.of(Step)] == data[:5]
    assert [(step.step, step.data) for step in second.of(Step)] == list(
        zip(range(6, 10), data[8:12], strict=True)
    )
    told = capfd.readouterr().err
    assert "skipping the data of 3 steps" in told
    assert "resumed from" not in told  # that it is not the batch to come is as it should be


def test_a_full_disk_pauses_training_until_there_is_room(
    run: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    plan = CrashFs()

    def fill() -> None:
        # Behind the report "save": the reports' sync, then the header's write finds no room.
        if not plan.at:
            plan.at, plan.error, plan.times = plan.calls + 3, errno.ENOSPC, 1

    with crash_fs(plan):
        life = live(run, stop_after=6, acts={("step", 4): send(signal.SIGUSR1), ("doing", 4): fill})
    assert life.saved() == [(4, "signal", None), (6, "stop", None)]
    assert [r.what for r in life.of(Doing) if r.step == 4] == ["save", "wait"]
    said = capfd.readouterr().err
    assert "cannot write the checkpoint of step 4: [Errno 28]" in said
    assert "waiting for room" in said


def test_a_checkpoint_that_cannot_be_written_is_left_to_the_next_occasion(
    run: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    plan = CrashFs()

    def fail() -> None:
        plan.at, plan.error, plan.times = plan.calls + 3, errno.EIO, 3

    with crash_fs(plan):
        life = live(run, stop_after=6, acts={("step", 4): send(signal.SIGUSR1), ("doing", 4): fail})
    assert life.saved() == [(6, "stop", None)]
    assert capfd.readouterr().err.count("that file is discarded") == 3
    assert {path.suffix for path in life.checkpoints.iterdir()} == {".bin", ".json"}


def test_a_last_checkpoint_that_cannot_be_written_is_an_error(run: Path) -> None:
    plan = CrashFs()

    def fail() -> None:
        plan.at, plan.error, plan.times = plan.calls + 3, errno.EIO, 99

    message = "cannot write the checkpoint of step 4"
    with crash_fs(plan), pytest.raises(TrainerError, match=message):
        live(run, stop_after=4, acts={("doing", 4): fail})


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS])
def test_a_disk_that_takes_nothing_is_told_of_once_and_leaves_no_temporary(
    run: Path, number: int
) -> None:
    plan = CrashFs()

    def refuse() -> None:
        if not plan.at:
            plan.at, plan.error, plan.times = plan.calls + 3, number, 2

    with crash_fs(plan):
        life = live(
            run, stop_after=6, acts={("step", 4): send(signal.SIGUSR1), ("doing", 4): refuse}
        )
    assert life.saved() == [(4, "signal", None), (6, "stop", None)]
    assert [r.what for r in life.of(Doing) if r.step == 4] == ["save", "wait"]
    assert {path.suffix for path in life.checkpoints.iterdir()} == {".bin", ".json"}
