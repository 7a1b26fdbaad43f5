"""A draw falls into its arm's interval exactly as the trainer drew it."""

from __future__ import annotations

import pytest

from supervisor.core.draws import draw

MIX = (("a", 0.1), ("b", 0.0), ("c", 0.6), ("d", 0.3))


@pytest.mark.parametrize(
    ("number", "arm", "low", "high"),
    [(0.0, "a", 0.0, 0.1), (0.0999, "a", 0.0, 0.1), (0.5, "c", 0.1, 0.7), (0.99, "d", 0.7, 1.0)],
)
def test_a_draw_falls_to_the_arm_that_covers_it(
    number: float, arm: str, low: float, high: float
) -> None:
    found = draw(MIX, number, arm, None)
    assert found is not None
    assert (found.arm, found.holds, found.left_out) == (arm, True, ())
    assert (found.low, found.high) == pytest.approx((low, high))


def test_another_arm_than_the_drawn_one_does_not_hold() -> None:
    for served, propensity in (("d", None), ("c", 0.5), ("b", None)):
        found = draw(MIX, 0.5, served, propensity, failed=())
        assert found is not None
        assert (found.arm, found.holds) == ("c", False)
    assert draw((("a", 0.0),), 0.5, "a", None) is None


def test_an_arm_that_failed_is_left_out_and_the_others_share_its_part() -> None:
    found = draw(MIX, 0.5, "d", 0.3 / (0.1 + 0.3), failed=("a", "c"))
    assert found is not None
    assert (found.left_out, found.holds) == (("c",), True)
    assert (found.low, found.high) == pytest.approx((0.25, 1.0))
    none = draw(MIX, 0.2, "d", 0.75, failed=("c",))
    assert none is not None
    assert not none.holds


def test_a_share_told_in_place_of_its_part_of_the_sum_holds() -> None:
    thirds = (("a", 0.1), ("b", 0.2), ("c", 0.7 - 2e-16))
    assert 0.2 / sum(weight for _, weight in thirds) != 0.2
    found = draw(thirds, 0.2, "b", 0.2)
    assert found is not None
    assert found.holds
