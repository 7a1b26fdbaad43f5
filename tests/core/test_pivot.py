"""Histories of pivots that are asked for: forward only, to the boundary and the pin."""

from __future__ import annotations

from supervisor.core.bandit import fresh
from supervisor.core.messages import (
    AdvancePivot,
    Answer,
    Exit,
    GiveOrders,
    KeepBandit,
    SignalTrainer,
    Spawn,
)
from supervisor.core.state import Life, PivotStage
from tests.support.history import (
    LIVE,
    NEW,
    History,
    fresh_state,
    point,
    running,
    with_seals,
)
from tests.support.pivoting import asked_at, ordered_exit, serial_of, stage_of, stages
from trainer.contract.wire import SaveOrder


def test_asked_at_112619_it_resumes_from_112700_with_an_empty_bandit() -> None:
    history = running(112_619, with_seals(fresh_state(), 112_600))
    answer = next(e for e in history.pivot() if isinstance(e, Answer))
    assert answer.fields == {"policy": 2, "asked_step": 112_619}
    order = history.all_of(GiveOrders)[-1].orders.save
    assert order == SaveOrder(serial_of(history), "cadence", "exit")
    assert [e.name for e in history.all_of(SignalTrainer)] == ["USR1"]
    ordered_exit(history, 112_700)
    pinned = history.all_of(AdvancePivot)[-1]
    assert pinned.stage == "stopped"
    assert pinned.facts["pin"] == point(112_700)
    assert (pinned.facts["asked_step"], pinned.facts["honoured"]) == (112_619, 112_700)
    history.stage("stopped")
    assert stages(history) == ["requested", "stopped", "installed"]
    assert not [s for s in history.all_of(Spawn) if s.attempt > 1]
    history.stage("installed")
    spawn = history.all_of(Spawn)[-1]
    assert (spawn.resume, spawn.policy) == (point(112_700), 2)
    assert spawn.orders.save is None
    before = history.state.seals[0].bandit
    assert history.state.bandit == fresh(NEW, LIVE, 7 + 2, before, 112700)
    assert history.state.policy == NEW
    history.spawned(112_700)
    history.ready()
    assert history.state.orders.save is None
    history.steps(112_701, 112_701)
    done = history.all_of(AdvancePivot)[-1]
    assert (done.stage, done.facts["first_step"]) == ("done", 112_701)
    history.stage("done")
    assert history.state.pivot is None


def test_nothing_begins_before_the_stage_before_it_is_durable() -> None:
    history = running(150, with_seals(fresh_state(), 100))
    history.ask("pivot", policy=NEW, text="...", when="boundary", by="operator")
    assert stage_of(history) is PivotStage.ASKED
    assert not history.all_of(SignalTrainer)
    history.stage("requested")
    assert [e.name for e in history.all_of(SignalTrainer)] == ["USR1"]
    ordered_exit(history, 200)
    assert stage_of(history) is PivotStage.STOPPING
    assert stages(history)[-1] == "stopped"
    history.stage("stopped")
    assert stage_of(history) is PivotStage.STOPPED
    assert history.state.policy.number == 1
    history.stage("installed")
    assert history.state.policy.number == 2


def test_a_pivot_now_saves_at_the_next_step() -> None:
    history = asked_at(150, "now")
    assert history.state.orders.save == SaveOrder(serial_of(history), "step", "exit")
    ordered_exit(history, 151)
    assert history.all_of(AdvancePivot)[-1].facts["pin"] == point(151)


def test_a_pivot_asked_exactly_at_the_boundary_may_take_it() -> None:
    history = running(200, with_seals(fresh_state(), 100))
    history.pivot()
    history.checkpoint(200, "cadence", save=serial_of(history))
    history.finished("order")
    history.end(status=0)
    history.verified(200)
    history.sealed(200)
    assert history.all_of(AdvancePivot)[-1].facts["pin"] == point(200)


def test_a_second_pivot_is_refused_while_one_is_under_way() -> None:
    history = asked_at(150)
    (answer,) = history.ask("pivot", policy=NEW, text="...", when="now", by="operator")
    assert answer == Answer(
        5,
        {
            "error": (
                "cannot pivot: the pivot to policy 2 is under way (requested); "
                "wait until it is done"
            )
        },
    )


def test_a_save_is_refused_while_a_pivot_saves_by_itself() -> None:
    history = asked_at(150)
    (answer,) = history.ask("save")
    assert isinstance(answer, Answer)
    assert "a pivot is under way" in answer.fields["error"]


def test_a_save_in_force_is_answered_by_the_pivots_checkpoint() -> None:
    history = running(150, with_seals(fresh_state(), 100))
    history.ask("save", reply=3)
    history.pivot()
    ordered_exit(history, 200)
    assert history.state.saves == ()


def test_a_pivot_asked_while_starting_is_ordered_when_it_is_ready() -> None:
    history = History(with_seals(fresh_state(), 100))
    history.begin()
    history.spawned()
    history.pivot()
    assert not history.all_of(SignalTrainer)
    history.ready()
    assert history.state.orders.save is not None
    assert history.state.orders.save.then == "exit"
    assert [e.name for e in history.all_of(SignalTrainer)] == ["USR1"]


def test_a_pivot_asked_in_the_back_off_at_a_boundary_goes_on_at_once() -> None:
    history = running(150, with_seals(fresh_state(), 100))
    history.end(status=1)
    assert history.state.life is Life.BACKOFF
    history.pivot("boundary")
    assert history.state.life is Life.IDLE
    assert history.state.deadline is None
    assert history.all_of(AdvancePivot)[-1].facts["pin"] == point(100)


def test_a_pivot_asked_in_the_back_off_off_the_boundary_waits_for_the_next() -> None:
    history = running(170, with_seals(fresh_state(), 150))
    history.end(status=1)
    history.pivot("boundary")
    assert history.state.life is Life.BACKOFF
    history.wait()
    history.spawned()
    history.ready()
    ordered_exit(history, 200)
    assert history.all_of(AdvancePivot)[-1].facts["pin"] == point(200)


def test_a_pivot_of_a_run_without_a_seal_waits_for_its_first() -> None:
    history = running(10)
    history.end(status=1)
    history.pivot("now")
    assert history.state.life is Life.BACKOFF
    history.wait()
    history.spawned()
    history.ready()
    ordered_exit(history, 1)
    assert history.all_of(AdvancePivot)[-1].facts["pin"] == point(1)


def test_a_pivot_asked_while_stopping_is_kept_for_the_next_start() -> None:
    history = running(150, with_seals(fresh_state(), 100))
    history.ask("stop")
    history.pivot()
    assert history.state.orders.save is None
    history.steps(151, 151)
    history.checkpoint(151, "stop")
    history.finished("stop")
    history.end(status=0)
    history.verified(151)
    history.sealed(151)
    assert history.last[-1] == Exit(0)
    assert stages(history) == ["requested"]


def test_a_stop_during_a_pivot_at_rest_first_finishes_moving_its_files() -> None:
    history = asked_at(150)
    ordered_exit(history, 200)
    history.ask("stop")
    assert not history.all_of(Exit)
    history.stage("stopped")
    assert not history.all_of(Exit)
    history.stage("installed")
    assert history.last[-1] == Exit(0)
    assert history.state.policy.number == 2
    before = history.state.seals[0].bandit
    assert history.all_of(KeepBandit)[-1].bandit == fresh(NEW, LIVE, 7 + 2, before, 200)
    assert len(history.all_of(Spawn)) == 1


def test_a_new_policy_numbers_its_phases_on_so_that_none_is_taken_for_an_old_one() -> None:
    history = asked_at(150)
    ordered_exit(history, 200)
    history.stage("stopped")
    history.stage("installed")
    old = history.state.seals[0].bandit
    assert old is not None
    first, second = history.all_of(Spawn)[-1].orders.phases
    assert (first.phase, second.phase) == (old.decided + 1, old.decided + 2)
