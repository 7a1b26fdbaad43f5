"""Histories of a verdict: when a silent trainer is called hung, and what follows."""

from __future__ import annotations

import pytest

from supervisor.core.hang import HangPolicy
from supervisor.core.messages import (
    Cause,
    CloseAttempt,
    Effect,
    Exit,
    Journal,
    Moved,
    Quiet,
    RecordStacks,
    Say,
    Signalled,
    SignalTrainer,
    Spawn,
    StacksRecorded,
)
from supervisor.core.state import Life
from tests.support.history import History, fresh_state, running
from trainer.contract.wire import Doing

POLICY = HangPolicy(least=5.0, first_step=50.0, load=20.0)
WHERE = "attempts/000001/output.log"


def silent(history: History, seconds: float) -> list[Effect]:
    """Nothing was reported for so long, all of it read."""
    return history.tell(Quiet(history.attempt, history.seq, seconds))


def hung(step: int = 50) -> History:
    """A trainer that was called hung in a step."""
    history = running(step, fresh_state(hang=POLICY))
    silent(history, 6.0)
    return history


def signals(history: History) -> list[str]:
    """The signals that the trainer was sent, in order."""
    return [effect.name for effect in history.all_of(SignalTrainer)]


def cause(history: History) -> object:
    """The cause that the newest closed attempt has in its record."""
    return history.all_of(CloseAttempt)[-1].facts["cause"]


def test_silence_within_the_budget_is_nothing() -> None:
    history = running(50, fresh_state(hang=POLICY))
    before = history.state
    assert silent(history, 4.9) == []
    assert history.state == before


@pytest.mark.parametrize(("attempt", "seq"), [(1, 50), (1, 52), (2, 51)])
def test_silence_before_a_report_that_was_read_meanwhile_is_nothing(attempt: int, seq: int) -> None:
    history = running(50, fresh_state(hang=POLICY))
    assert history.seq == 51
    assert history.tell(Quiet(attempt, seq, 1e6)) == []
    assert history.state.life is Life.RUNNING


def test_a_verdict_records_the_stacks_and_tells_its_numbers() -> None:
    history = running(50, fresh_state(hang=POLICY))
    effects = silent(history, 6.04)
    assert [type(effect) for effect in effects] == [Say, Journal, RecordStacks]
    text = next(effect.text for effect in effects if isinstance(effect, Say))
    assert "attempt 1 is hung: no report for 6.0 s, in a step after step 50" in text
    assert "its budget is 5.0 s (the slowest two of 49 steps took 0.10 s and 0.10 s" in text
    assert "at least 5 s" in text
    [facts] = history.journal("hang")
    assert facts["doing"] == "step"
    assert (facts["attempt"], facts["step"]) == (1, 50)
    assert (facts["quiet"], facts["budget"]) == (6.0, 5.0)
    assert "at least 5 s" in str(facts["why"])
    assert signals(history) == []


def test_a_verdict_is_given_once() -> None:
    history = hung()
    assert silent(history, 7.0) == []
    history.tell(StacksRecorded(1, WHERE))
    assert silent(history, 8.0) == []


def test_after_the_stacks_it_is_asked_to_save_then_killed() -> None:
    history = hung()
    effects = history.tell(StacksRecorded(1, WHERE))
    assert any(isinstance(e, Say) and WHERE in e.text for e in effects)
    assert signals(history) == ["TERM", "CONT"]
    assert history.state.deadline is not None
    history.wait()
    assert signals(history) == ["TERM", "CONT", "KILL"]
    history.end(status=-9)
    assert cause(history) == Cause.HUNG
    assert history.all_of(Journal)[-1].facts["cause"] == Cause.HUNG


def test_one_that_comes_back_saves_and_ends_and_was_hung_all_the_same() -> None:
    history = hung()
    history.tell(StacksRecorded(1, WHERE))
    history.steps(51, 51)
    history.seal(51, "stop")
    history.finished("stop")
    history.end(status=0)
    assert cause(history) == Cause.HUNG
    assert not history.all_of(Exit)
    spawn = history.all_of(Spawn)[-1]
    assert spawn.attempt == 2
    assert spawn.resume is not None
    assert spawn.resume.step == 51


def test_a_hang_without_progress_counts_as_a_failure() -> None:
    history = hung()
    history.tell(StacksRecorded(1, WHERE))
    history.end(status=-9)
    assert history.state.life is Life.BACKOFF
    assert (history.state.restarts.failures, history.state.restarts.against) == (1, 1)


def test_one_that_is_not_ready_has_nothing_to_save() -> None:
    history = History(fresh_state(hang=POLICY))
    history.begin()
    history.spawned()
    history.report(Doing(0, 0.1, "load", 0))
    silent(history, 21.0)
    assert history.state.life is Life.STOPPING
    history.tell(StacksRecorded(1, ""))
    assert signals(history) == ["KILL"]
    history.end(status=-9)
    assert cause(history) == Cause.HUNG


@pytest.mark.parametrize(("reason", "word"), [("steps", Cause.FINISHED), ("stop", Cause.STOPPED)])
def test_one_that_has_finished_but_does_not_exit_is_ended_as_finished(
    reason: str, word: Cause
) -> None:
    history = running(50, fresh_state(hang=POLICY))
    history.finished(reason)
    assert silent(history, 119.0) == []
    silent(history, 121.0)
    history.tell(StacksRecorded(1, WHERE))
    assert signals(history) == ["KILL"]
    history.end(status=-9)
    assert cause(history) == word
    assert bool(history.all_of(Exit)) == (reason == "steps")


def test_a_stop_of_the_operator_wins_over_a_verdict() -> None:
    history = hung()
    history.tell(Signalled("TERM"))
    history.tell(StacksRecorded(1, WHERE))
    history.end(status=-9)
    assert history.all_of(Exit) == [Exit(0)]
    assert len(history.all_of(Spawn)) == 1


def test_stacks_of_an_attempt_that_is_gone_change_nothing() -> None:
    history = hung()
    history.end(status=-9)
    before = history.state
    assert history.tell(StacksRecorded(1, WHERE)) == []
    assert history.state == before


def test_a_save_at_a_stop_is_given_its_time_anew_while_bytes_move() -> None:
    history = running(50)
    history.tell(Signalled("TERM"))
    first = history.state.deadline
    history.now += 30
    history.tell(Moved(1))
    assert first is not None
    assert history.state.deadline == pytest.approx(first + 30)
    history.tell(Moved(2))
    assert history.state.deadline == pytest.approx(first + 30)


@pytest.mark.parametrize("life", [Life.RUNNING, Life.KILLING, Life.BACKOFF])
def test_bytes_that_move_prove_nothing_outside_a_stop(life: Life) -> None:
    history = running(50)
    if life is Life.KILLING:
        history.ask("stop", now=True)
    elif life is Life.BACKOFF:
        history.end(status=1)
    before = history.state
    assert before.life is life
    assert history.tell(Moved(1)) == []
    assert history.state == before


def test_stacks_that_are_never_told_do_not_keep_a_hung_trainer_alive() -> None:
    history = hung()
    history.wait()
    assert signals(history) == ["KILL"]
    history.end(status=-9)
    assert cause(history) == Cause.HUNG
