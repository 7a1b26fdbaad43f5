"""Histories of supervisors that find a pivot under way: they finish it, from its pin."""

from __future__ import annotations

from dataclasses import replace

import pytest

from supervisor.core.bandit import fresh
from supervisor.core.beginning import Found
from supervisor.core.messages import (
    AdvancePivot,
    Exit,
    Say,
    SignalTrainer,
    Spawn,
)
from supervisor.core.state import Pivot, PivotStage, SealPoint, State
from tests.support.history import (
    LIVE,
    NEW,
    NOTHING,
    History,
    fresh_state,
    point,
    with_seals,
)
from tests.support.pivoting import asked_at, ordered_exit, serial_of, stages


def found(stage: PivotStage, pin: int | None = None, **facts: object) -> Found:
    """A pivot that an earlier supervisor left at this stage."""
    pivot = Pivot(stage, NEW, 150, "boundary", "operator", pin=point(pin) if pin else None)
    return replace(NOTHING, pivot=replace(pivot, **facts))  # type: ignore[arg-type]  # by name


def at_rest(*seals: int) -> State:
    return with_seals(fresh_state(), *seals)


def test_begin_with_a_request_and_its_boundary_sealed_makes_the_pin() -> None:
    history = History(at_rest(200, 100))
    history.begin(found(PivotStage.REQUESTED))
    (pin,) = history.all_of(AdvancePivot)
    assert (pin.stage, pin.facts["pin"]) == ("stopped", point(200))
    assert not history.all_of(Spawn)


def test_begin_with_a_request_and_no_boundary_yet_starts_the_trainer_for_it() -> None:
    history = History(at_rest(100))
    history.begin(found(PivotStage.REQUESTED))
    assert history.all_of(Spawn)[-1].resume == point(100)
    history.spawned()
    history.ready()
    ordered_exit(history, 200)
    assert history.all_of(AdvancePivot)[-1].facts["pin"] == point(200)


def test_begin_after_the_stop_installs() -> None:
    history = History(at_rest(200, 100))
    history.begin(found(PivotStage.STOPPED, 200))
    assert stages(history) == ["installed"]
    history.stage("installed")
    spawn = history.all_of(Spawn)[-1]
    assert (spawn.resume, spawn.policy) == (point(200), 2)


def test_begin_after_the_installation_resumes_from_the_pin_with_an_empty_bandit() -> None:
    state = replace(at_rest(200, 100), policy=NEW, bandit=fresh(NEW, LIVE, 9))
    history = History(state)
    history.begin(found(PivotStage.INSTALLED, 200))
    spawn = history.all_of(Spawn)[-1]
    assert (spawn.resume, spawn.policy) == (point(200), 2)
    assert sum(arm.served for arm in history.state.bandit.arms) == 0
    history.spawned(230)
    history.ready()
    history.steps(201, 201)
    assert stages(history) == ["done"]


def test_begin_with_an_adopted_trainer_of_the_new_policy_finishes_the_pivot() -> None:
    state = replace(at_rest(200, 100), policy=NEW, bandit=fresh(NEW, LIVE, 9), last_attempt=2)
    before = History(state)
    before.begin(found(PivotStage.INSTALLED, 200))
    attempt = before.state.attempt
    history = History(replace(state, last_attempt=3))
    history.begin(replace(found(PivotStage.INSTALLED, 200), attempt=attempt))
    assert not history.all_of(Spawn)
    history.ready()
    history.steps(201, 210)
    assert stages(history) == ["done"]


def test_begin_with_an_adopted_trainer_orders_the_exit_again() -> None:
    history = asked_at(150)
    attempt = history.state.attempt
    other = History(replace(at_rest(100), last_attempt=1, orders=history.state.orders))
    left = found(PivotStage.REQUESTED, serial=serial_of(history))
    other.begin(replace(left, attempt=attempt))
    assert [e.name for e in other.all_of(SignalTrainer)] == ["USR1"]
    assert other.state.orders.save == history.state.orders.save


@pytest.mark.parametrize("stage", [PivotStage.STOPPED, PivotStage.INSTALLED])
def test_a_pin_that_is_gone_is_refused(stage: PivotStage) -> None:
    state = at_rest(100)
    if stage is PivotStage.INSTALLED:
        state = replace(state, policy=NEW, bandit=fresh(NEW, LIVE, 9))
    history = History(state)
    history.begin(found(stage, 200))
    assert history.last[-1] == Exit(11)
    assert not history.all_of(Spawn)
    assert any("the checkpoint of step 200" in e.text for e in history.all_of(Say) if e.alarm)


def test_a_pivot_not_yet_certified_resumes_from_what_the_new_policy_sealed() -> None:
    state = at_rest(300, 200)
    seals = (replace(state.seals[0], policy=2, bandit=fresh(NEW, LIVE, 9)), state.seals[1])
    history = History(replace(state, policy=NEW, seals=seals))
    history.begin(found(PivotStage.INSTALLED, 200))
    assert history.all_of(Spawn)[-1].resume == point(300)


def test_a_seal_of_the_old_policy_gives_the_new_one_weights_only() -> None:
    state = at_rest(200)
    used = replace(state.bandit, arms=tuple(replace(a, served=9) for a in state.bandit.arms))
    seals = (SealPoint(point(200), 1, used),)
    history = History(replace(state, policy=NEW, seals=seals))
    history.begin(found(PivotStage.INSTALLED, 200))
    assert history.state.bandit == fresh(NEW, LIVE, 9, used, 200)
