"""Histories of saves that were asked for: each is answered once, by one checkpoint."""

from __future__ import annotations

import pytest

from supervisor.core.messages import (
    Answer,
    GiveOrders,
    Pin,
    Say,
    Seal,
    SignalTrainer,
    Spawn,
    Verify,
)
from tests.support.history import History, fresh_state, running
from trainer.contract.wire import Checkpoint


def seals(history: History) -> list[int]:
    """Steps whose seal was asked for, in order."""
    return [effect.verdict.step for effect in history.all_of(Seal)]


def alarms(history: History) -> str:
    return "\n".join(effect.text for effect in history.all_of(Say) if effect.alarm)


def test_a_save_names_the_serial_that_its_seal_will_carry() -> None:
    history = running(50)
    answer = history.ask("save", pin=True, note="before the move")[-1]
    assert isinstance(answer, Answer)
    serial = answer.fields["serial"]
    history.steps(51, 51)
    history.checkpoint(51, "signal", save=serial)
    orders = history.all_of(GiveOrders)[-1].orders
    assert orders.save is None
    assert orders.serial > serial
    history.verified(51)
    assert history.all_of(Seal)[0].save == serial
    assert not history.all_of(Pin)
    history.sealed(51)
    assert history.all_of(Pin) == [Pin(51, "before the move")]
    assert history.state.saves == ()


def test_a_save_at_the_boundary_is_ordered_so() -> None:
    state = fresh_state(boundary=True)
    history = running(50, state)
    history.ask("save")
    order = history.all_of(GiveOrders)[-1].orders.save
    assert order is not None
    assert order.align == "cadence"


def test_two_saves_within_a_step_are_answered_by_one_checkpoint() -> None:
    history = running(50)
    history.ask("save", pin=True, note="one")
    second = history.ask("save", pin=True, note="two")[-1]
    assert isinstance(second, Answer)
    history.steps(51, 51)
    history.seal(51, "signal", save=second.fields["serial"])
    assert sorted(pin.note for pin in history.all_of(Pin)) == ["one", "two"]
    assert history.state.saves == ()


def test_a_checkpoint_for_an_older_save_leaves_the_newer_in_force() -> None:
    history = running(50)
    first = history.ask("save")[-1]
    second = history.ask("save")[-1]
    assert isinstance(first, Answer)
    assert isinstance(second, Answer)
    history.steps(51, 51)
    history.seal(51, "signal", save=first.fields["serial"])
    assert [request.serial for request in history.state.saves] == [second.fields["serial"]]
    assert history.state.orders.save is not None


def test_a_trainer_that_knows_no_orders_answers_by_its_signal() -> None:
    history = running(50)
    history.ask("save", pin=True, note="x")
    history.steps(51, 51)
    history.seal(51, "signal")
    assert history.all_of(Pin) == [Pin(51, "x")]
    assert history.state.orders.save is None


def test_a_cadence_checkpoint_answers_nobodys_save() -> None:
    history = running(99)
    history.ask("save", pin=True, note="x")
    history.steps(100, 100)
    history.seal(100, "cadence")
    assert not history.all_of(Pin)
    assert len(history.state.saves) == 1


@pytest.mark.parametrize("sealed", [False, True])
def test_a_save_is_answered_by_the_checkpoint_that_its_step_has(
    sealed: bool,  # noqa: FBT001 - a parameter
) -> None:
    history = running(100)
    if sealed:
        history.seal(100)
    else:
        history.checkpoint(100)
    answer = history.ask("save", pin=True, note="x")[-1]
    assert isinstance(answer, Answer)
    history.checkpoint(100, "cadence", save=answer.fields["serial"])
    assert len(history.all_of(Verify)) == 1
    assert history.state.orders.save is None
    if not sealed:
        assert not history.all_of(Pin)
        history.verified(100)
        assert history.all_of(Seal)[0].save == answer.fields["serial"]
        history.sealed(100)
    assert seals(history) == [100]
    assert history.all_of(Pin) == [Pin(100, "x")]


def test_a_save_that_died_with_its_attempt_is_not_answered_by_the_next() -> None:
    history = running(50)
    history.ask("save", pin=True, note="x")
    history.end()
    assert "not written" in alarms(history)
    history.wait()
    history.spawned()
    history.ready()
    assert history.all_of(Spawn)[-1].orders.save is None
    history.steps(1, 1)
    later = history.ask("save")[-1]
    assert isinstance(later, Answer)
    history.steps(2, 2)
    history.seal(2, "signal", save=later.fields["serial"])
    assert not history.all_of(Pin)


@pytest.mark.parametrize("how", ["stopping", "backing off"])
def test_a_save_with_nothing_to_save_says_so(how: str) -> None:
    history = running(50)
    if how == "stopping":
        history.ask("stop")
    else:
        history.end()
    answer = history.ask("save")[-1]
    assert answer == Answer(5, {"error": f"cannot save: no trainer is running ({how})"})
    assert "USR1" not in [effect.name for effect in history.all_of(SignalTrainer)]


def test_a_checkpoint_under_another_step_s_name_is_set_aside() -> None:
    history = running(50)
    name = "step_000040.bin"
    history.report(Checkpoint(0, 5.0, 50, name, "0" * 64, 776, "cadence", 0.1, None))
    assert history.all_of(Verify) == []
    assert f"{name} is not at the step just reported" in alarms(history)
    history.steps(51, 100)
    history.seal(100)
    assert seals(history) == [100]
