"""Histories of a supervisor's first turn: adopt, finish what was begun, or start."""

from __future__ import annotations

from dataclasses import replace

import pytest

from supervisor.core.bandit import ArmState, Retired
from supervisor.core.messages import (
    Exit,
    GiveOrders,
    KeepBandit,
    KeepIntent,
    ReportsPosition,
    Say,
    SignalTrainer,
    Spawn,
)
from supervisor.core.state import Attempt, Life, Pivot, PivotStage, State, Want
from tests.support.history import (
    NEW,
    NOTHING,
    History,
    fresh_state,
    point,
    with_seals,
)
from trainer.contract.wire import Orders, SaveOrder


def unfinished(resumed: int, last: int | None = None) -> Attempt:
    """An attempt whose end is not recorded; sealed up to ``last`` where that is given."""
    own = last is not None
    step = last if last is not None else resumed
    return Attempt(
        number=4,
        policy=1,
        resume=point(resumed) if resumed else None,
        position=ReportsPosition(4, 900 if own else 0, 90_000 if own else 0),
        last_step=step,
        started=900.0,
        replay_until=resumed,
        began=step,
        pid=4242,
        ready=own,
        sealed=own,
    )


def before(*seals: int) -> State:
    orders = Orders(40, (), None, None)
    return replace(with_seals(fresh_state(), *seals), last_attempt=4, orders=orders)


def test_a_trainer_that_lives_is_adopted_and_not_started_again() -> None:
    history = History(before(300, 200))
    history.begin(replace(NOTHING, attempt=unfinished(200, 300)))
    assert history.state.life is Life.RUNNING
    assert not history.all_of(Spawn)
    assert not history.all_of(SignalTrainer)
    history.seq = 900
    history.steps(301, 400)
    history.seal(400)
    assert history.state.seals[0].point == point(400)


def test_an_adoption_writes_orders_and_bandit_state_again() -> None:
    history = History(before(300))
    history.begin(replace(NOTHING, attempt=unfinished(200, 300)))
    (orders,) = history.all_of(GiveOrders)
    assert orders.orders.serial == 41
    assert orders.orders.phases == history.state.bandit.phases
    assert [kept.bandit for kept in history.all_of(KeepBandit)] == [history.state.bandit]


def test_an_adopted_trainer_that_was_not_ready_yet_is_asked_to_stop_not_killed() -> None:
    history = History(before(200))
    history.begin(replace(NOTHING, attempt=unfinished(200)))
    history.ask("stop")
    assert [signal.name for signal in history.all_of(SignalTrainer)] == ["TERM", "CONT"]


def test_a_dead_trainers_reports_are_read_before_the_next_one_starts() -> None:
    history = History(before(200))
    history.begin(replace(NOTHING, attempt=unfinished(200)))
    history.ready(200)
    history.steps(201, 250)
    assert not history.all_of(Spawn)
    history.end(status=None)
    history.wait()
    spawn = history.all_of(Spawn)[-1]
    assert (spawn.attempt, spawn.resume) == (5, point(200))
    assert spawn.orders.serial > 40


def test_an_unfinished_stop_of_an_adopted_trainer_is_finished_first() -> None:
    history = History(before(300))
    found = replace(NOTHING, attempt=unfinished(200, 300), stop_unfinished=True)
    history.begin(found)
    assert history.state.want is Want.STOP
    assert history.state.life is Life.STOPPING
    assert history.state.deadline is not None
    assert [signal.name for signal in history.all_of(SignalTrainer)] == ["TERM", "CONT"]
    history.end(status=None)
    assert history.last[-1] == Exit(0)
    assert history.all_of(KeepIntent)[-1].done
    assert not history.all_of(Spawn)


def test_an_unfinished_stop_with_no_trainer_left_is_finished_at_once() -> None:
    history = History(before(300))
    effects = history.begin(replace(NOTHING, stop_unfinished=True))
    assert effects[-1] == Exit(0)
    assert history.all_of(KeepIntent)[-1].done
    assert not history.all_of(Spawn)


@pytest.mark.parametrize("stage", [PivotStage.STOPPED, PivotStage.INSTALLED])
def test_an_unfinished_stop_leaves_a_pivot_where_it_is(stage: PivotStage) -> None:
    history = History(before(300))
    pivot = Pivot(stage, NEW, 250, "boundary", "operator", pin=point(300))
    effects = history.begin(replace(NOTHING, pivot=pivot, stop_unfinished=True))
    assert effects[-1] == Exit(0)
    assert len([effect for effect in effects if isinstance(effect, Exit)]) == 1


def test_a_save_that_an_earlier_supervisor_ordered_is_still_answered() -> None:
    state = replace(before(300), orders=Orders(40, (), SaveOrder(40, "step", "go"), None))
    history = History(state)
    history.begin(replace(NOTHING, attempt=unfinished(200, 300)))
    history.seq = 900
    history.steps(301, 301)
    history.checkpoint(301, "signal", save=40)
    assert history.all_of(GiveOrders)[-1].orders.save is None


def test_retired_arms_are_named() -> None:
    retired = (Retired(ArmState("repo-docstrings", served=1546), "zombie", 300),)
    history = History(before(300))
    history.begin(replace(NOTHING, retired=retired))
    (told,) = history.journal("arm-retired")
    assert told == {
        "arm": "repo-docstrings",
        "why": "zombie",
        "step": 300,
        "served": 1546,
        "floor": 0.0,
        "share": 0.0,
        "to": {},
    }
    assert any("repo-docstrings retired: zombie" in e.text for e in history.all_of(Say) if e.alarm)
