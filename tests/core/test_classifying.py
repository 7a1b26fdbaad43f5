"""What an attempt's end is called: one rule after the other, the first that holds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from supervisor.core.classifying import classify
from supervisor.core.messages import Cause, ReportsPosition
from supervisor.core.state import Attempt, Ending

TRAINING = Attempt(3, 1, None, ReportsPosition(3, 9, 900), 50, 0.0, 0, 0, ready=True)


def called(
    status: int | None,
    *,
    oom: bool = False,
    stopping: bool = False,
    held: bool = False,
    **changes: object,
) -> Cause:
    ending = Ending(status, out_of_memory=oom, draw=0.5)
    attempt = replace(TRAINING, ending=ending, **changes)  # type: ignore[arg-type] # by name
    return classify(attempt, stopping=stopping, held=held)


def test_all_steps_done_and_a_good_exit_is_finished() -> None:
    assert called(0, finished="steps") is Cause.FINISHED
    assert called(None, finished="steps") is Cause.FINISHED


@pytest.mark.parametrize("reason", ["stop", "order"])
def test_ended_of_its_own_will_before_the_last_step_is_stopped(reason: str) -> None:
    assert called(0, finished=reason) is Cause.STOPPED
    assert called(None, finished=reason) is Cause.STOPPED


@pytest.mark.parametrize("status", [1, 3, 139, -11, -6, -15])
def test_a_bad_exit_or_a_fatal_signal_is_failed(status: int) -> None:
    assert called(status) is Cause.FAILED


def test_a_good_exit_without_a_word_is_failed_too() -> None:
    assert called(0) is Cause.FAILED


def test_a_bad_exit_after_the_last_step_is_failed() -> None:
    assert called(1, finished="steps") is Cause.FAILED


def test_sigkill_from_outside_is_killed() -> None:
    assert called(-9) is Cause.KILLED
    assert called(-9, ready=False) is Cause.KILLED


def test_sigkill_where_a_stop_was_wanted_is_stopped() -> None:
    assert called(-9, stopping=True) is Cause.STOPPED


@pytest.mark.parametrize("status", [-9, None])
def test_killed_while_the_kernel_counted_a_victim_is_out_of_memory(status: int | None) -> None:
    assert called(status, oom=True) is Cause.OUT_OF_MEMORY


@pytest.mark.parametrize("status", [0, None])
def test_a_worker_killed_for_memory_does_not_name_the_end_of_the_trainer(
    status: int | None,
) -> None:
    assert called(status, oom=True, finished="steps") is Cause.FINISHED


def test_a_bad_exit_is_no_want_of_memory_though_a_worker_was_killed_for_it() -> None:
    assert called(1, oom=True) is Cause.FAILED


def test_a_bad_exit_before_it_was_ready_is_never_ready() -> None:
    assert called(1, ready=False) is Cause.NEVER_READY


def test_an_end_that_nobody_could_wait_for_is_unknown() -> None:
    assert called(None) is Cause.UNKNOWN
    assert called(None, ready=False) is Cause.UNKNOWN


@pytest.mark.parametrize("cause", [Cause.HUNG, Cause.BROKE_CONTRACT, Cause.NOT_STARTED], ids=str)
def test_a_verdict_of_ours_stands_whatever_the_process_says(cause: Cause) -> None:
    assert called(-9, cause=cause, oom=True, finished="steps") is cause


@pytest.mark.parametrize("cause", [None, Cause.HUNG, Cause.NOT_STARTED], ids=str)
def test_an_end_while_the_disk_takes_nothing_is_called_so_unless_something_was_sealed(
    cause: Cause | None,
) -> None:
    assert called(1, held=True, cause=cause) is Cause.NO_ROOM
    assert called(1, held=True, cause=cause, sealed=True) is not Cause.NO_ROOM
    assert called(0, held=True, finished="steps") is Cause.FINISHED
