"""Smoothed views and the decimated series of a plot."""

from __future__ import annotations

import math
import random
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.smoothing import decimate, ema, smma

SERIES = st.lists(st.none() | st.floats(-1e6, 1e6), max_size=200)


def test_ema_starts_at_the_first_value_and_moves_by_alpha() -> None:
    assert list(ema([4.0, 2.0, None, 0.0], 0.5)) == [4.0, 3.0, 3.0, 1.5]
    assert list(ema([None, 4.0], 0.5)) == [None, 4.0]
    assert list(ema([1.0, 2.0], 1.0)) == [1.0, 2.0]


def test_smma_is_seeded_by_the_plain_mean_of_the_first_n() -> None:
    assert list(smma([3.0, 6.0, 9.0, 12.0, 0.0], 3)) == pytest.approx(
        [None, None, 6.0, 8.0, 16 / 3]
    )
    assert list(smma([1.0, None, 3.0, None, 4.0], 2)) == [None, None, 2.0, 2.0, 3.0]
    assert list(smma([5.0, 7.0], 1)) == [5.0, 7.0]


def test_smma_is_an_ema_with_alpha_one_nth_once_it_is_seeded() -> None:
    chance = random.Random(1)  # noqa: S311 - values for a test
    values = [chance.random() for _ in range(500)]
    seed = sum(values[:20]) / 20
    expected = islice(ema([seed, *values[20:]], 1 / 20), 1, None)
    assert list(smma(values, 20))[20:] == pytest.approx(list(expected), rel=1e-12)


@pytest.mark.parametrize("alpha", [0.0, -0.1, 1.1, math.nan])
def test_an_alpha_that_smooths_nothing_is_refused(alpha: float) -> None:
    with pytest.raises(ValueError, match="cannot smooth"):
        ema([1.0], alpha)


def test_a_window_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot smooth"):
        smma([1.0], 0)
    with pytest.raises(ValueError, match="cannot draw"):
        decimate([], 0)


@given(SERIES, st.integers(1, 40))
def test_decimation_keeps_extremes_order_and_every_step(
    values: list[float | None], width: int
) -> None:
    points = list(enumerate(values, 1))
    buckets = decimate(points, width)
    assert len(buckets) <= width or len(values) <= 2 * width
    assert len(buckets) <= width
    known = [value for value in values if value is not None]
    assert min((b.low for b in buckets if b.low is not None), default=None) == min(
        known, default=None
    )
    assert max((b.high for b in buckets if b.high is not None), default=None) == max(
        known, default=None
    )
    assert sum(b.unknown for b in buckets) == len(values) - len(known)
    covered = [n for b in buckets for n in range(b.first, b.last + 1)]
    assert covered == [n for n, _ in points]
    for b in buckets:
        inside = [v for v in values[b.first - 1 : b.last] if v is not None]
        assert (b.low, b.high) == (min(inside, default=None), max(inside, default=None))
        assert b.end == (inside[-1] if inside else None)


def test_decimation_of_a_long_series_is_even() -> None:
    buckets = decimate(((n, float(n)) for n in range(1, 100_001)), 80)
    sizes = {b.last - b.first + 1 for b in buckets[:-1]}
    assert 40 <= len(buckets) <= 80
    assert len(sizes) == 1
