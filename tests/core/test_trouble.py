"""Histories of a disk that takes nothing: training is held, silence means nothing, stops end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from supervisor.core.beginning import Found
from supervisor.core.hanging import budget
from supervisor.core.messages import (
    Cause,
    CloseAttempt,
    DiskSeen,
    Effect,
    Exit,
    GiveOrders,
    Journal,
    Say,
    Signalled,
    SignalTrainer,
    Spawn,
)
from supervisor.core.restarting import Outcome
from supervisor.core.state import Life
from supervisor.core.trouble import PATIENCE
from tests.support.history import History, fresh_state, running, with_seals

FULL = DiskSeen("12 KiB are free in /run")
WELL = DiskSeen("")


def holds(effects: list[Effect]) -> list[str | None]:
    """What the orders among these say of holding."""
    return [effect.orders.hold for effect in effects if isinstance(effect, GiveOrders)]


def alarms(effects: list[Effect]) -> list[str]:
    return [effect.text for effect in effects if isinstance(effect, Say) and effect.alarm]


def test_a_full_disk_holds_the_trainer_and_says_why_once() -> None:
    history = running(50)
    serial = history.state.orders.serial
    effects = history.tell(FULL)
    assert holds(effects) == [FULL.trouble]
    assert history.state.orders.serial > serial
    assert [FULL.trouble in alarm for alarm in alarms(effects)] == [True]
    assert history.journal("disk-trouble") == [{"trouble": FULL.trouble}]
    assert history.tell(FULL, DiskSeen("cannot append to the ledger: No space left")) == []
    assert history.state.trouble == FULL.trouble


def test_it_goes_on_by_itself_when_there_is_room() -> None:
    history = running(50)
    history.tell(FULL)
    effects = history.tell(WELL)
    assert holds(effects) == [None]
    assert len(alarms(effects)) == 1
    assert history.state.trouble == ""
    assert history.journal("disk-well") == [{"trouble": FULL.trouble}]
    assert history.tell(WELL) == []


def test_every_order_given_meanwhile_holds_too() -> None:
    history = running(50)
    history.tell(FULL)
    assert holds(history.ask("save")) == [FULL.trouble]
    history.checkpoint(50)
    assert history.state.orders.hold == FULL.trouble


def test_no_silence_is_a_hang_while_the_disk_takes_nothing() -> None:
    history = running(50)
    assert budget(history.state) is not None
    history.tell(FULL)
    assert budget(history.state) is None


def test_an_attempt_begun_meanwhile_begins_held() -> None:
    history = running(50, with_seals(fresh_state(), 40))
    history.tell(FULL)
    history.end()
    history.wait()
    spawn = history.all_of(Spawn)[-1]
    assert (spawn.attempt, spawn.orders.hold) == (2, FULL.trouble)
    history.tell(WELL)
    assert history.state.orders.hold is None


def test_a_hold_that_an_earlier_supervisor_left_is_lifted() -> None:
    before = running(50).state
    left = before.orders._replace(hold="12 KiB are free in /run")
    history = History(replace(fresh_state(), orders=left, last_attempt=1))
    effects = history.begin(Found(before.attempt, None, stop_unfinished=False))
    assert holds(effects) == [None]


def test_ends_while_the_disk_takes_nothing_count_against_nothing() -> None:
    history = running(50, with_seals(fresh_state(), 40, 30))
    before = history.state.restarts
    for _ in range(5):
        history.tell(FULL)
        history.end(status=1)
        assert history.state.life is Life.BACKOFF
        history.wait()
        history.spawned()
        history.ready()
    assert history.state.restarts == before
    # A supervisor that starts later has the records alone to count by.
    ends = [effect.facts for effect in history.all_of(CloseAttempt)]
    assert [facts["cause"] for facts in ends] == [Cause.NO_ROOM] * 5
    outcome = Outcome(Cause.NO_ROOM, 40, ready=True, progress=False, at=history.now)
    assert before.after(outcome) == before
    assert history.state.seals[0].point.step == 40


def stuck_stop(history: History) -> list[Effect]:
    """A stop of a trainer whose last steps the ledger does not take, until its patience ends."""
    history.tell(FULL)
    history.steps(51, 53, recorded=False)
    history.tell(Signalled("TERM"))
    history.end(status=1)
    assert history.state.life is Life.DRAINING
    assert history.all_of(Exit) == []
    return history.wait()


def test_a_stop_on_a_full_disk_ends_and_names_what_is_left() -> None:
    history = running(50)
    began = history.now
    effects = stuck_stop(history)
    assert history.now - began <= PATIENCE
    assert [effect.code for effect in effects if isinstance(effect, Exit)] == [1]
    assert "record steps 51 to 53 in the ledger" in alarms(effects)[0]


def test_such_a_stop_records_no_end_so_that_the_next_start_reads_the_reports() -> None:
    history = running(50)
    stuck_stop(history)
    assert history.journal("attempt-ended") == []


def test_a_stop_names_the_checkpoint_that_could_not_be_sealed() -> None:
    history = running(50)
    history.tell(FULL)
    history.tell(Signalled("TERM"))
    history.checkpoint(50, "stop")
    history.verified(50)
    history.end(status=0)
    assert "seal the checkpoint of step 50" in alarms(history.wait())[0]


def test_room_that_comes_in_time_lets_the_stop_end_well() -> None:
    history = running(50)
    history.tell(FULL)
    history.steps(51, 53, recorded=False)
    history.tell(Signalled("TERM"))
    history.end(status=1)
    history.tell(WELL)
    assert history.state.deadline is None
    effects = history.recorded(53)
    assert [effect.code for effect in effects if isinstance(effect, Exit)] == [0]


def test_a_killed_trainer_whose_end_nobody_sees_does_not_keep_a_stop_for_ever() -> None:
    history = running(50)
    history.tell(FULL)
    history.ask("stop", now=True)
    assert history.state.life is Life.KILLING
    effects = history.wait()
    assert [effect.code for effect in effects if isinstance(effect, Exit)] == [1]


def test_a_pivot_whose_files_cannot_move_does_not_keep_a_stop_for_ever() -> None:
    history = running(50)
    history.pivot()
    serial = history.state.orders.save.serial if history.state.orders.save else 0
    history.steps(51, 100)
    history.seal(100, "signal", serial)
    history.finished("order")
    history.end(status=0)
    assert history.state.life is Life.IDLE
    history.tell(FULL)
    assert history.tell(Signalled("TERM"))[-1:] != [Exit(0)]
    effects = history.wait()
    assert "finish the pivot" in alarms(effects)[0]
    assert [effect.code for effect in effects if isinstance(effect, Exit)] == [1]


@pytest.mark.parametrize("event", [FULL, WELL])
def test_without_a_trainer_it_is_noted_and_no_more(event: DiskSeen) -> None:
    history = running(50)
    history.end(status=1)
    assert history.state.life is Life.BACKOFF
    deadline = history.state.deadline
    effects = history.tell(event)
    assert history.state.deadline == deadline
    assert not [e for e in effects if isinstance(e, GiveOrders | SignalTrainer)]
    assert len([e for e in effects if isinstance(e, Journal)]) == bool(event.trouble)
