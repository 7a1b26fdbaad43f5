"""What a policy gives first, and where it settles when every arm goes on earning its mean."""

from __future__ import annotations

from dataclasses import replace
from math import fsum

import pytest

from supervisor.core.bandit import fresh
from supervisor.core.expected_shares import expected
from supervisor.core.policy import Algorithm, Arm, Policy, Unit
from supervisor.core.prices import best_mix

NAMES = ("a", "b", "c", "d")
LIVE = frozenset(NAMES)
MEANS = {"a": 0.1, "b": 0.5, "c": 0.7, "d": 0.3}
ARMS = tuple(Arm(name, 0.05, 0.6) for name in NAMES)


def policy(algorithm: Algorithm, **values: object) -> Policy:
    rules = Policy(2, "d", algorithm, Unit.SHARE, ARMS, exploration=0.5)
    return replace(rules, **values)  # type: ignore[arg-type]  # by name


@pytest.mark.parametrize("algorithm", tuple(Algorithm))
def test_shares_sum_to_one_within_the_bounds(algorithm: Algorithm) -> None:
    found = expected(policy(algorithm), LIVE, 7, None, 500, MEANS)
    assert found is not None
    assert found.assumed == ()
    for mix in (found.first, found.settled):
        assert fsum(mix.values()) == pytest.approx(1.0)
        assert all(0.05 - 1e-12 <= share <= 0.6 + 1e-12 for share in mix.values())


@pytest.mark.parametrize("algorithm", [Algorithm.EXP3S, Algorithm.DUCB, Algorithm.THOMPSON])
def test_it_settles_on_the_arms_that_earn_most(algorithm: Algorithm) -> None:
    found = expected(policy(algorithm), LIVE, 7, None, 500, MEANS)
    assert found is not None
    best = best_mix([MEANS[n] for n in NAMES], [0.05] * 4, [0.6] * 4)
    earned = fsum(found.settled[name] * MEANS[name] for name in NAMES)
    most = fsum(share * MEANS[name] for share, name in zip(best, NAMES, strict=True))
    assert earned == pytest.approx(most, abs=0.05)


def test_the_first_shares_are_those_that_the_pivot_will_order() -> None:
    rules = policy(Algorithm.UCB1)
    before = fresh(policy(Algorithm.STATIC, number=1), LIVE, 1)
    state = fresh(rules, LIVE, 9, before, 300)
    found = expected(rules, LIVE, 9, before, 300, {})
    assert found is not None
    steps = sum(order.steps for order in state.phases)
    mean = fsum(order.steps * dict(order.weights)["c"] for order in state.phases) / steps
    assert found.first["c"] == pytest.approx(mean)
    assert found.assumed == NAMES


def test_static_settles_on_what_is_configured_and_nothing_without_arms() -> None:
    rules = policy(Algorithm.STATIC, arms=(Arm("a", weight=3.0), Arm("b")))
    found = expected(rules, LIVE, 7, None, 0, MEANS)
    assert found is not None
    assert found.settled == pytest.approx({"a": 0.75, "b": 0.25})
    assert expected(rules, frozenset(), 7, None, 0, MEANS) is None


def test_the_warm_up_is_passed_over_where_it_settles_and_shown_first() -> None:
    rules = policy(
        Algorithm.DUCB, curriculum_warmup_steps=90_000, curriculum_warmup_sources=("a", "b")
    )
    found = expected(rules, LIVE, 7, None, 500, MEANS)
    assert found is not None
    assert found.first["c"] == 0.0
    assert found.settled["c"] == pytest.approx(0.6)
