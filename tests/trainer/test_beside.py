"""A save beside training holds exactly its step, loses no request, and is waited for at the end."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.waiting import wait_until
from tests.trainer.beside import (
    SlowDisk,
    at_once,
    make,
    places,
    places_so_far,
    same_checkpoint,
    slow_disk,
)
from tests.trainer.test_resume import companion, facts, weights
from tests.trainer.tiny import give_orders, live, make_run, send
from trainer.contract.wire import Doing, SaveOrder

WAYS = ["copy", "live"]


def test_the_steps_that_run_meanwhile_are_not_in_the_checkpoint(tmp_path: Path) -> None:
    run = make(tmp_path / "run", "copy")
    with slow_disk() as disk:
        life = live(
            run,
            stop_after=9,
            acts={("step", 4): send(signal.SIGUSR1), ("step", 7): disk.going.set},
        )
    said = places(life)
    begun = said.index(("save", 4))
    assert said[begun - 1 : begun + 4] == [
        ("step", 4), ("save", 4), ("train", 4), ("step", 5), ("step", 6),
    ]  # fmt: skip
    assert said.index(("checkpoint", 4)) > said.index(("step", 7))
    same_checkpoint(life, at_once(tmp_path, 4), 4)
    same_checkpoint(life, at_once(tmp_path, 9), 9)


def test_without_a_copy_the_update_waits_for_the_disk_and_says_so(tmp_path: Path) -> None:
    with slow_disk() as disk:
        waited = []

        def act() -> None:
            if places_so_far(run)[-2:] == ["train", "save"]:
                waited.append(True)
                disk.going.set()

        run = make(tmp_path / "run", "live")
        life = live(run, stop_after=6, acts={("step", 4): send(signal.SIGUSR1), ("doing", 4): act})
    assert waited == [True]
    said = places(life)
    begun = said.index(("save", 4))
    assert [what for what, _ in said[begun:]][:5] == ["save", "train", "save", "train", "step"]
    same_checkpoint(life, at_once(tmp_path, 4), 4)


@pytest.mark.parametrize("way", WAYS)
def test_a_run_that_saves_all_the_time_trains_as_one_that_never_does(
    tmp_path: Path, way: str
) -> None:
    plain = live(make_run(tmp_path / "plain"))
    busy = live(make(tmp_path / "busy", way, every_steps=2))
    assert facts(busy.reports) == facts(plain.reports)
    assert weights(busy) == weights(plain)
    assert [step for step, _, _ in busy.saved()] == list(range(2, 31, 2))
    resume = busy.checkpoints / "step_000014.bin"
    again = live(busy.checkpoints.parent, attempt=2, resume=resume)
    later = [r for r in plain.reports if getattr(r, "step", getattr(r, "last", 0)) > 14]
    assert facts(again.reports) == facts(later)
    assert weights(again) == weights(plain)
    assert companion(again) == companion(busy)


@pytest.mark.parametrize("way", WAYS)
def test_sigterm_waits_for_the_save_and_then_saves_the_last_step(tmp_path: Path, way: str) -> None:
    with slow_disk() as disk:

        def stop_and_let_go() -> None:
            if places_so_far(run)[-2:] == ["train", "save"]:
                send(signal.SIGTERM)()
                disk.going.set()

        run = make(tmp_path / "run", way)
        acts = {("step", 4): send(signal.SIGUSR1), ("doing", 4): stop_and_let_go}
        if way == "copy":  # training goes on until the end waits for the save
            acts = {
                ("step", 4): send(signal.SIGUSR1),
                ("step", 6): send(signal.SIGTERM),
                ("doing", 4): lambda: let_go(run, disk),
            }
        life = live(run, acts=acts)
    last = 6 if way == "copy" else 5
    assert life.saved() == [(4, "signal", None), (last, "stop", None)]
    same_checkpoint(life, at_once(tmp_path, 4), 4)
    same_checkpoint(life, at_once(tmp_path, last), last)
    assert {path.suffix for path in life.checkpoints.iterdir()} == {".bin", ".json"}


def test_sigterm_in_the_step_that_is_being_saved_saves_it_once(tmp_path: Path) -> None:
    run = make(tmp_path / "run", "copy")
    with slow_disk() as disk:
        life = live(
            run,
            acts={
                ("step", 4): lambda: (give_orders(run, 7, hold="x"), send(signal.SIGUSR1)()),
                ("doing", 4): lambda: (
                    (send(signal.SIGTERM)(), disk.going.set())
                    if places_so_far(run)[-2:] == ["save", "wait"]
                    else None
                ),
            },
        )
    assert life.saved() == [(4, "signal", None)]
    assert life.last_step() == 4


def until_written(run: Path, step: int) -> None:
    """Training stands still until the checkpoint of a step is there, however slow the disk is."""
    path = run / f"checkpoints/step_{step:06d}.bin"
    wait_until(path.exists, f"the checkpoint of step {step}")


def test_a_request_during_a_save_is_answered_after_it(tmp_path: Path) -> None:
    run = make(tmp_path / "run", "copy")
    usr1 = send(signal.SIGUSR1)
    acts = {("step", step): usr1 for step in (4, 5, 6)}
    with slow_disk() as disk:
        acts["step", 8] = disk.going.set
        acts["step", 9] = lambda: until_written(run, 4)
        life = live(run, stop_after=20, acts=acts)
    (first, *_), (second, reason, _), last = life.saved()
    assert (first, reason, last) == (4, "signal", (20, "stop", None))
    assert 8 <= second <= 20
    same_checkpoint(life, at_once(tmp_path, second), second)


def test_an_order_during_a_save_is_answered_once_and_by_its_own_checkpoint(
    tmp_path: Path,
) -> None:
    run = make(tmp_path / "run", "copy")
    with slow_disk() as disk:
        life = live(
            run,
            stop_after=20,
            acts={
                ("step", 4): send(signal.SIGUSR1),
                ("step", 5): lambda: give_orders(run, 7, save=SaveOrder(7, "step", "go")),
                ("step", 8): disk.going.set,
            },
        )
    answers = [(step, save) for step, _, save in life.saved() if save is not None]
    assert life.saved()[0] == (4, "signal", None)
    assert [save for _, save in answers] == [7]
    assert answers[0][0] >= 8


def test_a_multiple_of_the_cadence_waits_for_the_save_before(tmp_path: Path) -> None:
    run = make(tmp_path / "run", "copy", every_steps=5)
    order = SaveOrder(7, "cadence", "exit")
    with slow_disk() as disk:
        life = live(
            run,
            acts={
                ("step", 9): send(signal.SIGUSR1),
                ("step", 10): lambda: give_orders(run, 7, save=order),
                ("doing", 5): lambda: let_go(run, disk),
                ("doing", 9): lambda: let_go(run, disk),
                ("doing", 10): disk.going.set,  # where five was over just after nine had asked
                ("step", 5): disk.going.set,
                ("step", 6): disk.going.clear,
            },
        )
    steps = [step for step, _, _ in life.saved()]
    assert steps in ([5, 9, 10], [5, 10])  # five is perhaps not over when nine asks
    assert life.saved()[-1] == (10, "cadence", 7)
    assert life.leave == "order"


def test_a_wait_for_a_save_is_told_as_that_save_which_may_not_take_for_ever(
    tmp_path: Path,
) -> None:
    run = make(tmp_path / "run", "copy", every_steps=5)
    with slow_disk() as disk:
        acts = {("step", 4): send(signal.SIGUSR1), ("doing", 4): lambda: let_go(run, disk)}
        life = live(run, stop_after=6, acts=acts)
    said = places(life)
    assert said[said.index(("step", 5)) :][1:4] == [("save", 4), ("checkpoint", 4), ("save", 5)]
    assert [what for what, _ in said].count("wait") == 0


def let_go(run: Path, disk: SlowDisk) -> None:
    """A save that is spoken of twice is waited for."""
    lines = (run / "reports-1.jsonl").read_text().splitlines()
    told = [line.split('"step":')[1] for line in lines if '"what":"save"' in line]
    if len(told) > len(set(told)):
        disk.going.set()


def test_no_step_is_saved_twice_however_often_it_is_asked(tmp_path: Path) -> None:
    run = make(tmp_path / "run", "copy", every_steps=3)
    usr1 = send(signal.SIGUSR1)
    acts: dict[tuple[str, int], Callable[[], None]] = {}
    for step in range(1, 30):
        acts["step", step] = acts["doing", step] = acts["checkpoint", step] = usr1
    life = live(run, acts=acts)
    steps = [step for step, _, _ in life.saved()]
    assert len(steps) == len(set(steps)) == len([*life.checkpoints.glob("*.bin")])
    assert set(range(3, 31, 3)) <= set(steps)
    begun = [r.step for r in life.of(Doing) if r.what == "save"]
    assert list(dict.fromkeys(begun)) == steps
