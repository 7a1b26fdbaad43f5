"""Thompson sampling samples mixes within the bounds, not arms."""

from __future__ import annotations

from dataclasses import replace
from math import sqrt
from statistics import fmean, stdev

import pytest

from supervisor.core.bandit.chance import normals
from supervisor.core.bandit.state import ArmState, Discounted
from supervisor.core.bandit.thompson import posterior, propose
from supervisor.core.policy import Algorithm, Arm, Policy, Unit

ARMS = (
    Arm("best", 0.0, 0.3),
    Arm("good", 0.0, 0.3),
    Arm("fair", 0.0, 0.3),
    Arm("poor", 0.05, 0.3),
    Arm("unseen", 0.0, 0.2),
)
RULES = Policy(1, "d", Algorithm.THOMPSON, Unit.SHARE, ARMS, exploration=1.0)
EVEN = {arm.name: 1.0 for arm in ARMS}


def state(mean: dict[str, float], pulls: float) -> list[ArmState]:
    return [
        ArmState(name, discounted=Discounted(pulls, pulls * value, pulls * value * value))
        for name, value in mean.items()
    ]


def test_what_floors_leave_goes_to_the_best_in_turn_where_nothing_is_in_doubt() -> None:
    arms = state({"best": 0.9, "good": 0.8, "fair": 0.7, "poor": 0.1}, 1e9)
    weights = propose(arms, RULES, EVEN, 1).weights
    expected = {"best": 0.3, "good": 0.3, "fair": 0.3, "poor": 0.1}
    assert weights == pytest.approx(expected, abs=1e-9)


def test_the_mean_of_mixes_is_within_the_bounds_and_sums_to_1() -> None:
    arms = [*state({"best": 0.6, "good": 0.5, "fair": 0.5, "poor": 0.4}, 3.0), ArmState("unseen")]
    for seed in range(30):
        weights = propose(arms, RULES, EVEN, seed).weights
        assert sum(weights.values()) == pytest.approx(1.0, abs=1e-12)
        for arm in ARMS:
            assert arm.floor - 1e-12 <= weights[arm.name] <= arm.cap + 1e-12


def test_an_arm_that_was_never_pulled_is_likely_and_one_that_is_known_to_be_poor_is_not() -> None:
    arms = [*state({"best": 0.9, "good": 0.8, "fair": 0.7, "poor": 0.1}, 200.0), ArmState("unseen")]
    drawn = [propose(arms, RULES, EVEN, seed).weights for seed in range(40)]
    assert fmean(weights["unseen"] for weights in drawn) > 0.05
    assert fmean(weights["poor"] for weights in drawn) == pytest.approx(0.05, abs=0.06)


def test_under_bounds_of_weights_an_arm_weighs_as_often_as_it_is_the_best() -> None:
    rules = replace(RULES, unit=Unit.WEIGHT)
    arms = state({"best": 0.9, "good": 0.8, "fair": 0.7, "poor": 0.1}, 1e9)
    assert propose(arms, rules, EVEN, 1).weights["best"] == pytest.approx(1.0)


def test_a_penalty_takes_weight_away() -> None:
    arms = state({"best": 0.9, "good": 0.8, "fair": 0.7, "poor": 0.1}, 1e9)
    weights = propose(arms, RULES, {**EVEN, "best": 0.5}, 1).weights
    assert weights["best"] == pytest.approx(0.15)


def test_the_more_is_known_the_less_is_in_doubt() -> None:
    wide, narrow = posterior(Discounted()), posterior(Discounted(100.0, 70.0, 50.0))
    assert wide == (0.5, 0.5)
    assert narrow[0] == pytest.approx(0.7, abs=0.01)
    assert narrow[1] < 0.03


def test_normal_numbers_are_standard_and_can_be_repeated() -> None:
    after, numbers = normals(7, 4001)
    assert (after, numbers) == normals(7, 4001)
    assert len(numbers) == 4001
    assert fmean(numbers) == pytest.approx(0.0, abs=4 / sqrt(4001))
    assert stdev(numbers) == pytest.approx(1.0, abs=0.05)
