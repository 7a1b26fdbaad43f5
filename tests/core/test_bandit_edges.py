"""The bandit at its edges: arms read enough and yet needed, departures amid a warm-up, extremes."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from supervisor.core.bandit import READ_ENOUGH, BanditState, finish_phase, fresh, reconcile
from supervisor.core.messages import Journal
from supervisor.core.policy import Algorithm, Arm, Distance, Policy, Unit
from tests.support.history import History, fresh_state, running
from trainer.contract.wire import ArmResult, Phase

CAPPED = tuple(Arm(name, 0.0, 0.5) for name in ("chat", "code", "prose"))
ONCE = Policy(1, "d", Algorithm.UCB1, Unit.SHARE, CAPPED, phase_max=7, max_epochs=1.0)
LIVE = frozenset(arm.name for arm in CAPPED)


def told(state: BanditState, epochs: dict[str, float]) -> Phase:
    order = state.phases[0]
    results = tuple(
        ArmResult(name, 2, 0, 3.0, epochs.get(name)) for name, weight in order.weights if weight
    )
    last = state.step + order.steps
    return Phase(
        1,
        1.0,
        order.phase,
        state.step + 1,
        last,
        repeated=False,
        weights=order.weights,
        arms=results,
    )


def drawn(state: BanditState) -> list[set[str]]:
    return [{name for name, weight in order.weights if weight > 0} for order in state.phases]


def test_an_arm_that_was_read_enough_is_drawn_again_where_the_others_cannot_do_without() -> None:
    state = fresh(ONCE, LIVE, 5)
    state = finish_phase(state, ONCE, told(state, {"chat": 1.2}))
    assert [arm.name for arm in state.arms] == ["code", "prose"]
    state, gone = reconcile(state, ONCE, LIVE - {"code"}, 10)
    assert [one.arm.name for one in gone] == ["code"]
    assert {arm.name: arm.epochs for arm in state.arms} == {"prose": None, "chat": 1.2}
    assert [sum(share for _, share in order.weights) for order in state.phases] == [1.0, 1.0]
    state, _ = reconcile(state, ONCE, LIVE, 20)
    state = finish_phase(state, ONCE, told(state, {"chat": 1.3}))
    assert "chat" not in {arm.name for arm in state.arms}, "it leaves as soon as it can"
    retired = [(one.arm.name, one.why) for one in state.retired]
    assert sorted(retired) == [("chat", READ_ENOUGH), ("code", "unavailable")]


def test_an_arm_that_is_read_enough_for_the_second_time_is_told_of_again() -> None:
    history = running(0, replace(fresh_state(), policy=ONCE, bandit=fresh(ONCE, LIVE, 5)))

    def over(history: History, epochs: float) -> None:
        phase = told(history.state.bandit, {"chat": epochs})
        history.steps(phase.first, phase.last)
        history.report(phase)

    over(history, 1.2)
    for live in (LIVE - {"code"}, LIVE):
        bandit, _ = reconcile(history.state.bandit, ONCE, live, history.state.bandit.step)
        history.state = replace(history.state, bandit=bandit)
    over(history, 1.3)
    left = [e.facts for e in history.all_of(Journal) if e.event == "arm-retired"]
    assert [(facts["arm"], facts["why"]) for facts in left] == [("chat", READ_ENOUGH)] * 2


def test_who_waits_for_the_end_of_the_warm_up_gets_nothing_of_what_leaves_amid_it() -> None:
    arms = tuple(Arm(name, 0.1, 1.0) for name in ("a", "b", "c"))
    rules = Policy(
        1,
        "d",
        Algorithm.UCB1,
        Unit.SHARE,
        arms,
        curriculum_warmup_steps=1000,
        curriculum_warmup_sources=("a", "b"),
    )
    state = fresh(rules, frozenset("abc"), 5)
    assert drawn(state) == [{"a", "b"}, {"a", "b"}]
    state, _ = reconcile(state, rules, frozenset("ac"), 0)
    assert drawn(state) == [{"a"}, {"a"}]
    state, _ = reconcile(state, rules, frozenset("abc"), 0)
    assert drawn(state) == [{"a", "b"}, {"a", "b"}]


def test_a_phase_behind_the_warm_up_keeps_its_floors_when_an_arm_leaves() -> None:
    arms = tuple(Arm(name, 0.1, 1.0) for name in ("a", "b", "c"))
    warm = {"curriculum_warmup_steps": 3, "curriculum_warmup_sources": ("a", "b")}
    rules = replace(Policy(1, "d", Algorithm.UCB1, Unit.SHARE, arms), **warm)  # type: ignore[arg-type]  # by name
    state, _ = reconcile(fresh(rules, frozenset("abc"), 5), rules, frozenset("ac"), 0)
    assert drawn(state) == [{"a"}, {"a", "c"}]


def test_an_arm_read_far_too_often_is_the_worst_though_it_was_never_pulled() -> None:
    arms = tuple(Arm(name, 0.0, 0.9) for name in ("a", "b", "c"))
    rules = Policy(1, "d", Algorithm.DUCB, Unit.SHARE, arms, epoch_decay=0.001)
    state = fresh(rules, frozenset("abc"), 5)
    state = replace(state, arms=tuple(replace(a, epochs=9.0 * (a.name == "a")) for a in state.arms))
    state = finish_phase(state, rules, told(state, {"a": 9.0}))
    assert dict(state.phases[-1].weights)["a"] == 0.0


@pytest.mark.parametrize("unit", list(Unit))
@pytest.mark.parametrize("distance", list(Distance))
@pytest.mark.parametrize("algorithm", list(Algorithm))
def test_the_largest_numbers_that_a_policy_may_hold_give_shares(
    algorithm: Algorithm, distance: Distance, unit: Unit
) -> None:
    cap = 1.0 if unit is Unit.SHARE else 1.7e308
    arms = tuple(Arm(name, 0.0, cap, weight=1.7e308) for name in ("a", "b", "c"))
    most = {"focus_weight": 1.7e308, "other_weight": 1.7e308, "exploration": 1.7e308}
    rules = replace(Policy(1, "d", algorithm, unit, arms, projection=distance), **most)  # type: ignore[arg-type]  # by name
    state = fresh(rules, frozenset("abc"), 5)
    for _ in range(3):
        state = finish_phase(state, rules, told(state, {}))
    for order in state.phases:
        assert math.fsum(share for _, share in order.weights) == pytest.approx(1.0, abs=1e-12)
