"""Properties of both projections onto floors and caps, against exact and slow ones."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supervisor.core.bounds import infeasible, project, project_euclidean
from tests.support.projections import KINDS, Case, a_case, exact_euclidean, exact_kl

SHARE = st.floats(0.0, 1.0)
WEIGHT = st.one_of(st.just(0.0), st.floats(5e-324, 1.7e308))
POINT = st.floats(-1e300, 1e300)
CASES = 10_000  # of each projection, with --thorough; a part of the very same ones without it
PART = 700


def keeps_its_bounds(shares: tuple[float, ...], case: Case) -> None:
    assert abs(math.fsum(shares) - 1.0) <= 1e-12
    for share, floor, cap in zip(shares, case.floors, case.caps, strict=True):
        assert floor <= share <= cap


@pytest.mark.timeout(300)
def test_random_cases_equal_the_exact_kl_projection(*, thorough: bool) -> None:
    rng = random.Random(6.4)  # noqa: S311 - chance that can be repeated
    for number in range(CASES if thorough else PART):
        case = a_case(rng, rng.randint(1, 16), KINDS[number % len(KINDS)])
        shares = project(*case)
        keeps_its_bounds(shares, case)
        assert list(shares) == pytest.approx(exact_kl(case), abs=1e-12, rel=0), case


@pytest.mark.timeout(300)
def test_random_cases_equal_the_exact_euclidean_projection(*, thorough: bool) -> None:
    rng = random.Random(4.6)  # noqa: S311 - chance that can be repeated
    for number in range(CASES if thorough else PART):
        case = a_case(rng, rng.randint(1, 16), KINDS[number % len(KINDS)], signed=True)
        shares = project_euclidean(*case)
        keeps_its_bounds(shares, case)
        assert list(shares) == pytest.approx(exact_euclidean(case), abs=1e-12, rel=0), case


@pytest.mark.parametrize("kind", KINDS)
def test_a_thousand_arms_are_projected_exactly(kind: str) -> None:
    rng = random.Random(kind)  # noqa: S311 - chance that can be repeated
    weights = a_case(rng, 1000, kind)
    shares = project(*weights)
    keeps_its_bounds(shares, weights)
    points = a_case(rng, 1000, kind, signed=True)
    moved = project_euclidean(*points)
    keeps_its_bounds(moved, points)
    if kind in ("plain", "masked"):  # exact sums of a thousand wide weights would take a minute
        assert list(shares) == pytest.approx(exact_kl(weights), abs=1e-12, rel=0)
        assert list(moved) == pytest.approx(exact_euclidean(points), abs=1e-12, rel=0)


@given(st.lists(st.tuples(WEIGHT, POINT, SHARE, SHARE), min_size=1, max_size=16))
@settings(max_examples=150, deadline=None, derandomize=True)
def test_shares_sum_to_1_within_their_bounds_or_are_refused(
    arms: list[tuple[float, float, float, float]],
) -> None:
    floors = [min(a, b) for _, _, a, b in arms]
    caps = [max(a, b) for _, _, a, b in arms]
    weights = Case([w for w, _, _, _ in arms], floors, caps)
    points = Case([y for _, y, _, _ in arms], floors, caps)
    if infeasible(floors, caps):
        with pytest.raises(ValueError, match="cannot project onto the bounds"):
            project(*weights)
        with pytest.raises(ValueError, match="cannot project onto the bounds"):
            project_euclidean(*points)
        return
    keeps_its_bounds(project(*weights), weights)
    keeps_its_bounds(project_euclidean(*points), points)


@given(st.lists(st.floats(1e-6, 1e6), min_size=2, max_size=16), st.floats(1e-6, 1e6))
@settings(max_examples=80, deadline=None, derandomize=True)
def test_without_bounds_shares_are_proportions_whatever_the_scale(
    weights: list[float], scale: float
) -> None:
    none, one = [0.0] * len(weights), [1.0] * len(weights)
    shares = project([w * scale for w in weights], none, one)
    total = math.fsum(weights)
    assert list(shares) == pytest.approx([w / total for w in weights], rel=1e-12, abs=1e-12)


def test_weights_300_orders_apart_keep_their_proportions_below_capped_ones() -> None:
    shares = project([1e150, 3e-150, 1e-150], [0.0] * 3, [0.2, 1.0, 1.0])
    assert list(shares) == pytest.approx([0.2, 0.6, 0.2], abs=1e-15)


def test_points_far_from_0_keep_their_differences_below_capped_ones() -> None:
    shares = project_euclidean([1e20, 1.0, 0.5], [0.0] * 3, [0.2, 1.0, 1.0])
    assert list(shares) == pytest.approx([0.2, 0.65, 0.15], abs=1e-15)
    shares = project_euclidean([1e20, 1e20, 1e20], [0.1, 0.5, 0.0], [1.0, 1.0, 0.1])
    assert list(shares) == pytest.approx([0.4, 0.5, 0.1], abs=1e-15)


def test_the_published_example_is_exact() -> None:
    shares = project([0.60, 0.25, 0.05, 0.04, 0.03, 0.03], [0.1] * 6, [0.3] * 6)
    assert list(shares) == pytest.approx([0.3, 0.3, 0.1, 0.1, 0.1, 0.1], abs=1e-12)


def test_shares_between_their_bounds_keep_proportions_in_kl_and_differences_in_distance() -> None:
    weights = [5.0, 3.0, 1.0, 0.1]
    shares = project(weights, [0.0, 0.0, 0.0, 0.2], [0.4, 1.0, 1.0, 1.0])
    assert shares[0] == pytest.approx(0.4)
    assert shares[3] == pytest.approx(0.2)
    assert shares[1] / shares[2] == pytest.approx(3.0)
    shares = project_euclidean([0.9, 0.4, 0.3, 0.1], [0.0, 0.0, 0.0, 0.2], [0.4, 1.0, 1.0, 1.0])
    assert shares[0] == 0.4
    assert shares[3] == 0.2
    assert shares[1] - shares[2] == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("floors", "caps", "why"),
    [
        ([0.6, 0.6], [1.0, 1.0], "the floors sum to 1.2, more than 1"),
        ([0.0, 0.0], [0.4, 0.4], "the caps sum to 0.8, less than 1"),
        ([0.5, 0.50000000001], [1.0, 1.0], "the floors sum to 1.00000000001, more than 1"),
        ([0.5, 0.0], [0.4, 1.0], "floor 0.5 and cap 0.4 do not satisfy"),
        ([-0.1, 0.0], [1.0, 1.0], "floor -0.1 and cap 1.0 do not satisfy"),
        ([0.0, 0.0], [1.5, 1.0], "floor 0.0 and cap 1.5 do not satisfy"),
        ([math.nan, 0.0], [1.0, 1.0], "floor nan"),
        ([], [], "there is no arm"),
    ],
)
def test_infeasible_bounds_are_refused_never_repaired(
    floors: list[float], caps: list[float], why: str
) -> None:
    assert why in infeasible(floors, caps)
    with pytest.raises(ValueError, match="cannot project onto the bounds"):
        project([1.0] * len(floors), floors, caps)
    with pytest.raises(ValueError, match="cannot project onto the bounds"):
        project_euclidean([1.0] * len(floors), floors, caps)


@pytest.mark.parametrize("weights", [[1.0, math.nan], [math.nan, 1.0], [1.0, math.inf], [1.0]])
def test_what_is_no_weight_is_refused(weights: list[float]) -> None:
    with pytest.raises(ValueError, match="cannot project onto the bounds"):
        project(weights, [0.0, 0.0], [1.0, 1.0])
    with pytest.raises(ValueError, match="cannot project onto the bounds"):
        project_euclidean(weights, [0.0, 0.0], [1.0, 1.0])
    with pytest.raises(ValueError, match=r"cannot project onto the bounds: -1\.0 is no weight"):
        project([1.0, -1.0], [0.0, 0.0], [1.0, 1.0])


def test_an_arm_whose_cap_is_0_gets_nothing() -> None:
    shares = project([9.0, 1.0, 1.0], [0.0] * 3, [0.0, 1.0, 1.0])
    assert shares[0] == 0.0
    assert shares[1:] == pytest.approx((0.5, 0.5))
    assert project_euclidean([9.0, 1.0, 1.0], [0.0] * 3, [0.0, 1.0, 1.0])[0] == 0.0


def test_weights_of_nothing_share_evenly() -> None:
    assert list(project([0.0] * 4, [0.0] * 4, [1.0] * 4)) == pytest.approx([0.25] * 4)


def test_a_weight_of_nothing_is_lifted_where_the_caps_of_others_demand_it() -> None:
    shares = project([1.0, 0.0, 0.0], [0.0] * 3, [0.5, 1.0, 1.0])
    assert list(shares) == pytest.approx([0.5, 0.25, 0.25])
