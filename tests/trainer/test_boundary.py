"""What signals and orders ask for happens at a step's end: saves, holds, and the ends of a life."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

from tests.trainer.tiny import give_orders, live, make_run, send
from trainer.contract.wire import Checkpoint, Doing, Finished, Report, Sample, SaveOrder


def kinds(reports: list[Report]) -> list[str]:
    return [type(report).__name__ for report in reports]


def test_sigterm_finishes_the_step_saves_reports_and_leaves(run: Path) -> None:
    life = live(run, acts={("step", 4): send(signal.SIGTERM)})
    assert life.leave == "stop"
    assert kinds(life.reports)[-4:] == ["Step", "Doing", "Checkpoint", "Finished"]
    assert life.saved() == [(4, "stop", None)]
    assert life.of(Finished)[0] == life.reports[-1]
    assert life.of(Finished)[0].reason == "stop"


def test_a_second_sigterm_changes_nothing(run: Path) -> None:
    term = send(signal.SIGTERM)
    life = live(run, acts={("step", 4): term, ("doing", 4): term, ("checkpoint", 4): term})
    assert life.saved() == [(4, "stop", None)]
    assert kinds(life.reports)[-1] == "Finished"


def test_sigterm_on_a_cadence_step_writes_one_checkpoint(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", checkpoint={"every_steps": 4})
    life = live(run, acts={("checkpoint", 4): send(signal.SIGTERM)})
    assert life.saved()[0] == (4, "cadence", None)
    assert life.last_step() in (4, 5)
    life = live(run, attempt=2, acts={("step", 4): send(signal.SIGTERM)})
    assert life.saved() == [(4, "cadence", None)]


def test_sigusr1_saves_after_this_step_and_goes_on(run: Path) -> None:
    life = live(run, acts={("step", 4): send(signal.SIGUSR1)})
    assert life.saved() == [(4, "signal", None), (30, "stop", None)]
    assert life.leave == "steps"


def test_two_sigusr1_within_a_step_are_one(run: Path) -> None:
    usr1 = send(signal.SIGUSR1)
    life = live(run, stop_after=9, acts={("step", 4): lambda: (usr1(), usr1())})
    assert life.saved() == [(4, "signal", None), (9, "stop", None)]


def test_sigusr1_waits_for_the_boundary_where_set_so(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", checkpoint={"every_steps": 10, "sigusr1": "boundary"})
    life = live(run, stop_after=12, acts={("step", 4): send(signal.SIGUSR1)})
    assert life.saved() == [(10, "cadence", None), (12, "stop", None)]


def test_a_request_before_the_first_step_is_answered_after_it(run: Path) -> None:
    life = live(run, stop_after=3, change=lambda _run: send(signal.SIGUSR1)())
    assert life.saved() == [(1, "signal", None), (3, "stop", None)]


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
    assert life.saved()[:4] == [(step, "clock", None) for step in (1, 2, 3, 4)]


def test_an_order_saves_once_and_is_echoed(run: Path) -> None:
    order = SaveOrder(7, "step", "go")
    life = live(run, stop_after=9, acts={("step", 4): lambda: give_orders(run, 7, save=order)})
    assert life.saved() == [(4, "signal", 7), (9, "stop", None)]


def test_an_order_announced_by_its_signal_saves_once(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", checkpoint={"every_steps": 10})
    order = SaveOrder(7, "cadence", "exit")

    def ask() -> None:
        give_orders(run, 7, save=order)
        send(signal.SIGUSR1)()

    life = live(run, acts={("step", 4): ask})
    assert life.saved() == [(10, "cadence", 7)]
    assert life.leave == "order"
    assert life.of(Finished)[0].reason == "order"
    assert life.last_step() == 10


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
    assert [r.what for r in life.of(Doing) if r.step == 4] == ["wait", "train"]
    assert next(released) == 2  # for the wait, and for its end
    assert life.last_step() == 6


def test_a_stop_ends_a_hold_with_a_checkpoint(run: Path) -> None:
    life = live(
        run,
        acts={
            ("step", 4): lambda: give_orders(run, 7, hold="inspection"),
            ("doing", 4): send(signal.SIGTERM),
        },
    )
    assert (life.last_step(), life.saved()) == (4, [(4, "stop", None)])


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
    assert life.saved() == [(4, "signal", None)]


def test_a_run_whose_steps_are_done_finishes_at_once(run: Path) -> None:
    first = live(run)
    second = live(run, attempt=2, resume=first.newest())
    assert kinds(second.reports) == ["Doing", "Ready", "Finished"]
    assert second.of(Finished)[0].reason == "steps"


def test_an_order_that_asks_for_a_sample_gets_it_before_its_checkpoint(run: Path) -> None:
    order = SaveOrder(2, "step", "go", sample=True)
    asked = {("step", 4): lambda: give_orders(run, 2, save=order)}
    life = live(run, stop_after=9, acts=asked)
    assert life.saved() == [(4, "signal", 2), (9, "stop", None)]
    assert [sample.step for sample in life.of(Sample)] == [4]
    here = [type(report).__name__ for report in life.reports if getattr(report, "step", 0) == 4]
    assert here == ["Step", "Doing", "Sample", "Doing", "Checkpoint"]


def test_a_trainer_that_waits_samples_at_the_step_that_it_has_saved_already(run: Path) -> None:
    order = SaveOrder(3, "step", "go", sample=True)

    def hold() -> None:
        give_orders(run, 2, save=SaveOrder(2, "step", "go"), hold="inspection")

    then = iter([(3, None, order, "inspection"), (4,)])
    acts = {
        ("step", 4): hold,
        ("checkpoint", 4): lambda: give_orders(run, *next(then)),
    }
    life = live(run, stop_after=9, acts=acts)
    assert life.saved() == [(4, "signal", 2), (4, "signal", 3), (9, "stop", None)]
    assert [sample.step for sample in life.of(Sample)] == [4]
