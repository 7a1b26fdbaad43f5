"""Runs that cannot go on, in the simulated world: they end, and those that can go on do not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from supervisor.core.messages import Exit, Reject
from supervisor.core.policy import Algorithm, Arm, Policy, Unit
from supervisor.core.restarting import RestartPolicy
from supervisor.core.state import Life, Settings
from tests.support.history import History, fresh_state
from tests.support.world import Chances, World

ARMS = (Arm("alpha", 0.05, 0.7), Arm("beta", 0.1, 0.7), Arm("code", 0.0, 0.7), Arm("docs", 0.1))
POLICY = Policy(1, "1" * 32, Algorithm.UCB1, Unit.SHARE, ARMS)
SETTINGS = Settings(cadence=100)


def world(seed: int, chances: Chances | None = None, **settings: object) -> World:
    restart = RestartPolicy(**settings)  # type: ignore[arg-type]  # by name
    chosen = replace(SETTINGS, restart=restart)
    return World((POLICY,), chances or Chances(), seed=seed, steps=900, settings=chosen)


def gave_up(world: World) -> bool:
    return 10 in world.exits


@pytest.mark.parametrize("seed", range(6))
def test_a_poison_batch_between_two_checkpoints_ends_in_giving_up(seed: int) -> None:
    """It dies at 350 from every checkpoint, and seals 300 again and again on the way."""
    poisoned = world(seed)
    poisoned.poison = 350
    poisoned.go_on_until(gave_up)
    disk = poisoned.disk
    assert poisoned.exits == [10]
    assert [record.resumed for record in disk.attempts.values()] == [
        *(0, 300, 300, 300, 200, 300, 300),
        *(100, 300, 300),
    ]
    [told] = disk.told("gave-up")
    assert "9 attempts without progress and no older seal" in told["why"]
    assert "step 300 3 times, step 200 1 time, step 300 2 times, step 100 1 time" in told["why"]
    assert max(disk.seals) == 300  # nothing of what was reached is lost by trying
    assert disk.intent["done"]


@pytest.mark.parametrize("seed", range(6))
def test_a_poison_batch_ends_so_too_where_the_supervisor_dies_again_and_again(seed: int) -> None:
    poisoned = world(seed, Chances(supervisor_killed=0.01))
    poisoned.poison = 350
    poisoned.go_on_until(gave_up)
    assert poisoned.counts["supervisor started"] > 5
    assert len(poisoned.disk.attempts) < 60


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("deaths", [0.0, 0.01])
def test_a_mount_that_is_away_for_ten_minutes_costs_no_checkpoint(seed: int, deaths: float) -> None:
    away = world(seed, Chances(supervisor_killed=deaths))
    away.go_on_until(lambda w: 300 in w.disk.seals)
    away.blind_until = away.now + 600.0
    assert away.trainer is not None
    away.trainer.send("KILL")
    away.go_on_until(lambda w: w.now > w.blind_until)
    during = [record for record in away.disk.attempts.values() if record.resumed]
    assert len(during) > 10
    away.go_on_until(lambda w: 400 in w.disk.seals)
    assert not away.disk.rejected
    assert {record.resumed for record in during} == {max(r.resumed for r in during)}
    assert not gave_up(away)
    after_all = [r for r in away.disk.attempts.values() if r.end and r.end["ready"]]
    assert len(after_all) <= 2


@pytest.mark.parametrize("deaths", [0.0, 0.02])
def test_two_hours_without_progress_give_up_however_many_supervisors_saw_them(
    deaths: float,
) -> None:
    away = world(5, Chances(supervisor_killed=deaths))
    away.go_on_until(lambda w: 300 in w.disk.seals)
    away.blind_until = away.now + 1e9
    assert away.trainer is not None
    away.trainer.send("KILL")
    began = away.now
    away.go_on_until(gave_up)
    assert 7200 < away.now - began < 9000
    assert len(away.disk.attempts) < 400
    assert not away.disk.rejected
    assert "no progress for" in away.disk.told("gave-up")[0]["why"]


def test_a_supervisor_that_dies_at_every_attempt_does_not_shorten_the_wait() -> None:
    """Started again within a second each time, as a service is."""
    away = world(1)
    away.go_on_until(lambda w: 300 in w.disk.seals)
    away.blind_until = away.now + 1e9
    assert away.trainer is not None
    away.trainer.send("KILL")
    began, attempts = away.now, len(away.disk.attempts)

    def killing(w: World) -> bool:
        ended = [r for r in w.disk.attempts.values() if r.end]
        waits = w.supervisor is not None and w.supervisor.state.life is Life.BACKOFF
        if waits and len(ended) == len(w.disk.attempts) and w.rng.random() < 0.5:
            w.kill_supervisor()
        return w.now > began + 600

    away.go_on_until(killing)
    assert away.counts["supervisor started"] > 20
    assert len(away.disk.attempts) - attempts < 6 + 600 / 25


@pytest.mark.parametrize("seals", [1, 2])
def test_days_of_progress_with_a_crash_every_hour_never_give_up(seals: int) -> None:
    """A seal between any two crashes, or only between every second pair of them."""
    history = History(fresh_state())
    history.begin()
    sealed = 0
    for hour in range(100):
        history.spawned()
        history.ready()
        history.now += 3600.0
        history.steps(sealed + 1, sealed + 100)
        if hour % seals == 0:
            sealed += 100
            history.seal(sealed)
        history.end(status=1)
        history.wait()
    assert not history.all_of(Exit)
    assert not history.all_of(Reject)
    assert sealed == 10_000 // seals


def test_an_operator_who_starts_a_run_that_gave_up_gives_it_a_new_chance() -> None:
    away = world(2, give_up_after=100.0)
    away.go_on_until(lambda w: 100 in w.disk.seals)
    away.blind_until = away.now + 1e9
    assert away.trainer is not None
    away.trainer.send("KILL")
    away.go_on_until(gave_up)
    away.go_on_until(lambda w: w.supervisor is not None)  # somebody starts it again
    away.blind_until = away.now + 30.0
    away.go_on_until(lambda w: 200 in w.disk.seals)
    assert away.exits == [10]
