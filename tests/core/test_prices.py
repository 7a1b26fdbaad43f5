"""Prices of bounds are what a little less of each bound would earn; the tax is what all cost."""

from __future__ import annotations

import random
from itertools import pairwise
from math import fsum

import pytest

from supervisor.core.bounds import project
from supervisor.core.prices import Binding, best_mix, prices
from tests.support.projections import KINDS, Case, a_case

NONE, FLOOR, CAP = Binding


def earned(shares: tuple[float, ...], means: list[float]) -> float:
    return fsum(share * mean for share, mean in zip(shares, means, strict=True))


def test_a_floor_and_a_cap_that_bind_are_named_and_priced() -> None:
    """Of 100 steps: a better arm would have the 20 of the floor, and could give 10 to the cap."""
    found = prices([8.0, 1.0, 0.1], [0.0, 0.0, 0.2], [0.5, 1.0, 1.0], [0.9, 0.4, 0.1])
    assert list(found.shares) == pytest.approx([0.5, 0.3, 0.2])
    assert found.binding == (CAP, NONE, FLOOR)
    assert list(found.prices) == pytest.approx([0.5, 0.0, 0.3])
    assert found.floor_tax == pytest.approx(0.2 * 0.8)
    assert found.cap_tax == pytest.approx(0.3 * 0.5)
    assert found.tax == pytest.approx(0.9 - (0.5 * 0.9 + 0.3 * 0.4 + 0.2 * 0.1))


def test_bounds_that_bind_nothing_cost_nothing() -> None:
    found = prices([1.0, 1.0], [0.0, 0.0], [1.0, 1.0], [0.9, 0.1])
    assert found.binding == (NONE, NONE)
    assert found.prices == (0.0, 0.0)
    assert found.tax == 0.0


def test_a_floor_under_the_best_arm_earns() -> None:
    found = prices([0.1, 1.0], [0.5, 0.0], [1.0, 1.0], [0.9, 0.2])
    assert found.binding == (FLOOR, NONE)
    assert found.prices[0] == pytest.approx(-0.7)
    assert found.tax == 0.0


def test_an_arm_that_is_shut_is_priced_by_what_it_would_add() -> None:
    found = prices([1.0, 1.0, 1.0], [0.0] * 3, [0.0, 1.0, 1.0], [0.9, 0.5, 0.3])
    assert found.binding == (CAP, NONE, NONE)
    assert found.prices[0] == pytest.approx(0.5)


@pytest.mark.parametrize("kind", ["plain", "wide", "equal", "masked", "ties"])
def test_a_price_is_what_a_little_less_of_its_bound_earns(kind: str) -> None:
    rng = random.Random(kind)  # noqa: S311 - chance that can be repeated
    compared = 0
    for _ in range(150):
        case = a_case(rng, rng.randint(2, 9), kind)
        means = [rng.random() for _ in case.values]
        found = prices(*case, means)
        for arm, bound in enumerate(found.binding):
            eased = _eased(case, arm, bound)
            if bound is NONE or not _same_but(found.binding, arm, prices(*eased, means).binding):
                continue
            gain = earned(project(*eased), means) - earned(found.shares, means)
            assert gain == pytest.approx(found.prices[arm] * 1e-7, abs=1e-12)
            compared += 1
    assert compared > 80


def _eased(case: Case, arm: int, bound: Binding) -> Case:
    floors, caps = list(case.floors), list(case.caps)
    floors[arm] = max(0.0, floors[arm] - 1e-7) if bound is FLOOR else floors[arm]
    caps[arm] = min(1.0, caps[arm] + 1e-7) if bound is CAP else caps[arm]
    return Case(case.values, floors, caps)


def _same_but(before: tuple[Binding, ...], arm: int, after: tuple[Binding, ...]) -> bool:
    """Whether the eased bound still binds as every other does, and some arm is free to give."""
    return before == after and NONE in before and before[arm] is not NONE


def test_where_no_arm_is_free_the_first_to_leave_its_floor_takes() -> None:
    found = prices([3.0, 1.0, 1.0], [0.2, 0.4, 0.4], [1.0] * 3, [0.9, 0.5, 0.3])
    assert found.binding == (FLOOR, FLOOR, FLOOR)
    assert list(found.prices) == pytest.approx([0.0, 0.4, 0.6])
    found = prices([3.0, 1.0, 1.0], [0.0] * 3, [0.2, 0.4, 0.4], [0.9, 0.5, 0.3])
    assert found.binding == (CAP, CAP, CAP)
    assert list(found.prices) == pytest.approx([0.4, 0.0, -0.2])


@pytest.mark.parametrize("kind", KINDS)
def test_no_shares_within_the_bounds_earn_more_than_the_best_mix(kind: str) -> None:
    rng = random.Random(kind)  # noqa: S311 - chance that can be repeated
    for _ in range(60):
        case = a_case(rng, rng.randint(1, 16), kind)
        means = [rng.random() for _ in case.values]
        best = best_mix(means, case.floors, case.caps)
        assert fsum(best) == pytest.approx(1.0, abs=1e-12)
        for share, floor, cap in zip(best, case.floors, case.caps, strict=True):
            assert floor <= share <= cap
        most = earned(best, means)
        for _ in range(5):
            other = project([rng.random() ** 4 for _ in means], case.floors, case.caps)
            assert earned(other, means) <= most + 1e-12
        found = prices(*case, means)
        assert max(means) - most == pytest.approx(found.tax, abs=1e-12)
        assert found.floor_tax >= 0.0
        assert found.cap_tax >= -1e-12


def test_the_best_mix_fills_the_best_arm_to_its_cap_then_the_next() -> None:
    means = [0.1, 0.9, 0.5, 0.7]
    mix = best_mix(means, [0.1, 0.0, 0.0, 0.05], [1.0, 0.4, 1.0, 0.3])
    assert list(mix) == pytest.approx([0.1, 0.4, 0.2, 0.3])
    filled = sorted(zip(means, mix, strict=True), reverse=True)
    assert all(better >= worse for (better, _), (worse, _) in pairwise(filled))


def test_infeasible_bounds_have_no_best_mix() -> None:
    with pytest.raises(ValueError, match=r"cannot fill the bounds: the floors sum to 1\.2"):
        best_mix([0.1, 0.2], [0.6, 0.6], [1.0, 1.0])
