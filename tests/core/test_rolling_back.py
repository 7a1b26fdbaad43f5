"""Histories of rollbacks: to the last clean seal, past the data, and not for ever."""

from __future__ import annotations

from dataclasses import replace

import pytest

from supervisor.core.guard_rules import Guards, Nonfinite, Spike
from supervisor.core.ladder import Action
from supervisor.core.messages import (
    Exit,
    Reject,
    Say,
    SignalTrainer,
    Skip,
    Spawn,
)
from supervisor.core.state import Life, State
from tests.support.history import NOTHING, History, fresh_state, point, running, step_report

ALERT = Guards(Nonfinite(Action.ALERT), quarantine_steps=50)
BACK = Guards(Nonfinite(Action.ROLL_BACK), quarantine_steps=50)


def state_of(rules: Guards) -> State:
    return fresh_state(guards=rules)


def bad(history: History, step: int) -> None:
    """A step whose loss is no number."""
    history.report(step_report(step, 0)._replace(loss=None, nonfinite="nan"))
    history.recorded(step)


def alarms(history: History) -> str:
    return "\n".join(effect.text for effect in history.all_of(Say) if effect.alarm)


def sealed(history: History) -> list[int]:
    return [seal.point.step for seal in history.state.seals]


def quarantined(history: History) -> list[int]:
    return [seal.point.step for seal in history.state.quarantined]


def rolled(history: History) -> Spawn:
    """The trainer that was killed is gone; the attempt that follows."""
    assert history.all_of(SignalTrainer)[-1].name == "KILL"
    history.end(status=-9)
    return history.all_of(Spawn)[-1]


def to_the_bad(history: History, last: int = 155) -> None:
    """Clean at 100, then bad at 150; the trainer goes on to ``last`` before it is killed."""
    history.seal(100)
    history.steps(101, 149)
    bad(history, 150)
    history.steps(151, last)


def test_a_rollback_ends_the_trainer_and_goes_on_from_the_clean_seal_past_the_data() -> None:
    history = running(100, state_of(BACK))
    to_the_bad(history, last=155)
    spawn = rolled(history)
    assert (spawn.resume, spawn.skip) == (point(100), 55)
    assert history.all_of(Skip) == [Skip(point(100).seal, 1, 55)]
    told = history.journal("rolled-back")[0]
    assert (told["step"], told["to"], told["skip"], told["times"]) == (150, 100, 55, 1)
    assert history.state.life is Life.STARTING
    assert history.state.restarts.failures == 0  # nobody's checkpoint is to blame


def test_what_was_sealed_behind_the_bad_step_is_rejected() -> None:
    history = running(100, state_of(replace(BACK, spike=Spike())))
    history.seal(100)
    history.steps(101, 149)
    history.report(step_report(150, 0)._replace(loss=None, nonfinite="nan"))
    history.steps(151, 160)
    history.checkpoint(160)
    history.verified(160)
    history.recorded(160)
    history.sealed(160)
    rolled(history)
    assert [reject.seal for reject in history.all_of(Reject)] == [point(160).seal]
    assert (sealed(history), quarantined(history)) == ([100], [])


def test_a_crash_before_the_next_seal_skips_again() -> None:
    history = running(100, state_of(BACK))
    to_the_bad(history)
    rolled(history)
    history.spawned(ledger_step=155)
    history.ready()
    history.steps(101, 140)
    history.end(status=-9)
    history.wait()
    assert (history.all_of(Spawn)[-1].resume, history.all_of(Spawn)[-1].skip) == (point(100), 55)


def test_behind_the_next_seal_nothing_is_skipped() -> None:
    history = running(100, state_of(BACK))
    to_the_bad(history)
    rolled(history)
    history.spawned(ledger_step=155)
    history.ready()
    history.steps(101, 200)
    history.seal(200)
    history.end(status=-9)
    assert (history.all_of(Spawn)[-1].resume, history.all_of(Spawn)[-1].skip) == (point(200), 0)


def test_a_second_rollback_to_the_same_seal_skips_further_and_a_third_stops() -> None:
    history = running(100, state_of(BACK))
    to_the_bad(history, last=155)
    rolled(history)
    history.spawned(ledger_step=155)
    history.ready()
    history.steps(101, 119)
    bad(history, 120)
    assert rolled(history).skip == 55 + 20
    history.spawned(ledger_step=155)
    history.ready()
    history.steps(101, 109)
    bad(history, 110)
    assert history.all_of(SignalTrainer)[-2].name == "TERM"
    told = history.journal("guard")[-1]
    assert (told["action"], told["step"]) == ("stop", 110)
    assert "rolled back to step 100 2 times already" in alarms(history)
    history.finished("stop")
    history.end(status=0)
    assert history.all_of(Exit) == [Exit(12)]


def test_after_a_new_clean_seal_the_count_begins_anew() -> None:
    rules = replace(BACK, rollback_most=1)
    history = running(100, state_of(rules))
    to_the_bad(history)
    rolled(history)
    history.spawned(ledger_step=155)
    history.ready()
    history.steps(101, 200)
    history.seal(200)
    history.steps(201, 249)
    bad(history, 250)
    spawn = rolled(history)
    assert (spawn.resume, spawn.skip) == (point(200), 50)


def test_without_a_clean_seal_it_stops_at_once() -> None:
    history = running(20, state_of(BACK))
    bad(history, 21)
    assert [sent.name for sent in history.all_of(SignalTrainer)] == ["TERM", "CONT"]
    assert "no clean checkpoint is sealed before it" in alarms(history)


def test_a_trainer_that_died_of_it_is_rolled_back_as_well() -> None:
    history = running(100, state_of(BACK))
    history.seal(100)
    history.steps(101, 149)
    bad(history, 150)
    history.end(status=1)
    assert (history.all_of(Spawn)[-1].resume, history.all_of(Spawn)[-1].skip) == (point(100), 50)


def test_a_stop_that_is_under_way_goes_on_and_the_next_start_skips() -> None:
    history = running(100, state_of(BACK))
    history.seal(100)
    history.steps(101, 149)
    history.ask("stop")
    bad(history, 150)
    assert "KILL" not in [sent.name for sent in history.all_of(SignalTrainer)]
    history.finished("stop")
    history.end(status=0)
    assert history.all_of(Skip) == [Skip(point(100).seal, 1, 50)]
    assert history.all_of(Exit) == [Exit(0)]


def test_a_supervisor_that_dies_before_it_concludes_comes_to_the_same_skip() -> None:
    first = running(100, state_of(BACK))
    to_the_bad(first, last=155)
    rolled(first)
    # The mark is durable, the attempt's end is not: the next life folds the attempt once more.
    seal = replace(first.state.seals[0], proved=True)
    again = History(replace(state_of(BACK), seals=(seal,), guards=seal.guards))  # type: ignore[arg-type]  # sealed in this life
    attempt = next(s.attempt for _, _, s in first.turns if s.attempt and s.attempt.last_step == 100)
    again.begin(replace(NOTHING, attempt=replace(attempt, ready=True, back=None)))
    again.state = replace(again.state, last_attempt=1)
    again.steps(101, 149)
    bad(again, 150)
    again.steps(151, 155)
    spawn = rolled(again)
    assert (spawn.resume, spawn.skip) == (point(100), 55)
    assert again.journal("rolled-back") == first.journal("rolled-back")


def test_that_data_differs_behind_a_rollback_is_no_alarm() -> None:
    history = running(100, state_of(BACK))
    to_the_bad(history)
    rolled(history)
    history.spawned(ledger_step=155)
    history.ready()
    before = alarms(history)
    history.steps(101, 101, recorded=False)
    history.recorded(101, differed=101, difference="data", origin=1)
    assert not history.journal("replay-differed")
    assert alarms(history) == before
    assert "as meant" in [effect.text for effect in history.all_of(Say)][-1]


def test_an_attempt_that_skips_again_is_held_against_the_one_that_skipped_before() -> None:
    history = running(100, state_of(BACK))
    to_the_bad(history)
    rolled(history)
    history.spawned(ledger_step=155)
    history.ready()
    history.steps(101, 120)
    history.end(status=-9)
    history.wait()
    history.spawned(ledger_step=120)
    history.ready()
    history.steps(101, 119, recorded=False)
    history.recorded(119, proved=19, origin=2)
    assert not history.journal("skip-ignored")
    history.steps(120, 120, recorded=False)
    history.recorded(120, differed=120, difference="loss", origin=2)
    assert [facts["step"] for facts in history.journal("replay-differed")] == [120]


def test_a_trainer_that_does_not_skip_is_named() -> None:
    history = running(100, state_of(BACK))
    to_the_bad(history)
    rolled(history)
    history.spawned(ledger_step=155)
    history.ready()
    history.steps(101, 105, recorded=False)
    history.recorded(103, proved=3, origin=1)
    history.recorded(105, proved=2, origin=1)
    assert history.journal("skip-ignored") == [{"attempt": 2, "skip": 55}]
    assert alarms(history).count("STEPKEEPER_SKIP") == 1


@pytest.mark.parametrize("action", [Action.ALERT, Action.ROLL_BACK])
def test_a_spike_is_treated_as_a_loss_that_is_no_number(action: Action) -> None:
    history = running(100, state_of(replace(BACK, spike=Spike(action))))
    history.seal(100)
    history.steps(101, 149)
    history.report(step_report(150, 0)._replace(loss=50.0))
    assert ("KILL" in [sent.name for sent in history.all_of(SignalTrainer)]) is (
        action is Action.ROLL_BACK
    )
    assert history.state.guards.suspicion is not None
