"""Pulls are never lost: whoever left, came back or never was an arm, the sum is the steps."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from supervisor.core.bandit import BanditState, count_steps, finish_phase, fresh, reconcile
from tests.support.ucb1 import LIVE, NAMES, UCB1, told
from trainer.contract.wire import ArmResult, Step

GONE = NAMES[0]


def step(number: int, arm: str) -> Step:
    return Step(number, 1.0, number, 3.0, "", arm, 3e-4, "", 1, ())


def without(state: BanditState, *names: str) -> BanditState:
    return reconcile(state, UCB1, LIVE - set(names), state.step)[0]


def test_a_step_of_an_arm_that_has_just_left_counts_to_its_numbers() -> None:
    """The trainer draws it until the phase that it has is over."""
    state = count_steps(fresh(UCB1, LIVE, 1), [step(1, GONE)])
    state = count_steps(without(state, GONE), [step(2, GONE), step(3, NAMES[1])])
    assert [(r.arm.name, r.arm.served, r.arm.last_step) for r in state.retired] == [(GONE, 2, 2)]
    assert state.served == 3


def test_a_pull_that_failed_because_the_arm_had_left_is_kept_apart() -> None:
    state = without(count_steps(fresh(UCB1, LIVE, 1), [step(1, GONE)]), GONE)
    state = finish_phase(state, UCB1, told(1, (ArmResult(GONE, 0, 7, None),)))
    (retired,) = state.retired
    assert (retired.arm.served, retired.arm.failed, retired.arm.requested) == (1, 7, 8)


def test_an_arm_that_leaves_twice_is_one_record_with_the_numbers_of_both_stays() -> None:
    state = fresh(UCB1, LIVE, 1)
    for stay, (loss, steps) in enumerate(((3.0, 2), (1.0, 6)), 1):
        for number, value in enumerate((5.0, loss), 2 * stay):
            state = count_steps(state, [step(n + 1, GONE) for n in range(steps)])
            state = finish_phase(state, UCB1, told(number, (ArmResult(GONE, steps, 1, value),)))
        state = without(state, GONE)
        state = reconcile(state, UCB1, LIVE, state.step)[0]
        assert next(arm for arm in state.arms if arm.name == GONE).n == 0
    (retired,) = state.retired
    assert (retired.arm.served, retired.arm.failed, retired.arm.n) == (16, 4, 8)
    assert state.served == 16


def test_what_is_no_arm_is_counted_by_name_up_to_a_few_names() -> None:
    state = count_steps(fresh(UCB1, LIVE, 1), [step(n, f"doc-{n}") for n in range(1, 101)])
    state = count_steps(state, [step(101, ""), step(102, "doc-3=2 arm01=1")])
    strangers = dict(state.strangers)
    assert len(strangers) == 9
    assert (strangers["doc-3"], strangers[""]) == (3, 93)
    assert state.served == 104


def test_a_fold_in_other_pieces_counts_the_same() -> None:
    steps = [step(n, f"doc-{n % 13}") for n in range(60, 0, -1)]
    whole = count_steps(fresh(UCB1, LIVE, 1), steps)
    single = fresh(UCB1, LIVE, 1)
    for one in steps:
        single = count_steps(single, [one])
    assert single == whole


PULLS = st.lists(
    st.tuples(st.sampled_from((*NAMES[:4], "stranger", "")), st.sets(st.sampled_from(NAMES[:4]))),
    max_size=40,
)


@given(PULLS)
@settings(max_examples=200, deadline=None, derandomize=True)
def test_served_pulls_are_the_steps_whoever_comes_and_goes(
    events: list[tuple[str, set[str]]],
) -> None:
    state = fresh(UCB1, LIVE, 1)
    for number, (arm, away) in enumerate(events, 1):
        state = count_steps(state, [step(number, arm)])
        state = without(replace(state, step=number), *away)
        assert state.served == number
        assert len(state.retired) <= 4
