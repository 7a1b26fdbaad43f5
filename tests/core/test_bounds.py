"""Properties of the projection onto floors and caps, against a slow reference."""

from __future__ import annotations

import math
import random
import time

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from supervisor.core.bounds import infeasible, project

Case = tuple[list[float], list[float], list[float]]
SHARE = st.floats(0.0, 1.0)
WEIGHT = st.one_of(st.just(0.0), st.floats(1e-9, 1e9))


def bisected(weights: list[float], floors: list[float], caps: list[float]) -> list[float]:
    """The KL projection by bisection on the multiplier: slow, and evidently right.

    A weight of 0 counts as a trillionth of the largest, so that caps elsewhere can be met.
    """
    largest = max(weights)
    scaled = [max(w / largest, 1e-12) if largest > 0 else 1.0 for w in weights]

    def shares(multiplier: float) -> list[float]:
        return [
            min(cap, max(floor, multiplier * w))
            for w, floor, cap in zip(scaled, floors, caps, strict=True)
        ]

    low, high = 0.0, 1e13
    for _ in range(120):
        middle = math.sqrt(low * high) if low > 1e-300 else high / 2**20
        if math.fsum(shares(middle)) < 1.0:
            low = middle
        else:
            high = middle
    return shares(high)


def a_case(rng: random.Random) -> Case:
    """A feasible case of 1 to 16 arms, tight or loose, with some bounds equal."""
    count = rng.randint(1, 16)
    inside = [rng.random() ** rng.choice((1, 4)) + 1e-3 for _ in range(count)]
    inside = [value / sum(inside) for value in inside]
    tight = rng.choice((0.0, 0.3, 0.9, 1.0))
    floors = [value * rng.choice((tight, tight * rng.random(), 0.0)) for value in inside]
    caps = [
        min(1.0, value + (1.0 - value) * rng.choice((1.0 - tight, rng.random(), 1.0)))
        for value in inside
    ]
    weights = [rng.choice((rng.random(), rng.random() ** 8, 0.0, 1.0)) for _ in range(count)]
    return weights, floors, caps


def test_thousands_of_random_cases_equal_the_bisection() -> None:
    rng = random.Random(6.4)  # noqa: S311 - chance that can be repeated
    compared = 0
    for _ in range(4000):
        weights, floors, caps = a_case(rng)
        if infeasible(floors, caps) or sum(caps) < 1.0 or sum(floors) > 1.0:
            continue
        compared += 1
        shares = project(weights, floors, caps)
        assert sum(shares) == pytest.approx(1.0, abs=1e-12)
        for share, floor, cap in zip(shares, floors, caps, strict=True):
            assert floor <= share <= cap
        assert list(shares) == pytest.approx(bisected(weights, floors, caps), abs=1e-9)
    assert compared > 3000


@given(st.lists(st.tuples(WEIGHT, SHARE, SHARE), min_size=1, max_size=16))
@settings(max_examples=500, deadline=None, derandomize=True)
def test_shares_sum_to_1_within_their_bounds_or_are_refused(
    arms: list[tuple[float, float, float]],
) -> None:
    weights = [w for w, _, _ in arms]
    floors = [min(a, b) for _, a, b in arms]
    caps = [max(a, b) for _, a, b in arms]
    if infeasible(floors, caps):
        with pytest.raises(ValueError, match="cannot project onto the bounds"):
            project(weights, floors, caps)
        return
    assume(math.fsum(floors) <= 1.0 <= math.fsum(caps))
    shares = project(weights, floors, caps)
    assert math.fsum(shares) == pytest.approx(1.0, abs=1e-12)
    assert all(f <= p <= c for p, f, c in zip(shares, floors, caps, strict=True))


@given(st.lists(st.floats(1e-6, 1e6), min_size=2, max_size=16), st.floats(1e-6, 1e6))
@settings(max_examples=200, deadline=None, derandomize=True)
def test_without_bounds_shares_are_proportions_whatever_the_scale(
    weights: list[float], scale: float
) -> None:
    none, one = [0.0] * len(weights), [1.0] * len(weights)
    shares = project([w * scale for w in weights], none, one)
    total = math.fsum(weights)
    assert list(shares) == pytest.approx([w / total for w in weights], rel=1e-6, abs=1e-12)


def test_the_published_example_is_exact_where_clamping_is_not() -> None:
    shares = project([0.60, 0.25, 0.05, 0.04, 0.03, 0.03], [0.1] * 6, [0.3] * 6)
    assert list(shares) == pytest.approx([0.3, 0.3, 0.1, 0.1, 0.1, 0.1], abs=1e-12)


def test_shares_between_their_bounds_keep_their_proportions() -> None:
    weights = [5.0, 3.0, 1.0, 0.1]
    shares = project(weights, [0.0, 0.0, 0.0, 0.2], [0.4, 1.0, 1.0, 1.0])
    assert shares[0] == pytest.approx(0.4)
    assert shares[3] == pytest.approx(0.2)
    assert shares[1] / shares[2] == pytest.approx(3.0)


@pytest.mark.parametrize(
    ("floors", "caps", "why"),
    [
        ([0.6, 0.6], [1.0, 1.0], "the floors sum to 1.2, more than 1"),
        ([0.0, 0.0], [0.4, 0.4], "the caps sum to 0.8, less than 1"),
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


def test_an_arm_whose_cap_is_0_gets_nothing() -> None:
    shares = project([9.0, 1.0, 1.0], [0.0] * 3, [0.0, 1.0, 1.0])
    assert shares[0] == 0.0
    assert shares[1:] == pytest.approx((0.5, 0.5))


def test_weights_of_nothing_share_evenly() -> None:
    assert list(project([0.0] * 4, [0.0] * 4, [1.0] * 4)) == pytest.approx([0.25] * 4)


def test_a_weight_of_nothing_is_lifted_where_the_caps_of_others_demand_it() -> None:
    shares = project([1.0, 0.0, 0.0], [0.0] * 3, [0.5, 1.0, 1.0])
    assert list(shares) == pytest.approx([0.5, 0.25, 0.25])


def test_the_sweep_is_fast_for_16_arms(capsys: pytest.CaptureFixture[str]) -> None:
    """The time is printed, not asserted: machines differ."""
    rng = random.Random(1)  # noqa: S311 - chance that can be repeated
    weights = [rng.random() for _ in range(16)]
    rounds = 2000
    began = time.perf_counter()
    for _ in range(rounds):
        project(weights, [0.01] * 16, [0.3] * 16)
    with capsys.disabled():
        print(f" [{(time.perf_counter() - began) / rounds * 1e6:.0f} us at K = 16] ", end="")  # noqa: T201 - a figure
