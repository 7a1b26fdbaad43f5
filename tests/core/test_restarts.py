"""Histories of what follows an end: at once, after a while, from an older checkpoint, or never."""

from __future__ import annotations

from dataclasses import replace

import pytest

from supervisor.core.messages import (
    Exit,
    KeepBandit,
    Reject,
    Spawn,
    SpawnFailed,
)
from supervisor.core.restarting import Restarts
from supervisor.core.state import Life, SealPoint, State
from tests.support.history import NEW, History, fresh_state, point, running, with_seals


def delays(history: History, ends: int, draw: float = 0.5) -> list[float]:
    """Seconds until the next attempt after each of these ends, all without progress."""
    found = []
    for _ in range(ends):
        history.end(status=1, draw=draw)
        assert history.state.life is Life.BACKOFF
        assert history.state.deadline is not None
        found.append(history.state.deadline - history.now)
        history.wait()
        assert history.state.life is Life.STARTING
        history.spawned()
    return found


def resumes(history: History) -> list[int | None]:
    """The steps that attempts resumed from."""
    return [s.resume.step if s.resume else None for s in history.all_of(Spawn)]


def patient(*steps: int, **settings: object) -> State:
    return with_seals(fresh_state(give_up_after=1e9, **settings), *steps)


def test_a_kill_after_progress_restarts_at_once() -> None:
    history = running(100)
    history.seal(100)
    history.steps(101, 150)
    effects = history.end()
    assert history.state.life is Life.STARTING
    spawn = next(effect for effect in effects if isinstance(effect, Spawn))
    assert spawn.resume == point(100)
    assert history.state.restarts == Restarts(best=100)


def test_a_restart_waits_for_the_seal_of_what_was_written_before_the_kill() -> None:
    history = running(100)
    history.checkpoint(100)
    history.end()
    assert history.state.life is Life.DRAINING
    history.verified(100)
    history.sealed(100)
    assert resumes(history) == [None, 100]


def test_a_restart_waits_for_the_ledger_to_have_every_step() -> None:
    history = running(100)
    history.seal(100)
    history.steps(101, 150, recorded=False)
    history.end()
    assert history.state.life is Life.DRAINING
    history.recorded(150)
    assert history.state.life is Life.STARTING


def test_the_next_attempt_has_the_bandit_of_the_step_it_resumes_from() -> None:
    history = running(100)
    history.seal(100)
    at_100 = history.state.bandit
    history.steps(101, 150)
    assert history.state.bandit != at_100
    effects = history.end()
    assert [e.bandit for e in effects if isinstance(e, KeepBandit)][-1] == at_100
    assert history.state.bandit == at_100


def test_the_back_off_doubles_to_its_ceiling() -> None:
    history = History(patient(100))
    history.begin()
    history.spawned()
    found = delays(history, 9)
    assert found == pytest.approx([0.5, 1, 2, 4, 8, 16, 30, 30, 30])


@pytest.mark.parametrize(("draw", "factor"), [(0.0, 0.75), (0.999999, 1.25)])
def test_the_back_off_has_jitter(draw: float, factor: float) -> None:
    history = History(patient(100))
    history.begin()
    history.spawned()
    found = delays(history, 8, draw)
    expected = [d * factor for d in (0.5, 1, 2, 4, 8, 16, 30, 30)]
    assert found == pytest.approx(expected, rel=1e-4)


def test_the_back_off_does_not_overflow_after_thousands_of_failures() -> None:
    state = replace(patient(100), restarts=Restarts(failures=5000, since=0.0, best=100))
    history = History(state)
    history.begin()
    history.spawned()
    assert delays(history, 1) == [30.0]


def test_a_failed_start_backs_off_too() -> None:
    history = History(patient(100))
    history.begin()
    for expected in (0.5, 1.0, 2.0):
        history.tell(SpawnFailed(history.attempt, "cannot start the trainer: no such program"))
        assert history.state.life is Life.BACKOFF
        assert history.state.deadline == pytest.approx(history.now + expected)
        history.wait()
    assert history.state.restarts.against == 0


def test_progress_resets_the_back_off() -> None:
    history = History(patient(100))
    history.begin()
    history.spawned()
    delays(history, 4)
    history.ready()
    history.steps(101, 200)
    history.seal(200)
    assert history.state.restarts == Restarts(best=200)
    history.end()
    assert history.state.life is Life.STARTING


def test_a_seal_that_is_no_higher_than_an_earlier_one_is_no_progress() -> None:
    state = replace(patient(100), restarts=Restarts(failures=3, since=0.0, best=300))
    history = running(200, state)
    history.seal(200)
    assert history.state.restarts.failures == 3
    history.end()
    assert history.state.life is Life.BACKOFF


def test_three_attempts_without_progress_fall_back_one_seal() -> None:
    history = History(patient(300, 200, 100))
    history.begin()
    for _ in range(3):
        history.spawned()
        history.ready()
        history.end(status=1)
        history.wait()
    assert resumes(history) == [300, 300, 300, 200]
    assert [effect.seal for effect in history.all_of(Reject)] == [point(300).seal]
    facts = history.journal("checkpoint-rejected")[0]
    assert (facts["step"], facts["seal"]) == (300, point(300).seal)
    assert facts["problem"] == "3 attempts from it made no progress"
    for _ in range(3):
        history.spawned()
        history.ready()
        history.end(status=1)
        history.wait()
    assert resumes(history)[-1] == 100


def test_an_attempt_that_had_not_read_its_checkpoint_does_not_count_against_it() -> None:
    history = History(patient(300, 200))
    history.begin()
    for _ in range(10):
        history.spawned()
        history.end(status=1)
        history.wait()
    assert set(resumes(history)) == {300}
    assert history.state.restarts.against == 0
    assert history.state.restarts.failures == 10


def test_what_an_attempt_sealed_again_is_under_the_suspicion_of_what_it_began_from() -> None:
    state = replace(patient(200, 100), restarts=Restarts(best=300))
    history = running(250, state)
    history.seal(250)
    history.end(status=1)
    assert (history.state.restarts.failures, history.state.restarts.against) == (1, 1)
    for _ in range(2):
        history.wait()
        history.spawned()
        history.ready()
        history.end(status=1)
    history.wait()
    assert resumes(history) == [200, 250, 250, 100]
    assert [effect.seal for effect in history.all_of(Reject)] == [point(250).seal, point(200).seal]


def test_nothing_left_to_fall_back_to_gives_up() -> None:
    history = History(patient(100))
    history.begin()
    for _ in range(3):
        history.spawned()
        history.ready()
        history.end(status=1)
        history.wait()
    assert history.all_of(Exit) == [Exit(10)]
    assert "no older seal" in str(history.journal("gave-up")[0]["why"])
    assert history.state.life is Life.LEAVING


def test_too_long_without_progress_gives_up() -> None:
    history = History(with_seals(fresh_state(give_up_after=7200.0), 300, 200))
    history.begin()
    began = history.now
    while not history.all_of(Exit):
        history.spawned()
        history.end(status=1)
        history.wait()
    assert history.all_of(Exit) == [Exit(10)]
    assert 7200 < history.now - began < 7300


def test_one_crash_after_long_work_without_a_seal_does_not_give_up() -> None:
    history = History(with_seals(fresh_state(give_up_after=7200.0), 300, 200))
    history.begin()
    history.spawned()
    history.ready()
    history.now += 3 * 7200.0
    history.end(status=1)
    assert not history.all_of(Exit)
    assert history.state.life is Life.BACKOFF


def after_a_pivot(*old: int, new: tuple[int, ...] = ()) -> State:
    """Under policy 2, with seals of it above those of policy 1."""
    state = with_seals(fresh_state(give_up_after=1e9), *new, *old)
    seals = tuple(
        SealPoint(seal.point, 2 if seal.point.step in new else 1, seal.bandit)
        for seal in state.seals
    )
    bandit = replace(state.bandit, policy=2)
    return replace(state, policy=NEW, bandit=bandit, seals=seals)


def test_a_fall_back_never_goes_behind_the_pin_of_a_pivot() -> None:
    history = History(after_a_pivot(300, 200))
    history.begin()
    for _ in range(3):
        history.spawned()
        history.ready()
        history.end(status=1)
        history.wait()
    assert set(resumes(history)) == {300}
    assert history.all_of(Exit) == [Exit(10)]


def test_a_fall_back_may_go_to_the_pin_which_gives_weights_only() -> None:
    history = History(after_a_pivot(300, 200, new=(400,)))
    history.begin()
    for _ in range(3):
        history.spawned()
        history.ready()
        history.end(status=1)
        history.wait()
    assert resumes(history)[-1] == 300
    assert sum(arm.served for arm in history.state.bandit.arms) == 0
    assert history.state.bandit.policy == 2


def test_a_trainer_that_stops_of_itself_without_progress_does_not_spin() -> None:
    history = running(0, patient(100))
    for expected in (0.5, 1.0, 2.0):
        history.finished("stop")
        history.end(status=0)
        assert history.state.life is Life.BACKOFF
        assert history.state.deadline == pytest.approx(history.now + expected)
        history.wait()
        history.spawned()
        history.ready()
    assert history.state.restarts.against == 0


def test_a_trainer_stopped_from_outside_with_its_checkpoint_goes_on_at_once() -> None:
    history = running(150, patient(100))
    history.checkpoint(150, "stop")
    history.finished("stop")
    history.end(status=0)
    history.verified(150)
    history.sealed(150)
    assert resumes(history) == [100, 150]
