"""Time limits: when a stop must begin, and what the core makes of one that is near."""

from __future__ import annotations

import pytest

from supervisor.core.beginning import Found
from supervisor.core.limits import Left, Limits
from supervisor.core.messages import ClockStepped, Event, Exit, KeepIntent, LimitNear, SignalTrainer
from supervisor.core.state import Life, State
from supervisor.daemon.time_left import TimeLeft
from tests.support.history import History, running

NEAR = LimitNear("stop_at", 55.0, 60.0)


def intents(history: History) -> list[tuple[str, str, bool]]:
    return [(kept.want, kept.by, kept.done) for kept in history.all_of(KeepIntent)]


def test_the_limit_that_comes_first_decides() -> None:
    limits = Limits(stop_at=5000.0, max_seconds=600.0)
    assert limits.left(wall=4000.0, ran=0.0) == Left(600.0, "max_hours")
    assert limits.left(wall=4900.0, ran=0.0) == Left(100.0, "stop_at")
    assert Limits().left(4000.0, 0.0) is None


def test_a_stop_needs_three_saves_a_step_and_the_margin() -> None:
    limits = Limits(margin=30.0, assumed_save=60.0)
    assert limits.needed(7.0, 2.0, 0) == 3 * 7 + 2 + 30
    assert limits.needed(0.0, 0.0, 1000) == 3 * 60 + 30  # not measured yet
    assert limits.needed(0.0, 0.0, 100_000_000) == 3 * 60 + 30
    assert limits.needed(0.0, 0.0, 1_000_000_000) == 3 * 600 + 30  # 12 GB at 20 MB/s


def test_a_near_limit_stops_as_the_operator_does_and_leaves_with_0() -> None:
    history = running(150)
    history.tell(NEAR)
    assert [effect.name for effect in history.all_of(SignalTrainer)] == ["TERM", "CONT"]
    assert history.state.life is Life.STOPPING
    history.tell(NEAR)  # it is looked at every second
    history.checkpoint(150, "stop")
    history.finished("stop")
    history.end(status=0)
    history.verified(150)
    history.sealed(150)
    assert history.all_of(Exit) == [Exit(0)]
    assert intents(history) == [("stop", "deadline", False), ("stop", "", True)]
    assert history.journal("deadline") == [{"limit": "stop_at", "left": 55.0, "needed": 60.0}]
    assert history.journal("stop-asked") == [{"by": "deadline", "step": 150}]


def test_a_near_limit_ends_a_wait_between_attempts() -> None:
    history = running(50)
    history.end(status=1)
    history.tell(NEAR)
    assert history.all_of(Exit) == [Exit(0)]
    assert intents(history) == [("stop", "deadline", True)]


def test_a_near_limit_ends_a_trainer_that_is_not_ready_at_once() -> None:
    history = History()
    history.begin()
    history.spawned()
    history.tell(NEAR)
    assert [effect.name for effect in history.all_of(SignalTrainer)] == ["KILL"]
    history.end()
    assert history.all_of(Exit) == [Exit(0)]


def test_the_reason_of_a_stop_survives_the_supervisor_that_began_it() -> None:
    attempt = running(50).state.attempt
    history = History()
    history.begin(Found(attempt, None, stop_unfinished=True))
    assert intents(history) == [("stop", "", False)]  # empty: as it was written
    assert not history.journal("stop-asked")


def test_a_limit_that_comes_in_a_stop_changes_nothing() -> None:
    history = running(50)
    history.ask("stop", by="somebody")
    assert history.tell(NEAR) == []


class Watched:
    """Looks at the clocks as the loop does, once a second, from these times on."""

    def __init__(self, limits: Limits, state: State | None = None) -> None:
        self.told: list[Event] = []
        self.wall, self.now, self.booted = 1_000_000.0, 50.0, 70.0
        self.state = state or running(50).state
        self.watch = TimeLeft(limits, self.booted, self.told.append)

    def look(self, seconds: float = 1.0, *, set_by: float = 0.0, slept: float = 0.0) -> None:
        self.now += seconds
        self.booted += seconds + slept
        self.wall += seconds + slept + set_by
        self.watch.see(self.state, self.wall, self.now, self.booted)


def test_nothing_is_told_before_a_stop_must_begin() -> None:
    watched = Watched(Limits(stop_at=1_000_400.0))
    watched.look()
    watched.look(188.0)
    assert watched.told == []
    watched.look(2.0)  # 209 s left; three unmeasured saves and the margin are 210 s
    [near] = watched.told
    assert isinstance(near, LimitNear)
    assert (near.limit, near.left) == ("stop_at", pytest.approx(209.0))


def test_a_measured_save_lets_it_train_longer() -> None:
    history = running(100)
    history.checkpoint(100)
    assert history.state.longest_save > 0
    watched = Watched(Limits(stop_at=1_000_400.0), history.state)
    watched.look(300.0)
    assert watched.told == []
    watched.look(70.0)
    assert [type(event) for event in watched.told] == [LimitNear]


def test_max_hours_count_sleep_and_no_setting_of_the_clock() -> None:
    watched = Watched(Limits(max_seconds=3600.0))
    watched.look()
    watched.look(set_by=7200.0)
    watched.look(set_by=-7200.0)
    assert [type(event) for event in watched.told] == [ClockStepped] * 2
    watched.told.clear()
    watched.look(slept=3500.0)
    assert [type(event) for event in watched.told] == [ClockStepped, LimitNear]


@pytest.mark.parametrize("set_by", [7200.0, -7200.0])
def test_a_clock_that_is_set_is_told_with_what_it_means_for_stop_at(set_by: float) -> None:
    watched = Watched(Limits(stop_at=1_000_400.0))
    watched.look()
    watched.look(set_by=set_by)
    stepped, *rest = watched.told
    assert isinstance(stepped, ClockStepped)
    assert stepped.seconds == pytest.approx(set_by)
    assert stepped.left == pytest.approx(400.0 - 2.0 - set_by)
    assert [type(event) for event in rest] == ([LimitNear] if set_by > 0 else [])


def test_a_set_clock_is_said_and_journalled() -> None:
    history = running(50)
    history.tell(ClockStepped(7200.4, -100.0))
    assert history.journal("clock-stepped") == [{"seconds": 7200.4, "left": -100.0}]
    assert history.state.life is Life.RUNNING
    said = history.last[-1]
    assert "set forward by 7200 s" in str(said)
    assert "stop_at is 100 s ago" in str(said)


def test_a_clock_that_only_drifts_is_none_that_was_set() -> None:
    watched = Watched(Limits(stop_at=2_000_000.0))
    for _ in range(10):
        watched.look(set_by=30.0)
    assert watched.told == []
