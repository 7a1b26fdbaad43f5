"""The restart rule by itself: what an end counts for, and what follows a count."""

from __future__ import annotations

from dataclasses import replace

import pytest

from supervisor.core.messages import Cause
from supervisor.core.restarting import (
    Again,
    FallBack,
    GiveUp,
    Outcome,
    RestartPolicy,
    Restarts,
)

RULE = RestartPolicy()


def failed(resumed: int = 300, cause: Cause = Cause.FAILED, at: float = 0.0) -> Outcome:
    return Outcome(cause, resumed, ready=True, progress=False, at=at)


def after(*outcomes: Outcome) -> Restarts:
    restarts = Restarts(best=300)
    for outcome in outcomes:
        restarts = restarts.after(outcome)
    return restarts


def test_progress_takes_every_count_back() -> None:
    restarts = after(failed(), failed(), replace(failed(), progress=True))
    assert restarts == Restarts(best=300)
    assert RULE.next_step(restarts, older=True, now=0.0) == Again(0.0)


def test_the_wait_doubles_from_the_first_to_the_most() -> None:
    rule = RestartPolicy(first=1.0, most=10.0)
    assert [rule.delay(n) for n in range(7)] == [0, 1, 2, 4, 8, 10, 10]
    assert rule.delay(5000) == 10.0


def test_the_wait_is_spread_by_a_quarter_both_ways() -> None:
    assert (RULE.delay(1, 0.0), RULE.delay(1, 0.5)) == (0.375, 0.5)
    assert RULE.delay(1, 0.999999) < 0.625


def test_three_that_had_read_it_fall_back_and_two_do_not() -> None:
    assert isinstance(RULE.next_step(after(failed(), failed()), older=True, now=0.0), Again)
    step = RULE.next_step(after(failed(), failed(), failed()), older=True, now=0.0)
    assert isinstance(step, FallBack)
    assert (step.suspect, step.seconds) == (300, 2.0)


def test_three_with_nothing_older_give_up_and_say_what_was_tried() -> None:
    restarts = after(failed(), failed(), failed(), failed(200), failed(200), failed(200))
    step = RULE.next_step(restarts, older=False, now=60.0)
    assert isinstance(step, GiveUp)
    assert "no older seal" in step.why
    assert "step 300 3 times, step 200 3 times" in step.why


@pytest.mark.parametrize(
    "cause", [Cause.STOPPED, Cause.NOT_STARTED, Cause.UNKNOWN, Cause.FINISHED], ids=str
)
def test_an_end_that_no_checkpoint_caused_speaks_against_none(cause: Cause) -> None:
    restarts = after(*[failed(cause=cause)] * 10)
    assert (restarts.failures, restarts.against) == (10, 0)


@pytest.mark.parametrize(
    "cause",
    [Cause.FAILED, Cause.KILLED, Cause.OUT_OF_MEMORY, Cause.HUNG, Cause.BROKE_CONTRACT],
    ids=str,
)
def test_every_other_end_speaks_against_what_was_read(cause: Cause) -> None:
    assert after(failed(cause=cause)).against == 1
    assert after(replace(failed(cause=cause), ready=False)).against == 0


def test_what_was_sealed_again_below_the_best_stays_under_suspicion() -> None:
    restarts = after(failed(300), failed(200), failed(300), failed(300))
    assert (restarts.suspect, restarts.against) == (200, 3)
    assert restarts.at_rest_on(300) == restarts
    assert restarts.at_rest_on(100).against == 0


def test_two_hours_without_progress_give_up_whatever_the_attempts_had_read() -> None:
    blind = replace(failed(), ready=False)
    restarts = after(*(replace(blind, at=at) for at in (0.0, 10.0, 20.0)))
    assert isinstance(RULE.next_step(restarts, older=True, now=7200.0), Again)
    step = RULE.next_step(restarts, older=True, now=7201.0)
    assert isinstance(step, GiveUp)
    assert step.why == "no progress for 7201 s in 3 attempts: tried step 300 3 times"


def test_two_crashes_of_a_run_whose_seals_lie_hours_apart_do_not_give_up() -> None:
    restarts = after(failed(at=0.0), failed(at=9000.0))
    assert isinstance(RULE.next_step(restarts, older=True, now=9000.0), Again)


def test_the_words_of_what_was_tried_are_bounded() -> None:
    restarts = after(*(failed(step) for step in range(10_000, 0, -100)))
    assert len(restarts.tried) == 16
    assert restarts.failures == 100
