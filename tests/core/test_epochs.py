"""Epochs to the end of the run: measured or by size, by share, and what floors alone force."""

from __future__ import annotations

from dataclasses import replace

import pytest

from supervisor.core.bandit import ArmState, count_steps, finish_phase, fresh
from supervisor.core.epochs import (
    at_end,
    by_size,
    forced,
    least_shares,
    limit_of,
    per_pull,
    refused,
    to_the_end,
)
from supervisor.core.policy import Algorithm, Arm, Policy, Unit
from trainer.contract.wire import ArmResult, Phase, Step

ARMS = (Arm("small", 0.05, 0.2), Arm("large", 0.0, 1.0))
POLICY = Policy(1, "d", Algorithm.STATIC, Unit.SHARE, ARMS, max_epochs=16.0)
BOTH = ("small", "large")


def pulls_of(state_step: int, arm: str, count: int) -> tuple[Step, ...]:
    return tuple(
        Step(n, 1.0, n, 3.0, "", arm, 3e-4, "", 1, ())
        for n in range(state_step + 1, state_step + count + 1)
    )


def report(number: int, first: int, last: int, epochs: float | None) -> Phase:
    result = ArmResult("small", last - first + 1, 0, 3.0, epochs)
    return Phase(1, 1.0, number, first, last, False, (), (result,))  # noqa: FBT003 - a report


def test_a_share_of_5_percent_of_200_000_steps_reads_1_400_documents_seven_times() -> None:
    """And 57 times where a step reads eight."""
    assert at_end(0.0, 1 / 1400, 0.05, 200_000) == pytest.approx(7.14, abs=0.01)
    assert at_end(0.0, 8 / 1400, 0.05, 200_000) == pytest.approx(57.1, abs=0.1)


def test_epochs_in_a_pull_are_measured_since_they_are_counted_together() -> None:
    state = fresh(POLICY, frozenset(BOTH), 1)
    for number, epochs in enumerate((7.5, 8.0, 9.0), 1):
        first = 10 * number - 9
        state = count_steps(state, pulls_of(first - 1, "small", 10))
        state = finish_phase(state, POLICY, report(number, first, first + 9, epochs))
    arm = next(arm for arm in state.arms if arm.name == "small")
    assert arm.epochs_from == (7.5, 10)
    assert per_pull(arm) == pytest.approx(1.5 / 20)


def test_a_count_of_epochs_that_begins_anew_is_measured_anew() -> None:
    """The trainer opened a source with other documents."""
    state = fresh(POLICY, frozenset(BOTH), 1)
    for number, epochs in enumerate((7.5, 8.0, 0.25, 0.5), 1):
        first = 10 * number - 9
        state = count_steps(state, pulls_of(first - 1, "small", 10))
        state = finish_phase(state, POLICY, report(number, first, first + 9, epochs))
    arm = next(arm for arm in state.arms if arm.name == "small")
    assert (arm.epochs, arm.epochs_from) == (0.5, (0.25, 30))
    assert per_pull(arm) == pytest.approx(0.025)


def test_epochs_read_before_a_pivot_are_no_pulls_of_the_new_policy() -> None:
    arm = ArmState("small", served=900, epochs=9.0, epochs_from=(1.0, 100))
    before = replace(fresh(POLICY, frozenset(BOTH), 1), arms=(arm,))
    after = fresh(replace(POLICY, number=2), frozenset(BOTH), 1, before, 900)
    small = next(arm for arm in after.arms if arm.name == "small")
    assert (small.epochs, small.epochs_from, per_pull(small)) == (9.0, (9.0, 0), None)


def test_what_nobody_measured_is_not_foreseen() -> None:
    assert per_pull(ArmState("small")) is None
    assert per_pull(ArmState("small", served=10, epochs=1.0, epochs_from=(1.0, 10))) is None
    assert by_size(0, 128) is None
    (reading,) = to_the_end({"small": 0.5}, {"small": None}, {}, 1000)
    assert (reading.so_far, reading.per_pull, reading.at_end) == (0.0, None, None)


def test_each_source_is_read_by_its_share_of_what_is_left() -> None:
    found = to_the_end(
        {"small": 0.05, "large": 0.95}, {"small": 3.0}, {"small": 1 / 1400, "large": 1e-6}, 140_000
    )
    assert [(r.arm, pytest.approx(r.at_end)) for r in found] == [("small", 8.0), ("large", 0.133)]


def test_the_bounds_give_at_least_the_floor_or_what_the_other_caps_leave() -> None:
    assert least_shares(POLICY, BOTH) == {"small": 0.05, "large": 0.8}
    assert least_shares(POLICY, ("large",)) == {"large": 1.0}
    arms = (Arm("a", 0.8, 1.0), Arm("b", 0.0, 1.2))
    weights = replace(POLICY, unit=Unit.WEIGHT, arms=arms)
    assert least_shares(weights, "ab") == {"a": pytest.approx(0.4), "b": 0.0}


def test_a_floor_that_forces_more_epochs_than_allowed_is_named() -> None:
    rates = {"small": 8 / 1400, "large": 1e-9}
    (small,) = forced(POLICY, BOTH, {}, rates, 200_000)
    assert (small.arm, small.share) == ("small", 0.05)
    assert small.at_end == pytest.approx(57.1, abs=0.1)
    assert forced(POLICY, BOTH, {}, rates, 50_000) == ()
    assert forced(replace(POLICY, max_epochs=0.0), BOTH, {}, rates, 200_000) == ()
    assert forced(POLICY, BOTH, {"small": 16.0}, rates, 200_000) == ()  # it has left


def test_without_a_setting_the_limit_is_where_returns_fade() -> None:
    assert limit_of(POLICY) == 16.0
    assert limit_of(replace(POLICY, max_epochs=4.0)) == 4.0
    assert limit_of(replace(POLICY, max_epochs=0.0)) == 16.0


def test_a_new_policy_whose_floor_forces_too_many_epochs_is_refused_by_name() -> None:
    read = ArmState("small", served=1000, epochs=3.0, epochs_from=(1.0, 0))
    (line,) = refused(POLICY, (read, ArmState("large")), 200_000)
    assert line.startswith("arms.small: its bounds give it 0.05 of all pulls at least, so it is")
    assert "read 23.0 times by the end of the run; max_epochs is 16" in line
    assert refused(POLICY, (read,), 100_000) == ()
    assert refused(POLICY, (ArmState("small"),), 200_000) == ()  # nobody has counted it
