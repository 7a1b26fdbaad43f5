"""Histories of pivots in trouble: trainers that disobey, crashes, failures, second thoughts."""

from __future__ import annotations

import pytest

from supervisor.core.messages import (
    AdvancePivot,
    Answer,
    Exit,
    GiveOrders,
    Recorded,
    SignalTrainer,
    Spawn,
    SpawnFailed,
)
from supervisor.core.state import Life, PivotStage
from tests.support.history import (
    NEW,
    fresh_state,
    point,
    running,
    with_seals,
)
from tests.support.pivoting import asked_at, ordered_exit, serial_of, stage_of, stages


def test_a_trainer_that_ignores_the_exit_is_stopped_and_its_last_checkpoint_counts() -> None:
    history = asked_at(150)
    history.steps(151, 200)
    history.checkpoint(200, "cadence", save=serial_of(history))
    history.steps(201, 203)
    assert [e.name for e in history.all_of(SignalTrainer)][-2:] == ["TERM", "CONT"]
    assert history.state.life is Life.STOPPING
    assert history.state.deadline is not None
    history.steps(204, 204)
    history.checkpoint(204, "stop")
    history.finished("stop")
    history.end(status=0)
    history.verified(200)
    history.sealed(200)
    history.verified(204)
    history.sealed(204)
    facts = history.all_of(AdvancePivot)[-1].facts
    assert (facts["honoured"], facts["pin"]) == (200, point(204))


def test_a_trainer_that_knows_no_orders_answers_by_the_signal() -> None:
    history = asked_at(150)
    history.steps(151, 151)
    history.checkpoint(151, "signal")
    assert history.state.life is Life.RUNNING
    history.steps(152, 152)
    assert [e.name for e in history.all_of(SignalTrainer)][-2:] == ["TERM", "CONT"]


def test_a_boundary_that_may_have_come_before_the_order_is_not_the_answer() -> None:
    history = asked_at(150)
    history.steps(151, 200)
    history.seal(200)
    history.steps(201, 299)
    assert history.state.life is Life.RUNNING
    ordered_exit(history, 300)
    assert history.all_of(AdvancePivot)[-1].facts["pin"] == point(300)


def test_a_trainer_that_answers_neither_order_nor_signal_is_stopped_a_cadence_later() -> None:
    history = asked_at(150)
    history.steps(151, 200)
    history.checkpoint(200)
    history.steps(201, 300)
    history.checkpoint(300)
    history.steps(301, 301)
    assert history.state.life is Life.STOPPING


def test_a_crash_before_the_boundary_goes_on_to_it() -> None:
    history = asked_at(150)
    history.steps(151, 180)
    history.end()
    assert stage_of(history) is PivotStage.REQUESTED
    history.wait()
    history.spawned(180)
    history.ready()
    assert history.state.orders.save is not None
    ordered_exit(history, 200)
    assert stages(history)[-1] == "stopped"


def test_a_crash_right_after_the_ordered_checkpoint_needs_no_other_attempt() -> None:
    history = asked_at(150)
    history.steps(151, 200)
    history.checkpoint(200, "cadence", save=serial_of(history))
    history.end(status=-9)
    history.verified(200)
    history.sealed(200)
    assert history.all_of(AdvancePivot)[-1].facts["pin"] == point(200)
    assert len(history.all_of(Spawn)) == 1


def test_an_ordered_checkpoint_that_is_refused_is_made_again() -> None:
    history = asked_at(150)
    history.steps(151, 200)
    history.checkpoint(200, "cadence", save=serial_of(history))
    first = serial_of(history)
    history.finished("order")
    history.end(status=0)
    history.verified(200, "cannot use step_000200.bin: size")
    assert stage_of(history) is PivotStage.REQUESTED
    history.wait()
    history.spawned(200)
    history.ready()
    assert serial_of(history) > first
    ordered_exit(history, 200)
    assert history.all_of(AdvancePivot)[-1].facts["pin"] == point(200)


def test_a_pivot_whose_request_cannot_be_kept_is_answered_so() -> None:
    history = running(150, with_seals(fresh_state(), 100))
    history.ask("pivot", policy=NEW, text="...", when="now", by="operator")
    history.fails("requested")
    assert history.state.pivot is None
    assert history.all_of(Answer)[-1].fields["error"].startswith("cannot requested")
    assert history.state.life is Life.RUNNING


@pytest.mark.parametrize("stage", ["stopped", "installed"])
def test_a_stage_that_cannot_be_made_durable_leaves_it_to_the_next_supervisor(stage: str) -> None:
    history = asked_at(150)
    ordered_exit(history, 200)
    if stage == "installed":
        history.stage("stopped")
    history.fails(stage)
    assert history.last[-1] == Exit(1)
    assert history.state.policy.number == 1


def test_a_last_stage_that_cannot_be_made_durable_is_tried_again() -> None:
    history = asked_at(150)
    ordered_exit(history, 200)
    history.stage("stopped")
    history.stage("installed")
    history.spawned(200)
    history.ready()
    history.steps(201, 201)
    history.fails("done")
    assert stage_of(history) is PivotStage.INSTALLED
    answer = history.ask("save")[-1]
    assert isinstance(answer, Answer)
    assert "serial" in answer.fields
    history.steps(202, 202)
    assert stages(history)[-2:] == ["done", "done"]
    history.stage("done")
    assert history.state.pivot is None


def test_a_cancel_before_the_request_is_durable_answers_both() -> None:
    history = running(150, with_seals(fresh_state(), 100))
    history.ask("pivot", reply=4, policy=NEW, text="...", when="now", by="operator")
    history.ask("cancel-pivot", reply=6)
    answers = {answer.reply: answer.fields for answer in history.all_of(Answer)}
    assert "cancelled" in answers[4]["error"]
    assert answers[6] == {"cancelled": 2}
    assert stages(history) == ["requested", "cancelled"]
    assert history.stage("requested") == []
    assert history.stage("cancelled") == []
    assert not history.all_of(SignalTrainer)


def test_a_cancelled_request_takes_its_order_back() -> None:
    history = asked_at(150)
    history.ask("cancel-pivot")
    orders = history.all_of(GiveOrders)[-1].orders
    assert orders.save is None
    assert history.state.pivot is None
    history.steps(151, 200)
    history.seal(200)
    history.steps(201, 250)
    assert history.state.life is Life.RUNNING


def test_a_save_asked_for_before_a_pivot_is_still_due_when_that_is_cancelled() -> None:
    history = running(50)
    history.ask("save", pin=False, note="")
    asked = history.state.orders.save
    history.pivot()
    assert history.state.orders.save != asked
    history.ask("cancel-pivot", reply=6)
    assert history.state.orders.save == asked
    assert history.all_of(GiveOrders)[-1].orders == history.state.orders
    assert asked is not None
    history.seal(50, "signal", asked.serial)
    assert history.state.saves == ()


def test_a_trainer_that_leaves_on_a_cancelled_order_is_started_again_under_the_old_policy() -> None:
    history = asked_at(150)
    history.steps(151, 200)
    history.checkpoint(200, "cadence", save=serial_of(history))
    history.ask("cancel-pivot")
    history.finished("order")
    history.end(status=0)
    history.verified(200)
    history.sealed(200)
    spawn = history.all_of(Spawn)[-1]
    assert (spawn.resume, spawn.policy) == (point(200), 1)


@pytest.mark.parametrize("stage", ["stopping", "stopped", "installed", "finishing"])
def test_a_pivot_that_has_stopped_the_trainer_cannot_be_cancelled(stage: str) -> None:
    history = asked_at(150)
    ordered_exit(history, 200)
    for name in ("stopped", "installed"):
        if stage != "stopping" and (stage != "stopped" or name == "stopped"):
            history.stage(name)
    if stage == "finishing":
        history.spawned(200)
        history.ready()
        history.steps(201, 201)
    assert stage_of(history) == stage
    (answer,) = history.ask("cancel-pivot")
    text = f"cannot cancel the pivot to policy 2: it is {stage}"
    assert answer == Answer(5, {"error": text})
    assert stage_of(history) == stage


def test_there_is_nothing_to_cancel_without_a_pivot() -> None:
    history = running(150)
    (answer,) = history.ask("cancel-pivot")
    assert answer == Answer(5, {"error": "cannot cancel: no pivot is under way"})


@pytest.mark.parametrize("durable", [False, True])
def test_a_run_that_finishes_first_drops_the_pivot(
    durable: bool,  # noqa: FBT001 - a parameter
) -> None:
    history = running(150, with_seals(fresh_state(), 100))
    history.ask("pivot", policy=NEW, text="...", when="boundary", by="operator")
    if durable:
        history.stage("requested")
    history.steps(151, 180)
    history.checkpoint(180, "stop")
    history.finished("steps")
    history.end(status=0)
    history.verified(180)
    history.sealed(180)
    assert stages(history)[-1] == "cancelled"
    assert history.last[-1] == Exit(0)
    assert history.state.pivot is None


def test_a_failed_start_of_the_new_policy_tries_the_pin_again() -> None:
    history = asked_at(150)
    ordered_exit(history, 200)
    history.stage("stopped")
    history.stage("installed")
    for _ in range(5):
        history.tell(SpawnFailed(history.attempt, "cannot start"))
        history.wait()
    assert {spawn.resume for spawn in history.all_of(Spawn)[1:]} == {point(200)}
    assert stage_of(history) is PivotStage.INSTALLED


def test_lines_up_to_the_pin_do_not_finish_a_pivot() -> None:
    history = asked_at(150)
    ordered_exit(history, 200)
    history.stage("stopped")
    history.stage("installed")
    history.spawned(200)
    history.tell(Recorded(history.attempt, history.position(200), 0, 0, None, ""))
    assert "done" not in stages(history)
