"""Histories of quarantine: what is suspect is not chosen before it has proved clean."""

from __future__ import annotations

from dataclasses import replace

from supervisor.core.guard_rules import Guards, Nonfinite
from supervisor.core.ladder import Action
from supervisor.core.messages import (
    Answer,
    Exit,
    Lift,
    Say,
    Seal,
    Spawn,
)
from supervisor.core.state import PivotStage, State
from tests.support.history import History, fresh_state, point, running, step_report

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


def suspect(rules: Guards = ALERT) -> History:
    """Clean at 100, bad at 150, and a checkpoint at 180."""
    history = running(100, state_of(rules))
    history.seal(100)
    history.steps(101, 149)
    bad(history, 150)
    history.steps(151, 180)
    history.seal(180)
    return history


def test_a_checkpoint_behind_a_bad_loss_is_sealed_as_suspect_and_not_chosen() -> None:
    history = suspect()
    assert [bool(seal.suspect) for seal in history.all_of(Seal)] == [False, True]
    assert "step 150 is nan" in history.all_of(Seal)[1].suspect
    assert (sealed(history), quarantined(history)) == ([100], [180])
    assert not history.state.attempt or history.state.restarts.best == 100
    history.end(status=1)
    history.wait()
    assert history.all_of(Spawn)[-1].resume == point(100)
    assert quarantined(history) == []  # it is superseded


def test_it_proves_clean_once_the_run_went_on_well_past_it() -> None:
    history = suspect()
    history.steps(181, 229)
    assert history.all_of(Lift) == []
    history.steps(230, 230)
    assert [(lift.step, lift.seal) for lift in history.all_of(Lift)] == [(180, point(180).seal)]
    assert (sealed(history), quarantined(history)) == ([180, 100], [])
    assert history.state.restarts.best == 180


def test_another_bad_loss_begins_the_proof_anew() -> None:
    history = suspect()
    history.steps(181, 220)
    bad(history, 221)
    history.steps(222, 270)
    assert history.all_of(Lift) == []
    history.steps(271, 271)
    assert [lift.step for lift in history.all_of(Lift)] == [180]


def test_a_seal_between_is_put_back_into_its_place() -> None:
    history = suspect()
    history.steps(181, 210)
    history.seal(210)  # the suspicion was over at 200
    assert (sealed(history), quarantined(history)) == ([210, 100], [180])
    history.steps(211, 230)
    assert sealed(history) == [210, 180, 100]


def test_where_all_that_is_left_is_quarantined_the_supervisor_stops_and_says_what_to_do() -> None:
    history = running(20, state_of(ALERT))
    bad(history, 21)
    history.steps(22, 40)
    history.seal(40)
    history.end(status=1)
    history.wait()
    assert history.all_of(Exit) == [Exit(11)]
    assert "stepkeeper unquarantine RUN STEP" in alarms(history)
    assert len(history.all_of(Spawn)) == 1


def test_the_operator_may_vouch_for_it() -> None:
    history = suspect()
    refused = history.ask("unquarantine", step=100)[-1]
    assert isinstance(refused, Answer)
    assert "cannot lift" in refused.fields["error"]
    assert history.ask("unquarantine", step=180)[-1] == Answer(5, {"lifted": 180})
    assert [lift.step for lift in history.all_of(Lift)] == [180]
    history.end(status=1)
    history.wait()
    assert history.all_of(Spawn)[-1].resume == point(180)


def test_with_quarantine_steps_of_0_nothing_is_quarantined() -> None:
    history = suspect(replace(ALERT, quarantine_steps=0))
    assert (sealed(history), quarantined(history)) == ([180, 100], [])


def test_a_pivot_that_would_lose_what_is_quarantined_is_refused_with_what_it_would_cost() -> None:
    history = suspect()
    refused = history.pivot()[-1]
    assert isinstance(refused, Answer)
    step = history.state.attempt.last_step  # type: ignore[union-attr]  # it is running
    assert f"it would go back {step - 100} steps, to step 100" in refused.fields["error"]
    assert history.state.pivot is None


def test_a_pivots_pin_is_the_newest_clean_one() -> None:
    history = suspect()
    history.ask("unquarantine", step=180)
    history.pivot()
    history.steps(181, 279)
    bad(history, 280)
    history.steps(281, 300)
    history.checkpoint(300, "signal", save=history.state.orders.save.serial)  # type: ignore[union-attr]  # ordered by the pivot
    history.verified(300)
    history.sealed(300)
    history.finished("order")
    history.end(status=0)
    assert history.state.pivot is not None
    assert history.state.pivot.stage is PivotStage.STOPPING
    assert history.state.pivot.pin == point(180)
    assert (sealed(history), quarantined(history)) == ([180, 100], [300])
    refused = history.ask("unquarantine", step=300)[-1]
    assert isinstance(refused, Answer)
    assert "goes on from step 180 and leaves it behind" in refused.fields["error"]
