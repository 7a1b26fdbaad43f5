"""How often to save: the formula against what it claims to minimise."""

from __future__ import annotations

from math import exp

from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.cadence import best_interval, overhead, round_steps, waste


def run_time(interval: float, save: float, between: float) -> float:
    """Daly's complete model (his equation 20, no restart time): time for one unit of work."""
    return between * (exp((interval + save) / between) - 1) / interval


@given(st.floats(0.01, 60), st.floats(600, 1e6))
def test_no_other_interval_is_much_better(save: float, between: float) -> None:
    best = best_interval(save, between)
    least = run_time(best, save, between)
    for factor in (0.5, 0.8, 0.95, 1.05, 1.25, 2.0):
        assert least <= run_time(best * factor, save, between) * 1.0005


def test_known_values() -> None:
    """Young's first order for a save of 8 s and a failure every hour is 240 s."""
    assert round(best_interval(8, 3600)) == 235
    assert best_interval(8, 3) == 3
    assert overhead(1, 99) == 0.01
    assert waste(1, 99, 990) == 0.01 + 0.05


@given(st.floats(0, 1e9))
def test_a_cadence_is_a_round_number_of_steps(steps: float) -> None:
    rounded = round_steps(steps)
    assert rounded >= 1
    assert str(rounded).rstrip("0") in ("1", "2", "5")
    assert rounded <= max(1, steps) < 2.5 * rounded + 1
