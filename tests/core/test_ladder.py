"""The ladder of actions: each rung does what it says, and a replay tells nothing twice."""

from __future__ import annotations

from dataclasses import replace

import pytest

from supervisor.core.beginning import Found
from supervisor.core.ladder import Action, act
from supervisor.core.messages import (
    Effect,
    Exit,
    GiveOrders,
    Journal,
    KeepIntent,
    Say,
    SignalTrainer,
)
from supervisor.core.state import Life, Want
from tests.support.history import NOTHING, History, fresh_state, running


def find(history: History, action: Action, **facts: object) -> list[Effect]:
    """The guard called "spike" finds something now."""
    history.state, effects = act(
        history.state, "spike", action, "loss 9.0 is odd", facts, history.now
    )
    history.turns.append((None, effects, history.state))
    return effects


def alarms(effects: list[Effect]) -> list[str]:
    return [effect.text for effect in effects if isinstance(effect, Say) and effect.alarm]


def test_record_is_a_line_in_the_journal_and_nothing_else() -> None:
    history = running(50)
    effects = find(history, Action.RECORD, loss=9.0)
    facts = {"guard": "spike", "action": "record", "step": 50, "loss": 9.0}
    assert effects == [Journal("guard", facts)]


@pytest.mark.parametrize("action", [action for action in Action if action is not Action.RECORD])
def test_every_other_rung_says_an_alarm_and_journals(action: Action) -> None:
    history = running(50)
    effects = find(history, action, step=49)
    (alarm,) = alarms(effects)
    assert alarm.startswith("loss 9.0 is odd")
    (facts,) = history.journal("guard")
    # With no seal to go back to, the rung after it is taken.
    taken = Action.STOP if action is Action.ROLL_BACK else action
    assert (facts["guard"], facts["action"], facts["step"]) == ("spike", str(taken), 49)


def test_checkpoint_orders_a_save() -> None:
    history = running(50)
    find(history, Action.ALERT)
    assert not history.all_of(GiveOrders)
    find(history, Action.CHECKPOINT)
    assert history.all_of(GiveOrders)[-1].orders.save is not None
    assert [sent.name for sent in history.all_of(SignalTrainer)] == ["USR1"]


def test_freeze_saves_and_makes_the_mix_static_until_the_next_pivot() -> None:
    history = running(50)
    find(history, Action.FREEZE)
    assert "spike of step 50" in history.state.bandit.frozen
    assert history.all_of(GiveOrders)[-1].orders.save is not None
    again = History()
    again.begin()
    again.spawned(ledger_step=80)
    again.ready()
    again.steps(1, 50)
    assert find(again, Action.FREEZE) == []  # it was told of, and is frozen all the same
    assert again.state.bandit.frozen == history.state.bandit.frozen


def test_stop_ends_with_a_sealed_checkpoint_and_an_exit_code_of_its_own() -> None:
    history = running(150)
    find(history, Action.STOP)
    assert history.state.life is Life.STOPPING
    history.checkpoint(150, "stop")
    history.finished("stop")
    history.end(status=0)
    history.verified(150)
    history.sealed(150)
    assert history.all_of(Exit) == [Exit(12)]
    intents = [(kept.want, kept.by, kept.done) for kept in history.all_of(KeepIntent)]
    assert intents == [("stop", "guard spike", False), ("stop", "", True)]


def test_a_guard_that_stops_a_run_that_is_being_stopped_leaves_the_stop_the_operators() -> None:
    history = running(150)
    history.ask("stop", by="operator")
    find(history, Action.STOP)
    history.finished("stop")
    history.end(status=0)
    assert history.all_of(Exit) == [Exit(0)]


def test_the_next_life_finishes_a_guards_stop_with_its_exit_code() -> None:
    history = History(replace(fresh_state(), halted="spike"))
    history.begin(Found(attempt=None, pivot=None, stop_unfinished=True))
    assert history.state.want is Want.STOP
    assert history.all_of(Exit) == [Exit(12)]
    operators = History()
    operators.begin(replace(NOTHING, stop_unfinished=True))
    assert operators.all_of(Exit) == [Exit(0)]


@pytest.mark.parametrize("action", list(Action))
def test_of_a_step_that_is_run_again_only_what_ends_the_attempt_is_done_again(
    action: Action,
) -> None:
    history = History()
    history.begin()
    history.spawned(ledger_step=80)  # an earlier attempt did that many
    history.ready()
    history.steps(1, 50)
    again = action in (Action.ROLL_BACK, Action.STOP)
    assert bool(find(history, action)) is again
    if not again:
        history.recorded(50, differed=40, difference="loss")  # it is another history from here on
        assert find(history, action)
