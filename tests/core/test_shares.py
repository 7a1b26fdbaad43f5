"""Shares over time: windows never cross a pivot, and phases that were taken back do not count."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.shares import Ordered, Window, drawn, ordered, standing, windows


@given(st.lists(st.integers(1, 400), min_size=1, max_size=6), st.integers(1, 50))
def test_windows_hold_every_step_once_and_none_crosses_a_pivot(
    lengths: list[int], most: int
) -> None:
    spans, first = [], 1
    for policy, length in enumerate(lengths, 1):
        spans.append(Window(first, first + length - 1, policy))
        first += length
    found = windows(spans, most)
    assert [step for window in found for step in range(window.first, window.last + 1)] == list(
        range(1, first)
    )
    assert len(found) <= most + len(spans)
    for window in found:
        [span] = [span for span in spans if span.policy == window.policy]
        assert span.first <= window.first <= window.last <= span.last


def test_a_mixed_step_counts_as_one_step_of_all_its_arms() -> None:
    shares = drawn({"a": 2, "a=3 b=1": 4})
    assert shares == {"a": pytest.approx(5 / 6), "b": pytest.approx(1 / 6)}
    assert drawn({}) == {}


def test_ordered_shares_are_means_over_the_steps_that_phases_cover() -> None:
    phases = [
        Ordered(1, 10, (("a", 1.0),)),
        Ordered(11, 40, (("a", 0.5), ("b", 0.5))),
    ]
    found = ordered([Window(1, 20, 1), Window(21, 30, 1), Window(41, 50, 1)], phases)
    assert found[0] == {"a": pytest.approx(0.75), "b": pytest.approx(0.25)}
    assert found[1] == {"a": 0.5, "b": 0.5}
    assert found[2] == {}


def test_a_life_takes_back_the_phases_above_the_step_that_it_resumed_from() -> None:
    a, b, c = (("a", 1.0),), (("b", 1.0),), (("c", 1.0),)
    lives = [
        (0, [Ordered(1, 10, a), Ordered(11, 20, b), Ordered(21, 30, b)]),
        (15, [Ordered(16, 25, c)]),
    ]
    assert standing(lives) == [Ordered(1, 10, a), Ordered(11, 15, b), Ordered(16, 25, c)]
