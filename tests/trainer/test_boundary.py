"""What happens at a step's end: saves, orders, holds, phases, and the ends of a life."""

from __future__ import annotations

import errno
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.crash_fs import CrashFs, crash_fs
from tests.trainer.tiny import Life, give_orders, live, make_run, phases
from trainer.contract.wire import Checkpoint, Doing, Finished, Phase, Report, SaveOrder, Step
from trainer.errors import TrainerError
from trainer.run import Run


def send(number: signal.Signals) -> Callable[[], None]:
    """Send this process a signal; the handler has run when this returns."""
    return lambda: os.kill(os.getpid(), number)


def saved(life: Life) -> list[tuple[int, str, int | None]]:
    return [(r.step, r.reason, r.save) for r in life.of(Checkpoint)]


def kinds(reports: list[Report]) -> list[str]:
    return [type(report).__name__ for report in reports]


def last_step(life: Life) -> int:
    return life.of(Step)[-1].step


def test_sigterm_finishes_the_step_saves_reports_and_leaves(run: Path) -> None:
    life = live(run, acts={("step", 4): send(signal.SIGTERM)})
    assert life.leave == "stop"
    assert kinds(life.reports)[-4:] == ["Step", "Doing", "Checkpoint", "Finished"]
    assert saved(life) == [(4, "stop", None)]
    assert life.of(Finished)[0] == life.reports[-1]
    assert life.of(Finished)[0].reason == "stop"


def test_a_second_sigterm_changes_nothing(run: Path) -> None:
    term = send(signal.SIGTERM)
    life = live(run, acts={("step", 4): term, ("doing", 4): term, ("checkpoint", 4): term})
    assert saved(life) == [(4, "stop", None)]
    assert kinds(life.reports)[-1] == "Finished"


def test_sigterm_on_a_cadence_step_writes_one_checkpoint(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", checkpoint={"every_steps": 4})
    life = live(run, acts={("checkpoint", 4): send(signal.SIGTERM)})
    assert saved(life)[0] == (4, "cadence", None)
    assert last_step(life) in (4, 5)
    life = live(run, attempt=2, acts={("step", 4): send(signal.SIGTERM)})
    assert saved(life) == [(4, "cadence", None)]


def test_sigusr1_saves_after_this_step_and_goes_on(run: Path) -> None:
    life = live(run, acts={("step", 4): send(signal.SIGUSR1)})
    assert saved(life) == [(4, "signal", None), (30, "stop", None)]
    assert life.leave == "steps"


def test_two_sigusr1_within_a_step_are_one(run: Path) -> None:
    usr1 = send(signal.SIGUSR1)
    life = live(run, stop_after=9, acts={("step", 4): lambda: (usr1(), usr1())})
    assert saved(life) == [(4, "signal", None), (9, "stop", None)]


def test_sigusr1_waits_for_the_boundary_where_set_so(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", checkpoint={"every_steps": 10, "sigusr1": "boundary"})
    life = live(run, stop_after=12, acts={("step", 4): send(signal.SIGUSR1)})
    assert saved(life) == [(10, "cadence", None), (12, "stop", None)]


def test_a_request_before_the_first_step_is_answered_after_it(run: Path) -> None:
    life = live(run, stop_after=3, change=lambda _run: send(signal.SIGUSR1)())
    assert saved(life) == [(1, "signal", None), (3, "stop", None)]


def test_a_stop_before_the_first_step_of_a_resumed_life_writes_nothing(run: Path) -> None:
    first = live(run, stop_after=3)
    give_orders(run, 2, hold="inspection")
    stop = {("doing", 3): _stop_when_waiting(run)}
    second = live(run, attempt=2, resume=first.newest(), acts=stop)
    assert kinds(second.reports) == ["Doing", "Ready", "Doing", "Finished"]
    assert second.of(Doing)[-1].what == "wait"


def _stop_when_waiting(run: Path) -> Callable[[], None]:
    """Stop at the second activity of the life, which comes after ``load``."""

    def act() -> None:
        if b'"wait"' in (run / "reports-2.jsonl").read_bytes():
            send(signal.SIGTERM)()

    return act


def test_the_clock_saves_between_multiples(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", checkpoint={"every_seconds": 0.000001})
    life = live(run, stop_after=5)
    assert saved(life)[:4] == [(step, "clock", None) for step in (1, 2, 3, 4)]


def test_an_order_saves_once_and_is_echoed(run: Path) -> None:
    order = SaveOrder(7, "step", "go")
    life = live(run, stop_after=9, acts={("step", 4): lambda: give_orders(run, 7, save=order)})
    assert saved(life) == [(4, "signal", 7), (9, "stop", None)]


def test_an_order_announced_by_its_signal_saves_once(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", checkpoint={"every_steps": 10})
    order = SaveOrder(7, "cadence", "exit")

    def ask() -> None:
        give_orders(run, 7, save=order)
        send(signal.SIGUSR1)()

    life = live(run, acts={("step", 4): ask})
    assert saved(life) == [(10, "cadence", 7)]
    assert life.leave == "order"
    assert life.of(Finished)[0].reason == "order"
    assert last_step(life) == 10


def test_an_order_for_a_step_that_has_its_checkpoint_is_echoed_with_that_one(
    tmp_path: Path,
) -> None:
    run = make_run(tmp_path / "run", checkpoint={"every_steps": 4})
    order = SaveOrder(9, "step", "go")
    life = live(
        run,
        stop_after=5,
        acts={
            ("step", 4): lambda: give_orders(run, 8, hold="look"),
            ("checkpoint", 4): lambda: _once(run, order),
        },
    )
    answers = [r for r in life.of(Checkpoint) if r.step == 4]
    assert [r.save for r in answers] == [None, 9]
    assert answers[0].sha256 == answers[1].sha256


def _once(run: Path, order: SaveOrder) -> None:
    """Order while held, and then release."""
    current = (run / "orders.json").read_text()
    if '"serial": 8' in current:
        give_orders(run, 9, save=order, hold="look")
    else:
        give_orders(run, 10)


def test_a_hold_waits_without_a_step_until_it_is_lifted(run: Path) -> None:
    def hold() -> None:
        give_orders(run, 7, hold="inspection")

    released = iter(range(100))

    def release() -> None:
        next(released)
        give_orders(run, 8)

    life = live(run, stop_after=6, acts={("step", 4): hold, ("doing", 4): release})
    assert [r.what for r in life.of(Doing) if r.step == 4] == ["wait"]
    assert next(released) == 1
    assert last_step(life) == 6


def test_a_stop_ends_a_hold_with_a_checkpoint(run: Path) -> None:
    life = live(
        run,
        acts={
            ("step", 4): lambda: give_orders(run, 7, hold="inspection"),
            ("doing", 4): send(signal.SIGTERM),
        },
    )
    assert (last_step(life), saved(life)) == (4, [(4, "stop", None)])


def test_a_save_is_written_within_a_hold(run: Path) -> None:
    asked = {"count": 0}

    def in_hold() -> None:
        asked["count"] += 1
        if asked["count"] == 1:
            send(signal.SIGUSR1)()
        elif asked["count"] == 3:  # wait, save, wait again
            send(signal.SIGTERM)()

    hold = {("step", 4): lambda: give_orders(run, 7, hold="x"), ("doing", 4): in_hold}
    life = live(run, acts=hold)
    assert [r.what for r in life.of(Doing) if r.step == 4] == ["wait", "save", "wait"]
    assert saved(life) == [(4, "signal", None)]


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
    assert saved(life)[-1][:2] == (last_step(life), "stop")
    assert last_step(life) <= 6  # documents already in memory may still be used up


def _stops() -> dict[tuple[str, int], Callable[[], None]]:
    return {("doing", step): send(signal.SIGTERM) for step in (4, 5, 6)}


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
    assert saved(life) == [(4, "signal", None), (6, "stop", None)]
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
    assert saved(life) == [(6, "stop", None)]
    assert capfd.readouterr().err.count("that file is discarded") == 3
    assert {path.suffix for path in life.checkpoints.iterdir()} == {".bin", ".json"}


def test_a_last_checkpoint_that_cannot_be_written_is_an_error(run: Path) -> None:
    plan = CrashFs()

    def fail() -> None:
        plan.at, plan.error, plan.times = plan.calls + 3, errno.EIO, 99

    message = "cannot write the checkpoint of step 4"
    with crash_fs(plan), pytest.raises(TrainerError, match=message):
        live(run, stop_after=4, acts={("doing", 4): fail})


def test_a_run_whose_steps_are_done_finishes_at_once(run: Path) -> None:
    first = live(run)
    second = live(run, attempt=2, resume=first.newest())
    assert kinds(second.reports) == ["Doing", "Ready", "Finished"]
    assert second.of(Finished)[0].reason == "steps"


def test_a_resume_under_another_policy_begins_its_first_phase(run: Path) -> None:
    first = live(run, stop_after=10)
    give_orders(run, 2, phases(6, 2, records=1.0))
    second = live(run, attempt=2, resume=first.newest(), stop_after=17)
    assert [(p.phase, p.first, p.last) for p in second.of(Phase)] == [(1, 11, 16)]
    assert [step.phase for step in second.of(Step)] == [1] * 6 + [2]
    assert {step.arm for step in second.of(Step)} == {"records"}
