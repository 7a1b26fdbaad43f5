"""Histories of checkpoints of an earlier life: read back before one is used, or rejected."""

from __future__ import annotations

from dataclasses import replace

import pytest

from supervisor.core.beginning import Found
from supervisor.core.messages import (
    Exit,
    Prove,
    Proved,
    Reject,
    ReportsPosition,
    Retain,
    Say,
    Signalled,
    Spawn,
)
from supervisor.core.state import Attempt, Life, Settings, State
from tests.support.history import NOTHING, History, fresh_state, point, with_seals


def earlier(*steps: int, everything: bool = False) -> State:
    """A state whose seals are of an earlier life."""
    state = with_seals(fresh_state(), *steps)
    seals = tuple(replace(seal, proved=False) for seal in state.seals)
    settings: Settings = replace(state.settings, prove_all=everything)
    return replace(state, seals=seals, sealed_before=True, settings=settings)


def told(step: int, problem: str = "", *, doubt: bool = False) -> Proved:
    return Proved(step, point(step).seal, f"step_{step:06d}.bin", problem, doubt)


def begun(*steps: int, everything: bool = False) -> History:
    history = History(earlier(*steps, everything=everything))
    history.begin(NOTHING)
    return history


def resumed(history: History) -> list[int]:
    return [spawn.resume.step for spawn in history.all_of(Spawn) if spawn.resume]


def test_an_attempt_waits_for_the_newest_two_and_for_no_other() -> None:
    history = begun(400, 300, 200, 100)
    assert history.state.life is Life.PROVING
    assert history.all_of(Prove) == [Prove((point(400), point(300)))]
    history.tell(told(400))
    assert resumed(history) == []
    history.tell(told(300))
    assert resumed(history) == [400]
    assert len([say for say in history.all_of(Say) if "reading" in say.text]) == 1


def test_a_bad_one_is_rejected_and_the_next_older_one_waited_for() -> None:
    history = begun(400, 300, 200, 100)
    history.tell(told(400, "sha256: expected a, found b"))
    assert history.all_of(Reject) == [Reject(point(400).seal, "sha256: expected a, found b")]
    facts = history.journal("checkpoint-rejected")[0]
    assert (facts["step"], facts["seal"]) == (400, point(400).seal)
    assert facts["problem"]
    assert history.all_of(Prove)[-1] == Prove((point(300), point(200)))
    history.tell(told(300), told(200))
    assert resumed(history) == [300]


def test_all_are_waited_for_where_that_is_asked_for() -> None:
    history = begun(300, 200, 100, everything=True)
    history.tell(told(300), told(200))
    assert resumed(history) == []
    history.tell(told(100, "bad"))
    assert resumed(history) == [300]


def test_where_all_are_bad_nothing_begins_anew() -> None:
    history = begun(200, 100)
    history.tell(told(200, "bad"), told(100, "bad"))
    assert history.all_of(Exit) == [Exit(11)]
    assert not history.all_of(Spawn)


def test_doubt_about_the_newest_refuses_and_rejects_nothing() -> None:
    history = begun(200, 100)
    history.tell(told(200, "cannot tell whether it is good", doubt=True))
    assert history.all_of(Exit) == [Exit(11)]
    assert not history.all_of(Reject)
    assert "move step_000200.bin away to go on from step 100" in history.all_of(Say)[-1].text


def test_doubt_about_an_older_one_is_an_alarm_until_it_would_be_used() -> None:
    history = begun(300, 200, 100)
    history.tell(told(200, "cannot tell whether it is good", doubt=True))
    assert history.all_of(Exit) == []
    history.tell(told(300, "bad"))
    assert history.all_of(Prove)[-1] == Prove((point(200), point(100)))
    history.tell(told(200), told(100))
    assert resumed(history) == [200]


@pytest.mark.parametrize("how", ["signal", "verb"])
def test_a_stop_ends_the_waiting_at_once(how: str) -> None:
    history = begun(200, 100)
    if how == "verb":
        history.ask("stop", by="operator")
    else:
        history.tell(Signalled("TERM"))
    assert history.all_of(Exit) == [Exit(0)]
    history.tell(told(200), told(100))
    assert not history.all_of(Spawn)


def adopted(step: int, *steps: int) -> History:
    """A living trainer that resumed from ``step``, the newest of the seals of earlier lives."""
    history = History(earlier(step, *steps))
    at = history.state.seals[0].point
    begun = ReportsPosition(1, 0, 0)
    attempt = Attempt(1, 1, at, begun, step, 0.0, step, step, pid=7, ready=True)
    history.state = replace(history.state, last_attempt=1)
    history.begin(Found(attempt, None, stop_unfinished=False))
    return history


def test_with_a_living_trainer_nothing_waits_and_a_bad_seal_costs_no_step() -> None:
    history = adopted(300, 200, 100)
    assert history.state.life is Life.RUNNING
    assert not history.all_of(Prove)
    history.tell(told(300, "bad"))
    assert "resumed from it" in history.all_of(Say)[-1].text
    assert history.state.attempt is not None
    history.end()
    assert resumed(history) == []
    history.wait()
    history.tell(told(200), told(100))
    assert resumed(history) == [200]


def test_nothing_is_deleted_before_the_newest_two_are_proved() -> None:
    history = adopted(300, 200, 100)
    history.steps(301, 400)
    history.seal(400)
    assert not history.all_of(Retain)  # 300 may be bad, and then 200 is needed
    history.tell(told(300))
    history.steps(401, 500)
    history.seal(500)
    assert len(history.all_of(Retain)) == 1


def test_what_was_sealed_in_this_life_is_not_waited_for() -> None:
    history = begun(200, 100)
    history.tell(told(200), told(100))
    asked = history.all_of(Prove)
    history.spawned(200)
    history.ready()
    history.steps(201, 300)
    history.seal(300)
    history.end()
    assert resumed(history) == [200, 300]
    assert history.all_of(Prove) == asked
