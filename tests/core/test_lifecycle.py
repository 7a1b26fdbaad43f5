"""Histories of one trainer's life: how it starts, is asked to stop, and ends."""

from __future__ import annotations

import pytest

from supervisor.core.messages import (
    Answer,
    Cause,
    CloseAttempt,
    Exit,
    GiveOrders,
    KeepIntent,
    Signalled,
    SignalTrainer,
    Spawn,
    Spawned,
    SpawnFailed,
)
from supervisor.core.state import Life, Want
from tests.support.history import History, fresh_state, point, running, step_report, with_seals


def signals(history: History) -> list[str]:
    """The signals that the trainer was sent, in order."""
    return [effect.name for effect in history.all_of(SignalTrainer)]


def in_life(life: Life) -> History:
    """A history that stands in this state of the trainer's life."""
    history = running(50)
    match life:
        case Life.STARTING:
            history = History()
            history.begin()
            history.spawned()
        case Life.STOPPING:
            history.tell(Signalled("TERM"))
        case Life.KILLING:
            history.ask("stop", now=True)
        case Life.DRAINING:
            history.checkpoint(50)
            history.end()
        case Life.BACKOFF:
            history.end(status=1)
    assert history.state.life is life
    return history


def test_a_run_that_never_started_starts_from_nothing() -> None:
    history = History()
    effects = history.begin()
    spawn = next(effect for effect in effects if isinstance(effect, Spawn))
    assert (spawn.attempt, spawn.resume, spawn.policy) == (1, None, 1)
    assert [phase.phase for phase in spawn.orders.phases] == [1, 2]
    assert spawn.orders.save is None
    assert history.state.life is Life.STARTING
    history.spawned()
    history.ready()
    assert history.state.life is Life.RUNNING


def test_a_run_with_seals_resumes_from_the_newest_with_its_bandit() -> None:
    history = History(with_seals(fresh_state(), 300, 200))
    spawn = next(effect for effect in history.begin() if isinstance(effect, Spawn))
    assert spawn.resume == point(300)
    assert history.state.bandit == history.state.seals[0].bandit


def test_a_stop_while_starting_kills_for_nothing_can_be_lost() -> None:
    history = in_life(Life.STARTING)
    history.tell(Signalled("TERM"))
    assert signals(history) == ["KILL"]
    assert history.state.life is Life.KILLING
    history.end(status=-9)
    assert history.all_of(CloseAttempt)[-1].facts["cause"] == Cause.STOPPED
    assert history.last[-1] == Exit(0)


def test_a_stop_while_running_asks_and_waits_for_the_last_seal() -> None:
    history = running(50)
    history.tell(Signalled("TERM"))
    assert signals(history) == ["TERM", "CONT"]
    assert history.state.life is Life.STOPPING
    history.steps(51, 51)
    history.checkpoint(51, "stop")
    history.finished("stop")
    history.end(status=0)
    assert history.state.life is Life.DRAINING
    assert not history.all_of(Exit)
    history.verified(51)
    history.sealed(51)
    assert history.last[-1] == Exit(0)
    intents = history.all_of(KeepIntent)
    assert [(intent.want, intent.done) for intent in intents] == [("stop", False), ("stop", True)]


def test_the_intent_is_durable_before_the_signal() -> None:
    history = running(50)
    effects = history.tell(Signalled("INT"))
    kinds = [type(effect) for effect in effects]
    assert kinds.index(KeepIntent) < kinds.index(SignalTrainer)


def test_a_second_sigterm_changes_nothing() -> None:
    history = in_life(Life.STOPPING)
    deadline = history.state.deadline
    history.now += 10
    history.tell(Signalled("TERM"))
    assert signals(history) == ["TERM", "CONT"]
    assert history.state.deadline == deadline
    assert history.state.life is Life.STOPPING


def test_a_stop_now_kills_at_once_even_after_a_stop() -> None:
    history = in_life(Life.STOPPING)
    history.ask("stop", now=True)
    assert signals(history) == ["TERM", "CONT", "KILL"]
    assert history.state.life is Life.KILLING
    assert history.state.deadline is None


@pytest.mark.parametrize("life", [Life.KILLING, Life.DRAINING])
def test_a_stop_while_the_trainer_is_ending_only_decides_what_follows(life: Life) -> None:
    history = in_life(life)
    before = len(signals(history))
    history.tell(Signalled("TERM"))
    assert len(signals(history)) == before
    assert history.state.want is Want.STOP
    if life is Life.KILLING:
        history.end()
    else:
        history.verified(50, "cannot use it")
    assert history.last[-1] == Exit(0)
    assert len(history.all_of(Spawn)) == 1


def test_a_stop_in_the_back_off_ends_it() -> None:
    history = in_life(Life.BACKOFF)
    history.tell(Signalled("TERM"))
    assert history.last[-1] == Exit(0)
    assert history.state.deadline is None
    assert history.all_of(KeepIntent)[-1].done


def test_a_stop_that_hears_nothing_within_its_grace_kills() -> None:
    history = in_life(Life.STOPPING)
    history.wait()
    assert signals(history) == ["TERM", "CONT", "KILL"]
    assert history.state.life is Life.KILLING
    history.end()
    assert history.all_of(CloseAttempt)[-1].facts["cause"] == Cause.STOPPED


def test_the_grace_of_a_stop_moves_on_while_reports_come() -> None:
    history = in_life(Life.STOPPING)
    first = history.state.deadline
    history.now += 30
    history.steps(51, 51)
    assert first is not None
    assert history.state.deadline == pytest.approx(first + 30, abs=1.0)


def test_the_grace_of_a_stop_grows_with_measured_steps_and_saves() -> None:
    slow, quick = running(0), running(0)
    for step in range(1, 4):
        slow.report(step_report(step, 0)._replace(at=40.0 * step))
        quick.steps(step, step)
    for history in (slow, quick):
        history.tell(Signalled("TERM"))
    assert slow.state.deadline is not None
    assert quick.state.deadline is not None
    assert slow.state.deadline > quick.state.deadline + 100


@pytest.mark.parametrize("hold", [False, True])
def test_a_plain_stop_leaves_a_hold_as_it_is(hold: bool) -> None:  # noqa: FBT001 - a parameter
    history = running(50)
    history.ask("stop", hold=hold)
    history.tell(Signalled("TERM"))
    assert [intent.hold for intent in history.all_of(KeepIntent)] == [hold or None, None]


def test_a_release_does_not_undo_a_stop_under_way() -> None:
    history = in_life(Life.STOPPING)
    history.ask("release")
    intent = history.all_of(KeepIntent)[-1]
    assert (intent.want, intent.done, intent.hold) == ("stop", False, False)


def test_a_release_while_running_ends_the_hold() -> None:
    history = running(50)
    history.ask("release")
    intent = history.all_of(KeepIntent)[-1]
    assert (intent.want, intent.done, intent.hold) == ("run", False, False)


def test_sigusr1_while_running_is_an_order_and_a_signal() -> None:
    history = running(50)
    history.tell(Signalled("USR1"))
    order = history.all_of(GiveOrders)[-1].orders.save
    assert order is not None
    assert (order.align, order.then) == ("step", "go")
    assert signals(history) == ["USR1"]


def test_sigusr1_while_starting_waits_for_ready() -> None:
    history = in_life(Life.STARTING)
    history.tell(Signalled("USR1"))
    assert signals(history) == []
    history.ready()
    assert signals(history) == ["USR1"]
    assert history.all_of(GiveOrders)[-1].orders.save is not None


@pytest.mark.parametrize("life", [Life.STOPPING, Life.KILLING, Life.DRAINING, Life.BACKOFF])
def test_sigusr1_with_nothing_to_save_changes_nothing(life: Life) -> None:
    history = in_life(life)
    before = history.state
    history.tell(Signalled("USR1"))
    assert history.state == before
    assert not history.all_of(GiveOrders)


def test_a_vanished_terminal_ends_nothing() -> None:
    history = running(50)
    before = history.state
    history.tell(Signalled("HUP"))
    assert history.state == before


def test_a_trainer_that_has_done_all_steps_ends_the_run() -> None:
    history = running(100)
    history.checkpoint(100, "stop")
    history.finished("steps")
    history.end(status=0)
    history.verified(100)
    history.sealed(100)
    assert history.all_of(CloseAttempt)[-1].facts["cause"] == Cause.FINISHED
    assert history.last[-1] == Exit(0)
    assert history.all_of(KeepIntent)[-1] == KeepIntent("run", "", done=True)


def test_an_adopted_trainer_that_finished_is_known_by_its_report() -> None:
    history = running(100)
    history.finished("steps")
    history.end(status=None)
    assert history.all_of(CloseAttempt)[-1].facts["cause"] == Cause.FINISHED


@pytest.mark.parametrize(
    ("ready", "status", "cause"),
    [
        (True, -9, Cause.KILLED),
        (True, 1, Cause.FAILED),
        (True, -11, Cause.FAILED),
        (False, 1, Cause.NEVER_READY),
        (True, None, Cause.UNKNOWN),
    ],
)
def test_an_end_is_classified_from_what_is_proved(
    ready: bool,  # noqa: FBT001 - a parameter
    status: int | None,
    cause: Cause,
) -> None:
    history = History()
    history.begin()
    history.spawned()
    if ready:
        history.ready()
    history.end(status=status)
    assert history.all_of(CloseAttempt)[-1].facts["cause"] == cause


def test_a_word_of_finishing_does_not_hide_a_crash() -> None:
    history = running(50)
    history.finished("steps")
    history.end(status=1)
    assert history.all_of(CloseAttempt)[-1].facts["cause"] == Cause.FAILED
    assert not history.all_of(Exit)


def test_nothing_is_begun_after_exit() -> None:
    history = running(50)
    history.finished("steps")
    history.end(status=0)
    assert history.state.life is Life.LEAVING
    before = history.state
    assert history.tell(Signalled("TERM"), Signalled("USR1"), Spawned(1, 2, 3)) == []
    assert history.tell(SpawnFailed(1, "cannot start")) == []
    answers = history.ask("pivot", policy=None, text="", when="now", by="x")
    assert [type(answer) for answer in answers] == [Answer]
    assert "the supervisor is leaving" in str(answers[0])
    assert history.state == before


def test_an_unknown_request_is_refused_by_name() -> None:
    history = running(50)
    (answer,) = history.ask("dance")
    assert answer == Answer(5, {"error": "cannot do 'dance': unknown"})
