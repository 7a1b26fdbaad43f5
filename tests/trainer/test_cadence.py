"""When a step ends with a checkpoint: cadence, clock, signal, order, stop, and their precedence."""

from __future__ import annotations

import pytest

from trainer.cadence import Due, Saves
from trainer.contract.settings import CheckpointSettings
from trainer.contract.wire import SaveOrder

NOTHING = Due("", None, "")


def saves(**settings: object) -> Saves:
    return Saves(CheckpointSettings.model_validate({"every_steps": 100, **settings}))


def decide(
    policy: Saves, step: int, *asked: str, order: SaveOrder | None = None, since: float = 0.0
) -> Due:
    return policy.decide(
        step,
        last="last" in asked,
        stop="stop" in asked,
        signalled="signal" in asked,
        order=order,
        since=since,
    )


def test_a_checkpoint_is_due_at_every_multiple_and_nowhere_else() -> None:
    policy = saves()
    due = [step for step in range(1, 401) if decide(policy, step) != NOTHING]
    assert due == [100, 200, 300, 400]
    assert decide(policy, 500) == Due("cadence", None, "")


def test_the_clock_makes_one_due_between_multiples() -> None:
    policy = saves(every_seconds=60.0)
    assert decide(policy, 31, since=59.9) == NOTHING
    assert decide(policy, 31, since=60.0) == Due("clock", None, "")
    assert decide(policy, 100, since=60.0) == Due("cadence", None, "")


def test_a_signal_is_answered_at_once_and_once() -> None:
    policy = saves()
    assert decide(policy, 31, "signal") == Due("signal", None, "")
    assert decide(policy, 32) == NOTHING


def test_a_signal_waits_for_the_boundary_where_the_setting_says_so() -> None:
    policy = saves(sigusr1="boundary")
    assert decide(policy, 31, "signal") == NOTHING
    assert decide(policy, 99, "signal") == NOTHING
    assert decide(policy, 100) == Due("cadence", None, "")
    assert decide(policy, 101) == NOTHING


@pytest.mark.parametrize("setting", ["now", "boundary"])
def test_an_order_in_force_decides_over_the_setting(setting: str) -> None:
    policy = saves(sigusr1=setting)
    at_boundary = SaveOrder(3, "cadence", "go")
    assert decide(policy, 31, "signal", order=at_boundary) == NOTHING
    assert decide(policy, 100, order=at_boundary) == Due("cadence", 3, "")
    assert decide(policy, 131, order=at_boundary) == NOTHING
    at_once = SaveOrder(4, "step", "go")
    assert decide(policy, 132, "signal", order=at_once) == Due("signal", 4, "")
    assert decide(policy, 133, order=at_once) == NOTHING


def test_an_order_works_without_its_signal() -> None:
    assert decide(saves(), 31, order=SaveOrder(3, "step", "go")) == Due("signal", 3, "")


def test_each_serial_is_honoured_once_and_the_next_one_again() -> None:
    policy = saves()
    first = SaveOrder(3, "step", "exit")
    assert decide(policy, 31, order=first) == Due("signal", 3, "order")
    assert decide(policy, 32, order=first) == NOTHING
    assert decide(policy, 33, order=SaveOrder(4, "step", "go")) == Due("signal", 4, "")


def test_the_pivots_order_leaves_at_the_boundary() -> None:
    policy = saves()
    order = SaveOrder(8, "cadence", "exit")
    steps = range(112_619, 112_701)
    due = {step: decide(policy, step, "signal", order=order) for step in steps}
    assert [step for step, what in due.items() if what != NOTHING] == [112_700]
    assert due[112_700] == Due("cadence", 8, "order")


@pytest.mark.parametrize(
    ("step", "asked", "due"),
    [
        (31, ("stop",), Due("stop", None, "stop")),
        (100, ("stop",), Due("cadence", None, "stop")),
        (31, ("last",), Due("stop", None, "steps")),
        (31, ("last", "stop"), Due("stop", None, "steps")),
        (31, ("stop", "signal"), Due("stop", None, "stop")),
    ],
)
def test_a_stop_and_the_last_step_end_with_a_checkpoint(
    step: int, asked: tuple[str, ...], due: Due
) -> None:
    assert decide(saves(), step, *asked) == due


def test_what_could_not_be_written_is_owed_still() -> None:
    policy = saves()
    order = SaveOrder(3, "step", "go")
    policy.reopen(decide(policy, 31, order=order))
    assert decide(policy, 32, order=order) == Due("signal", 3, "")
    policy.reopen(decide(policy, 33, "signal"))
    assert decide(policy, 34) == Due("signal", None, "")
