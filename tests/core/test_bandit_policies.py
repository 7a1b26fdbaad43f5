"""The five policies, and what every decision does in order: mask, penalty, bounds, phase length."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from supervisor.core.bandit import (
    READ_ENOUGH,
    BanditState,
    count_steps,
    decide_phase,
    finish_phase,
    freeze,
    fresh,
    reconcile,
)
from supervisor.core.policy import Algorithm, Arm, Distance, Policy, Reward, Unit
from supervisor.core.propensities import propensity, with_propensities
from tests.support.ucb1 import LIVE, NAMES
from trainer.contract.wire import ArmResult, Phase, PhaseOrder, Step

ADAPTIVE = tuple(Algorithm)[1:]
WIDE = tuple(Arm(name, 0.01, 0.5) for name in NAMES)


def policy(algorithm: Algorithm, **values: object) -> Policy:
    return replace(Policy(1, "d", algorithm, Unit.SHARE, WIDE, exploration=0.5), **values)  # type: ignore[arg-type]  # by name


def trained(
    rules: Policy, gains: dict[str, float], phases: int = 120, epochs: float | None = None
) -> BanditState:
    """A state after phases in which each arm's loss fell by its gain a pull, and nothing else."""
    state = fresh(rules, LIVE, 5)
    losses = dict.fromkeys(NAMES, 100.0)
    for _ in range(phases):
        order = state.phases[0]
        results = []
        for name, share in order.weights:
            pulls = round(share * order.steps)
            losses[name] -= gains.get(name, 0.0) * pulls
            results += [ArmResult(name, pulls, 0, losses[name], epochs)] if pulls else []
        last = state.step + order.steps
        first = state.step + 1
        told = (1, 1.0, order.phase, first, last, False, order.weights, tuple(results))
        state = finish_phase(state, rules, Phase(*told))
    return state


def share_of(state: BanditState, name: str) -> float:
    return sum(dict(order.weights).get(name, 0.0) for order in state.phases) / len(state.phases)


@pytest.mark.parametrize("algorithm", [a for a in ADAPTIVE if a is not Algorithm.UCB1])
def test_the_arm_that_earns_gets_what_the_bounds_leave(algorithm: Algorithm) -> None:
    state = trained(policy(algorithm), {"arm07": 0.05})
    assert share_of(state, "arm07") > 0.4
    assert share_of(state, "arm07") <= 0.5


@pytest.mark.parametrize("algorithm", ADAPTIVE)
def test_no_arm_that_earns_is_told_from_the_others_without_a_reward(algorithm: Algorithm) -> None:
    """The control: where no arm earns, none of them is preferred for long."""
    state = trained(policy(algorithm), {}, phases=40)
    served = [dict(order.weights) for order in state.phases]
    assert max(max(weights.values()) for weights in served) <= 0.5
    assert all(weights[name] >= 0.01 for weights in served for name in NAMES)


def test_the_projection_is_the_one_that_is_set() -> None:
    """Proportions stay in KL, differences in distance: a floor is paid for differently."""
    arms = (Arm("a", 0.25, weight=1.0), Arm("b", weight=3.0), Arm("c", weight=6.0))
    shares = {}
    for distance in Distance:
        rules = Policy(1, "d", Algorithm.STATIC, Unit.SHARE, arms, projection=distance)
        order = fresh(rules, frozenset("abc"), 1).phases[0]
        shares[distance] = [round(share, 12) for _, share in order.weights]
    assert shares[Distance.KL] == [0.25, 0.25, 0.5]
    assert shares[Distance.EUCLIDEAN] == [0.25, 0.225, 0.525]


@pytest.mark.parametrize("algorithm", ADAPTIVE)
def test_the_same_reports_give_the_same_decisions(algorithm: Algorithm) -> None:
    gains = {"arm03": 0.02, "arm04": 0.01}
    assert trained(policy(algorithm), gains, 30) == trained(policy(algorithm), gains, 30)


@pytest.mark.parametrize("algorithm", [Algorithm.DUCB, Algorithm.THOMPSON, Algorithm.EXP3S])
def test_what_has_stopped_earning_is_left(algorithm: Algorithm) -> None:
    rules = policy(algorithm, discount=0.99)
    state = trained(rules, {"arm07": 0.05}, 80)
    shares = {"arm02": 0.0, "arm07": 0.0}
    for number in range(80):
        order = state.phases[0]
        results = tuple(
            ArmResult(arm.name, 5, 0, (arm.loss or 100.0) - (0.2 if arm.name == "arm02" else 0.0))
            for arm in state.arms
        )
        first = state.step + 1
        told = (1, 1.0, order.phase, first, first + number % 20 + 20, False, order.weights, results)
        state = finish_phase(state, rules, Phase(*told))
        if number >= 50:
            shares = {name: shares[name] + dict(order.weights)[name] / 30 for name in shares}
    assert shares["arm07"] < shares["arm02"]
    assert shares["arm02"] > 0.25


def test_the_rewards_rank_sources_as_they_are_named() -> None:
    """High loss is good, a falling loss is good, a loss above target is good: three orders."""
    arms = (Arm("falls", target=1.0), Arm("stays", target=6.0), Arm("low", target=0.0))
    losses = {"falls": [5.0, 3.0], "stays": [6.0, 6.0], "low": [0.5, 0.5]}
    best = {Reward.PROGRESS: "falls", Reward.LOSS: "stays", Reward.EXCESS: "falls"}
    for reward, name in best.items():
        rules = Policy(1, "d", Algorithm.DUCB, Unit.SHARE, arms, reward=reward)
        state = fresh(rules, frozenset(losses), 1)
        for number in range(2):
            results = tuple(ArmResult(n, 5, 0, values[number]) for n, values in losses.items())
            told = (1, 1.0, number + 1, 1, 20, False, (), results)
            state = finish_phase(state, rules, Phase(*told))
        ranked = {arm.name: arm.ema for arm in state.arms}
        assert max(ranked, key=lambda n: ranked[n]) == name, reward


def test_only_the_sources_of_the_warm_up_are_drawn_until_its_very_last_step() -> None:
    first = NAMES[:7]
    rules = policy(Algorithm.UCB1, curriculum_warmup_steps=400, curriculum_warmup_sources=first)
    state = fresh(rules, LIVE, 3)
    begins, seen = [], False
    while state.step < 600:
        order = state.phases[0]
        drawn = {name for name, weight in order.weights if weight > 0}
        begins.append(state.step + 1)
        if state.step < 400:
            assert drawn == set(first)
            assert state.step + order.steps <= 400
        else:
            seen = True
            assert drawn == set(NAMES)
        last = state.step + order.steps
        results = tuple(ArmResult(name, 3, 0, 5.0 - last / 1000) for name in drawn)
        told = (1, 1.0, order.phase, state.step + 1, last, False, order.weights, results)
        state = finish_phase(state, rules, Phase(*told))
    assert seen
    assert 401 in begins
    assert all(arm.n > 0 for arm in state.arms)


def test_a_pivot_amid_the_warm_up_goes_on_with_it() -> None:
    rules = policy(Algorithm.UCB1, curriculum_warmup_steps=400, curriculum_warmup_sources=NAMES[:7])
    state = fresh(rules, LIVE, 3, step=395)
    assert state.phases[0].steps == 5
    assert {n for n, w in state.phases[0].weights if w > 0} == set(NAMES[:7])
    assert {n for n, w in state.phases[1].weights if w > 0} == set(NAMES)


def test_the_warm_up_waits_for_nobody_where_its_own_sources_are_gone() -> None:
    rules = policy(Algorithm.UCB1, curriculum_warmup_steps=400, curriculum_warmup_sources=NAMES[:2])
    state = fresh(rules, LIVE - set(NAMES[:1]), 3)
    assert {n for n, w in state.phases[0].weights if w > 0} == set(NAMES[1:])


@pytest.mark.parametrize(
    ("epochs", "weight"), [(None, 1.0), (0.0, 1.0), (4.0, 1.0), (19.0, math.exp(-1))]
)
def test_the_penalty_is_the_formula_of_the_page(epochs: float | None, weight: float) -> None:
    rules = policy(Algorithm.UCB1, epoch_decay=15.0, free_epochs=4.0)
    state = fresh(rules, LIVE, 3)
    state = replace(state, arms=tuple(replace(a, epochs=epochs, n=9) for a in state.arms))
    _, decision = decide_phase(state, rules)
    assert decision.penalties["arm05"] == pytest.approx(weight, rel=1e-15)
    tentative = 1.0 if decision.proposal.weights["arm05"] > 0.3 * weight else 0.3
    assert decision.proposal.weights["arm05"] == pytest.approx(weight * tentative)


def test_a_mix_that_is_static_or_frozen_knows_no_penalty_and_says_so() -> None:
    for rules in (policy(Algorithm.STATIC), policy(Algorithm.UCB1)):
        state = freeze(fresh(rules, LIVE, 3), "a test")
        state = replace(state, arms=tuple(replace(a, epochs=60.0) for a in state.arms))
        assert set(decide_phase(state, rules)[1].penalties.values()) == {1.0}


@pytest.mark.parametrize("algorithm", ADAPTIVE)
def test_an_arm_that_was_read_too_often_loses_to_one_that_was_not(algorithm: Algorithm) -> None:
    rules = policy(algorithm, epoch_decay=15.0)
    state = trained(rules, {"arm07": 0.05, "arm08": 0.05}, 60)
    arms = tuple(replace(a, epochs=60.0 if a.name == "arm07" else 1.0) for a in state.arms)
    state = replace(state, arms=arms, phases=())
    shares = {"arm07": 0.0, "arm08": 0.0}
    for _ in range(20):
        state, decision = decide_phase(state, rules)
        weights = dict(decision.phase.weights)
        shares = {name: shares[name] + weights[name] for name in shares}
    assert shares["arm07"] < shares["arm08"]


def test_an_arm_read_max_epochs_times_leaves_and_does_not_come_back() -> None:
    rules = policy(Algorithm.UCB1, max_epochs=20.0)
    state = fresh(rules, LIVE, 3)
    results = (ArmResult("arm01", 5, 0, 3.0, 19.9), ArmResult("arm02", 5, 0, 3.0, 20.0))
    told = (1, 1.0, 1, 1, 20, False, state.phases[0].weights, results)
    state = finish_phase(state, rules, Phase(*told))
    assert [(r.arm.name, r.why, r.step) for r in state.retired] == [("arm02", READ_ENOUGH, 20)]
    for order in state.phases:
        assert "arm02" not in dict(order.weights)
        assert math.fsum(w for _, w in order.weights) == pytest.approx(1.0, abs=1e-12)
    assert reconcile(state, rules, LIVE, 30) == (state, ())
    again = fresh(replace(rules, number=2), LIVE, 3, state, 20)
    assert next(arm.epochs for arm in again.arms if arm.name == "arm02") == 20.0


def test_an_arm_without_which_the_bounds_do_not_hold_stays_however_often_it_was_read() -> None:
    arms = (Arm("a", cap=0.5), Arm("b", cap=0.5))
    rules = Policy(1, "d", Algorithm.UCB1, Unit.SHARE, arms, max_epochs=2.0)
    state = fresh(rules, frozenset("ab"), 3)
    results = (ArmResult("a", 5, 0, 3.0, 9.0), ArmResult("b", 5, 0, 3.0, 1.0))
    told = (1, 1.0, 1, 1, 20, False, state.phases[0].weights, results)
    state = finish_phase(state, rules, Phase(*told))
    assert [arm.name for arm in state.arms] == ["a", "b"]


@pytest.mark.parametrize("algorithm", ADAPTIVE)
def test_a_frozen_mix_is_the_configured_one_from_the_next_decision_on(algorithm: Algorithm) -> None:
    rules = policy(algorithm)
    state = freeze(trained(rules, {"arm07": 0.05}, 30), "the guard of spikes")
    assert freeze(state, "another").frozen == "the guard of spikes"
    kept = state.phases[1]
    results = tuple(ArmResult(name, 2, 0, 4.0) for name in NAMES)
    told = (1, 1.0, state.phases[0].phase, 1, 20, False, state.phases[0].weights, results)
    state = finish_phase(state, rules, Phase(*told))
    assert state.phases[0] == kept
    assert dict(state.phases[1].weights) == pytest.approx(dict.fromkeys(NAMES, 1 / 16))
    assert fresh(rules, LIVE, 1, state).frozen == ""


def step(number: int, phase: int, arm: str, extras: tuple[tuple[str, float | None], ...]) -> Step:
    return Step(number, 1.0, number, 3.0, "", arm, 3e-4, "", phase, extras)


def test_every_step_is_recorded_with_the_probability_of_its_arm() -> None:
    phases = (PhaseOrder(3, 9, (("a", 0.25), ("b", 0.75))), PhaseOrder(4, 9, (("a", 1.0),)))
    steps = [
        step(1, 3, "a", ()),
        step(2, 3, "b", (("tokens", 5.0),)),
        step(3, 4, "a", (("propensity", 0.125),)),
        step(4, 9, "a", ()),
        step(5, 4, "b", ()),
        step(6, 3, "a=1 b=3", ()),
    ]
    found = [dict(s.extras)["propensity"] for s in with_propensities(steps, phases)]
    assert found == [0.25, 0.75, 0.125, None, None, pytest.approx((0.25 * 0.75**3) ** 0.25)]
    assert dict(with_propensities(steps, phases)[1].extras)["tokens"] == 5.0
    assert propensity("a=0", {"a": 0.5}) == 0.5


def test_pulls_served_are_the_steps_since_the_policy_began() -> None:
    rules = policy(Algorithm.UCB1)
    state = fresh(rules, LIVE, 3, step=100)
    state = count_steps(state, [step(n, 1, NAMES[n % 16], ()) for n in range(101, 151)])
    state, _ = reconcile(state, rules, LIVE - {"arm02"}, 150)
    state = count_steps(state, [step(n, 1, NAMES[3 + n % 13], ()) for n in range(151, 171)])
    gone = sum(r.arm.served for r in state.retired)
    assert sum(arm.served for arm in state.arms) + gone == 70
