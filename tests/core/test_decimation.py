"""Decimation keeps the extremes of every stretch, both ends, and never more than it may."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.decimation import decimate, stretches

finite = st.floats(allow_nan=False, allow_infinity=False)
series = st.lists(finite | st.sampled_from([0.0, 1.0]), max_size=300)


@given(series, st.integers(4, 60))
def test_what_is_kept_are_at_most_so_many_places_in_order_with_both_ends(
    values: list[float], most: int
) -> None:
    kept = decimate(values, most)
    assert len(kept) <= most
    assert kept == sorted(set(kept))
    if values:
        assert (kept[0], kept[-1]) == (0, len(values) - 1)
    if len(values) <= most:
        assert kept == list(range(len(values)))


@given(series, st.integers(4, 60))
def test_the_extremes_of_the_whole_and_of_every_stretch_are_kept(
    values: list[float], most: int
) -> None:
    shown = [values[at] for at in decimate(values, most)]
    assert (max(shown, default=0), min(shown, default=0)) == (
        max(values, default=0),
        min(values, default=0),
    )
    kept = set(decimate(values, most))
    for start, stop in stretches(1, len(values) - 1, (most - 2) // 2):
        here = [values[at] for at in range(start, stop) if at in kept]
        assert (min(here), max(here)) == (min(values[start:stop]), max(values[start:stop]))


def test_a_single_spike_in_a_million_is_kept() -> None:
    values = [1.0] * 1_000_000
    values[654_321] = 9.0
    assert 654_321 in decimate(values, 2400)


@given(st.integers(0, 50), st.integers(0, 500), st.integers(1, 40))
def test_stretches_are_of_one_length_to_within_one_and_leave_nothing_out(
    start: int, length: int, most: int
) -> None:
    found = stretches(start, start + length, most)
    assert [at for first, stop in found for at in range(first, stop)] == list(
        range(start, start + length)
    )
    assert len(found) <= most
    lengths = {stop - first for first, stop in found}
    assert not lengths or max(lengths) - min(lengths) <= 1


def test_fewer_points_than_both_ends_and_both_extremes_are_refused() -> None:
    with pytest.raises(ValueError, match="cannot keep 3 points"):
        decimate([1.0], 3)
