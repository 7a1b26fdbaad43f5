"""The trainer says what it does before it is silent, and shows its stacks when it is asked to."""

from __future__ import annotations

import signal
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from tests.support.waiting import wait_until
from tests.trainer.tiny import Process, give_orders, live, make_run
from trainer.contract.wire import Checkpoint, Doing, SaveOrder, Step


def test_a_checkpoint_told_again_in_a_wait_is_followed_by_the_wait(run: Path) -> None:
    hold, waits = "inspection", iter(range(10))

    def next_order() -> None:
        number = next(waits)
        save = SaveOrder(10 + number, "step", "go") if number < 2 else None
        give_orders(run, 10 + number, save=save, hold=hold if number < 2 else None)

    def on_hold() -> None:
        give_orders(run, 7, hold=hold)

    def act() -> None:
        if said()[-1:] == ["wait"]:
            next_order()

    def said() -> list[str]:
        reports = (run / "reports-1.jsonl").read_text().splitlines()
        return [line.split('"what":"')[1].split('"')[0] for line in reports if '"what"' in line]

    life = live(run, stop_after=6, acts={("step", 4): on_hold, ("doing", 4): act})
    words = [
        r.what if isinstance(r, Doing) else "checkpoint"
        for r in life.reports
        if isinstance(r, Doing | Checkpoint) and r.step == 4
    ]
    assert words == ["wait", "save", "checkpoint", "wait", "checkpoint", "wait", "train"]


def test_long_work_is_reported_again_and_leaves_no_trace_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = {
        "samples": {"every": 5, "prompts": ["the "], "length": 12},
        "evaluate": {"every": 5, "sequences": 2, "holdout": 0.3},
        "checkpoint": {"every_steps": 5},
    }
    plain = live(make_run(tmp_path / "plain", **wanted), stop_after=7)
    monkeypatch.setattr("trainer.run._SAY_AGAIN", 0.0)
    often = live(make_run(tmp_path / "often", **wanted), stop_after=7)
    for what in ("sample", "eval"):
        assert [r.what for r in plain.of(Doing)].count(what) == 1
        assert [r.what for r in often.of(Doing)].count(what) > 1
    assert [r.loss for r in plain.of(Step)] == [r.loss for r in often.of(Step)]


def test_every_silence_of_a_life_stands_behind_a_word_for_it(tmp_path: Path) -> None:
    """What can take long is never behind a report that promises a step."""
    wanted = {
        "samples": {"every": 5, "prompts": ["the ", "a "], "length": 4},
        "evaluate": {"every": 5, "sequences": 2, "holdout": 0.3},
        "checkpoint": {"every_steps": 5},
    }
    life = live(make_run(tmp_path / "run", **wanted), stop_after=11)
    before = {type(b).__name__: set[str]() for b in life.reports}
    for a, b in pairwise(life.reports):
        before[type(b).__name__].add(a.what if isinstance(a, Doing) else type(a).__name__)
    assert before["Ready"] == {"load"}
    assert before["Checkpoint"] == {"save"}
    assert before["Evaluation"] == {"eval"}
    assert before["Sample"] == {"sample", "Sample"}


def test_sigquit_shows_the_stacks_and_ends_nothing(
    tmp_path: Path, start: Callable[..., Process]
) -> None:
    process = start(make_run(tmp_path / "run", train={"steps": 1_000_000}))
    step = process.wait_for(Step, 3).step
    process.child.send_signal(signal.SIGQUIT)
    wait_until(
        lambda: "trainer/loop.py" in process.describe(), "a stack", describe=process.describe
    )
    process.wait_for(Step, step + 20)
    process.child.send_signal(signal.SIGTERM)
    assert process.wait() == 0
