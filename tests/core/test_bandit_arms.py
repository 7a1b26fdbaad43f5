"""The bandit's arms: static shares, weights as unit, bounds that always hold, and who leaves."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supervisor.core.bandit import (
    ArmState,
    BanditState,
    finish_phase,
    fresh,
    reconcile,
)
from supervisor.core.policy import Algorithm, Arm, Policy, Unit, problem_of
from tests.support.ucb1 import LIVE, NAMES, UCB1, learn, phase, scores
from trainer.contract.wire import PhaseOrder


def zombie() -> BanditState:
    """A state that still knows an arm of an earlier run."""
    state = fresh(UCB1, LIVE, 1)
    return replace(state, arms=(*state.arms, ArmState("repo-docstrings", served=900, n=1546)))


def test_static_keeps_its_proportions_and_the_longest_phase() -> None:
    arms = (Arm("a", weight=3.0), Arm("b", weight=1.0))
    policy = replace(UCB1, algorithm=Algorithm.STATIC, arms=arms)
    state = fresh(policy, frozenset("ab"), 1)
    for number in range(1, 5):
        assert [(p.phase, p.steps) for p in state.phases] == [(number, 42), (number + 1, 42)]
        assert dict(state.phases[-1].weights) == pytest.approx({"a": 0.75, "b": 0.25})
        state = finish_phase(state, policy, phase(number, {"a": 1.0, "b": 9.0}))


def test_weights_as_unit_are_lifted_capped_and_then_divided() -> None:
    """The worked example: floors of 0.8 and 0.7 are multipliers, so they guarantee 14 %."""
    given = {"general": 0.3, "chat": 0.2, "words": 0.1, "books": 0.1, "synth": 1.546, "docs": 1.2}
    floors = {"general": 0.8, "chat": 0.8, "words": 0.7, "books": 0.7}
    arms = tuple(Arm(n, floors.get(n, 0.0), cap=9.0, weight=w) for n, w in given.items())
    policy = Policy(1, "d", Algorithm.STATIC, Unit.WEIGHT, arms)
    shares = dict(fresh(policy, frozenset(given), 1).phases[0].weights)
    rounded = [round(share, 3) for share in shares.values()]
    assert rounded == [0.139, 0.139, 0.122, 0.122, 0.269, 0.209]
    capped = replace(policy, arms=tuple(replace(arm, cap=1.0) for arm in arms))
    shares = dict(fresh(capped, frozenset(given), 1).phases[0].weights)
    assert shares["synth"] == shares["docs"] == pytest.approx(1.0 / 5.0)


def test_a_zombie_is_retired_with_its_numbers_and_counts_no_more() -> None:
    state = zombie()
    kept, retired = reconcile(state, UCB1, LIVE, 300)
    assert [(r.arm.name, r.why, r.step, r.arm.served) for r in retired] == [
        ("repo-docstrings", "zombie", 300, 900)
    ]
    assert kept.retired == retired
    assert [arm.name for arm in kept.arms] == list(NAMES)
    learned = learn(kept, UCB1, {name: [1.0, 1.0] for name in NAMES})
    n = learned.arms[0].n
    score = scores(learned, UCB1)["arm00"] - learned.arms[0].mean
    assert score == pytest.approx(math.sqrt(2 * math.log(16 * n) / n))


def test_an_arm_whose_source_is_gone_loses_its_weight_in_decided_phases_too() -> None:
    state = fresh(UCB1, LIVE, 1)
    kept, retired = reconcile(state, UCB1, LIVE - {"arm00"}, 300)
    assert [(r.arm.name, r.why) for r in retired] == [("arm00", "unavailable")]
    for order, before in zip(kept.phases, state.phases, strict=True):
        assert (order.phase, order.steps) == (before.phase, before.steps)
        weights = dict(order.weights)
        assert "arm00" not in weights
        assert sum(weights.values()) == pytest.approx(1.0, abs=1e-12)


def test_an_arm_that_is_back_starts_empty_and_is_explored() -> None:
    state = learn(fresh(UCB1, LIVE, 1), UCB1, {name: [1.0, 1.0] for name in NAMES})
    without, _ = reconcile(state, UCB1, LIVE - {"arm00"}, 300)
    back, retired = reconcile(without, UCB1, LIVE, 400)
    assert retired == ()
    assert next(arm for arm in back.arms if arm.name == "arm00") == ArmState("arm00")
    assert scores(back, UCB1)["arm00"] == math.inf


def test_nothing_changes_where_arms_and_sources_agree() -> None:
    state = fresh(UCB1, LIVE, 1)
    assert reconcile(state, UCB1, LIVE, 300) == (state, ())


def test_weights_as_unit_keep_their_proportions_when_an_arm_leaves() -> None:
    arms = (Arm("a", 0.8, 2.0, 0.1), Arm("b", 0.0, 2.0, 1.6), Arm("c", 0.0, 2.0, 1.0))
    policy = Policy(1, "d", Algorithm.STATIC, Unit.WEIGHT, arms)
    state = fresh(policy, frozenset("abc"), 1)
    kept, _ = reconcile(state, policy, frozenset("ab"), 10)
    weights = dict(kept.phases[0].weights)
    assert weights["b"] / weights["a"] == pytest.approx(2.0)
    assert sum(weights.values()) == pytest.approx(1.0)


def test_one_arm_leaving_while_another_comes_stays_feasible() -> None:
    arms = tuple(Arm(name, cap=0.5) for name in "abc")
    policy = Policy(1, "d", Algorithm.UCB1, Unit.SHARE, arms)
    state = fresh(policy, frozenset("ab"), 1)
    changed, _ = reconcile(state, policy, frozenset("bc"), 10)
    assert dict(changed.phases[0].weights) == pytest.approx({"b": 0.5, "c": 0.5})


BOUND = st.floats(0.0, 1.0)
EVENTS = st.lists(
    st.dictionaries(
        st.sampled_from(NAMES[:6]), st.one_of(st.none(), st.floats(-1e6, 1e6)), min_size=1
    ),
    max_size=12,
)


@given(
    st.lists(st.tuples(BOUND, BOUND, st.floats(0.01, 10.0)), min_size=1, max_size=6),
    st.sampled_from(Algorithm),
    st.sampled_from(Unit),
    EVENTS,
    st.integers(0, 2**64 - 1),
)
@settings(max_examples=300, deadline=None, derandomize=True)
def test_whatever_is_learned_every_phase_keeps_the_bounds(
    bounds: list[tuple[float, float, float]],
    algorithm: Algorithm,
    unit: Unit,
    events: list[dict[str, float | None]],
    seed: int,
) -> None:
    arms = tuple(
        Arm(name, min(a, b) / len(bounds), max(a, b), weight)
        for name, (a, b, weight) in zip(NAMES, bounds, strict=False)
    )
    policy = Policy(1, "d", algorithm, unit, (replace(arms[0], cap=1.0), *arms[1:]))
    assert problem_of(policy, LIVE) == ""
    state = fresh(policy, LIVE, seed)
    for number, losses in enumerate(events, 1):
        state = finish_phase(state, policy, phase(number, losses))
        assert [order.phase for order in state.phases] == [number + 1, number + 2]
        for order in state.phases:
            _within(order, policy)
        assert all(0.0 <= arm.mean <= 1.0 and 0.0 <= arm.ema <= 1.0 for arm in state.arms)


def _within(order: PhaseOrder, policy: Policy) -> None:
    assert policy.phase_min <= order.steps <= policy.phase_max
    assert sum(weight for _, weight in order.weights) == pytest.approx(1.0, abs=1e-8)
    bounds = {arm.name: arm for arm in policy.arms}
    if policy.unit is Unit.SHARE:
        assert all(bounds[n].floor <= weight <= bounds[n].cap for n, weight in order.weights)
    else:
        assert all(0.0 <= weight <= 1.0 for _, weight in order.weights)
