"""What is found in other code in place of the projection, and that it breaks the bounds."""

from __future__ import annotations

import random

import pytest

from supervisor.core.bounds import infeasible, project
from tests.support.projections import Case, clamped_and_divided, lifted_and_divided


def breaks(shares: list[float], case: Case) -> bool:
    """Whether a bound is missed by more than rounding."""
    bounded = zip(shares, case.floors, case.caps, strict=True)
    return any(share < floor - 1e-9 or share > cap + 1e-9 for share, floor, cap in bounded)


def distance(one: list[float], other: tuple[float, ...]) -> float:
    """Total variation: the share that is with the wrong arm."""
    return sum(abs(a - b) for a, b in zip(one, other, strict=True)) / 2


def test_clamping_and_dividing_ten_times_misses_the_published_example() -> None:
    case = Case([0.60, 0.25, 0.05, 0.04, 0.03, 0.03], [0.1] * 6, [0.3] * 6)
    wrong = clamped_and_divided(case)
    assert wrong == pytest.approx([0.300, 0.269, 0.108, 0.108, 0.108, 0.108], abs=5e-4)
    assert distance(wrong, project(*case)) > 0.03


@pytest.mark.parametrize("equal", [True, False])
def test_clamping_and_dividing_breaks_bounds_in_4_of_10_cases_and_more(*, equal: bool) -> None:
    rng = random.Random(64)  # noqa: S311 - chance that can be repeated
    cases = [_bounded(rng, equal=equal) for _ in range(400)]
    wrong = [clamped_and_divided(case) for case in cases]
    broken = sum(breaks(shares, case) for shares, case in zip(wrong, cases, strict=True))
    apart = [distance(shares, project(*case)) for shares, case in zip(wrong, cases, strict=True)]
    assert broken > 0.4 * len(cases)
    assert sum(value > 0.01 for value in apart) > 0.3 * len(cases)
    assert max(apart) > 0.1


def _bounded(rng: random.Random, *, equal: bool) -> Case:
    """16 weights of which two in three are within a factor of 2.7, and bounds around a 16th."""
    while True:
        weights = [rng.lognormvariate(0.0, 1.0) for _ in range(16)]
        floors = [rng.uniform(0.0, 1 / 16) for _ in weights]
        caps = [rng.uniform(1 / 16, 0.3) for _ in weights]
        if equal:
            floors, caps = floors[:1] * 16, caps[:1] * 16
        if not infeasible(floors, caps):
            return Case(weights, floors, caps)


def test_a_maximum_with_the_floor_then_a_division_leaves_less_than_the_floor() -> None:
    """A floor of 0.01 becomes 0.00901 for 22 arms with one at 0.9."""
    shares, floors = [0.9, *[0.1 / 21] * 21], [0.01] * 22
    wrong = lifted_and_divided(shares, floors)
    assert min(wrong) == pytest.approx(0.00901, abs=5e-6)
    assert min(project(shares, floors, [1.0] * 22)) == 0.01


def test_published_floors_of_08_divided_by_their_sum_guarantee_14_percent() -> None:
    weights = [0.3, 0.2, 0.1, 0.1, 1.546, 1.2]
    final = lifted_and_divided(weights, [0.8, 0.8, 0.7, 0.7, 0.0, 0.0])
    assert final == pytest.approx([0.139, 0.139, 0.122, 0.122, 0.269, 0.209], abs=5e-4)
