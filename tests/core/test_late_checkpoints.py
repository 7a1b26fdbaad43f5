"""Histories of a trainer that goes on while its checkpoint is written."""

from __future__ import annotations

import pytest

from supervisor.core.hanging import budget
from supervisor.core.messages import Effect, Pin, Say, Seal, Verify
from supervisor.core.state import Life
from tests.support.history import History, fresh_state, running, with_seals
from trainer.contract.wire import Doing, Sample, SaveOrder


def begin_save(history: History, step: int) -> list[Effect]:
    """The trainer says that it begins to save, and goes on."""
    return history.report(Doing(0, step / 10, "save", step))


def alarms(history: History) -> list[str]:
    return [effect.text for effect in history.all_of(Say) if effect.alarm]


@pytest.mark.parametrize("recorded", [True, False], ids=["at once", "later"])
def test_a_seal_says_what_stood_when_its_checkpoint_was_begun(*, recorded: bool) -> None:
    history = running(60)
    history.steps(61, 100, recorded=False)
    history.report(Sample(0, 10.0, 100, "say", "said", 0.8))
    if recorded:
        history.recorded(100)
    begin_save(history, 100)
    attempt = history.state.attempt
    bandit, position = history.state.bandit, attempt.position if attempt else None
    if not recorded:
        history.recorded(100)
    history.steps(101, 150)
    history.checkpoint(100)
    history.verified(100)
    (seal,) = history.all_of(Seal)
    assert (seal.verdict.step, seal.sample, seal.reason) == (100, 100, "cadence")
    assert seal.bandit == bandit
    assert seal.bandit != history.state.bandit
    assert seal.reports == position
    assert seal.ledger == history.position(100)
    assert alarms(history) == []


def test_a_late_checkpoint_that_nobody_began_is_set_aside() -> None:
    history = running(100)
    begin_save(history, 100)
    history.steps(101, 150)
    history.checkpoint(120)
    assert history.all_of(Verify) == []
    assert "step_000120.bin is not at the step just reported (150)" in alarms(history)[0]


def test_a_save_that_names_another_step_is_no_begin() -> None:
    history = running(100)
    begin_save(history, 90)
    history.steps(101, 110)
    history.checkpoint(90)
    assert history.all_of(Verify) == []


def test_a_checkpoint_begun_and_not_reported_is_found_after_the_end() -> None:
    history = running(100)
    begin_save(history, 100)
    bandit = history.state.bandit
    history.steps(101, 150)
    history.end(visible=[100])
    assert [effect.step for effect in history.all_of(Verify)] == [100]
    history.verified(100)
    (seal,) = history.all_of(Seal)
    assert (seal.reason, seal.bandit, seal.ledger) == ("unreported", bandit, history.position(100))
    assert history.state.life is Life.DRAINING
    history.sealed(100)
    assert history.state.seals[0].point.step == 100


def test_a_checkpoint_begun_and_not_written_keeps_nobody_waiting() -> None:
    history = running(100)
    begin_save(history, 100)
    history.steps(101, 150)
    history.end()
    assert history.all_of(Verify) == []
    assert history.state.attempt is None


def test_the_fold_from_a_late_seal_hears_of_its_checkpoint_again_without_harm() -> None:
    history = running(150, with_seals(fresh_state(), 100))
    history.checkpoint(100)  # the step resumed from is never written by the attempt itself
    assert history.all_of(Verify) == []
    history = running(100)
    begin_save(history, 100)
    history.steps(101, 120)
    history.checkpoint(100)
    history.verified(100)
    history.sealed(100)
    history.checkpoint(100)
    assert len(history.all_of(Verify)) == 1
    assert alarms(history) == []


def test_a_save_order_is_answered_late_and_withdrawn() -> None:
    history = running(100)
    history.ask("save", pin=True)
    order = history.state.orders.save
    assert order is not None
    begin_save(history, 100)
    history.steps(101, 104)
    assert history.state.orders.save == SaveOrder(order.serial, order.align, "go")
    history.checkpoint(100, "signal", save=order.serial)
    assert history.state.orders.save is None


def test_a_checkpoint_on_a_signal_from_before_a_pivot_does_not_answer_it() -> None:
    history = running(105)
    begin_save(history, 105)
    history.pivot()
    history.steps(106, 107)
    history.checkpoint(105, "signal")
    history.steps(108, 110)
    assert history.state.life is Life.RUNNING
    assert history.state.pivot is not None
    assert history.state.pivot.honoured is None


def test_a_save_that_is_waited_for_keeps_what_its_begin_said_and_has_a_limit() -> None:
    history = running(100)
    begin_save(history, 100)
    bandit = history.state.bandit
    history.steps(101, 150)
    history.report(Doing(0, 15.0, "save", 100))
    limit = budget(history.state)
    assert limit is not None
    assert limit.what == "save"
    history.checkpoint(100)
    history.verified(100)
    (seal,) = history.all_of(Seal)
    assert (seal.verdict.step, seal.bandit) == (100, bandit)


def test_a_save_begun_before_a_request_does_not_answer_it() -> None:
    history = running(100)
    begin_save(history, 100)  # a signal from outside asked for it
    history.steps(101, 102)
    history.ask("save", pin=True)
    order = history.state.orders.save
    history.steps(103, 104)
    history.checkpoint(100, "signal")
    assert history.state.orders.save == order
    history.verified(100)
    history.sealed(100)
    assert history.all_of(Pin) == []
    begin_save(history, 104)
    history.checkpoint(104, "signal")  # of a trainer that hears signals alone
    assert history.state.orders.save is None
    history.verified(104)
    history.sealed(104)
    assert [pin.step for pin in history.all_of(Pin)] == [104]


def test_a_request_is_answered_late_by_a_trainer_that_hears_signals_alone() -> None:
    history = running(100)
    history.ask("save")
    begin_save(history, 100)
    history.steps(101, 104)
    history.checkpoint(100, "signal")
    assert history.state.orders.save is None


def test_a_pivot_ends_with_the_cadence_of_a_trainer_that_saves_late_and_reads_no_orders() -> None:
    history = running(105)
    history.pivot()
    history.steps(106, 210)
    begin_save(history, 210)
    history.steps(211, 213)
    history.checkpoint(210)
    assert history.state.pivot is not None
    assert history.state.pivot.honoured == 210
    assert history.state.life is Life.STOPPING
