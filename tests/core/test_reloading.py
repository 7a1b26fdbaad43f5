"""Histories of reloads: when another life may take over, and what it finds to do."""

from __future__ import annotations

from dataclasses import replace

from supervisor.core.messages import (
    Answer,
    GiveOrders,
    LeaveTerminal,
    Reload,
    Say,
    Signalled,
    SignalTrainer,
    Spawn,
    TerminalGone,
)
from supervisor.core.state import Life, Settings
from tests.support.history import History, fresh_state, running


def terms(history: History) -> int:
    return [effect.name for effect in history.all_of(SignalTrainer)].count("TERM")


def test_a_hangup_asks_for_a_reload_and_a_vanished_terminal_does_not() -> None:
    history = running(20)
    assert history.tell(Signalled("HUP")) == [Reload(None, restart=False)]
    effects = history.tell(TerminalGone())
    assert [type(effect) for effect in effects] == [LeaveTerminal, Say]
    assert history.ask("reload", restart=True) == [Reload(5, restart=True)]


def test_a_run_that_is_being_stopped_is_not_reloaded() -> None:
    history = running(20)
    history.tell(Signalled("TERM"))
    (effect,) = history.tell(Signalled("HUP"))
    assert isinstance(effect, Say)
    (effect,) = history.ask("reload", restart=False)
    assert isinstance(effect, Answer)
    assert "being stopped" in effect.fields["error"]


def test_a_restart_that_was_asked_for_is_no_failure() -> None:
    history = running(20)
    history.ask("restart", reply=0)
    assert (history.state.life, terms(history)) == (Life.STOPPING, 1)
    before = history.state.restarts
    history.finished("stop")
    history.end(0)
    assert [spawn.attempt for spawn in history.all_of(Spawn)] == [1, 2]
    assert history.state.restarts == before
    assert not history.state.again
    history.spawned()
    history.ready()
    history.end(status=1)  # and this one is
    assert history.state.life is Life.BACKOFF
    assert history.state.restarts.failures == 1


def test_a_trainer_that_ignores_the_restart_is_killed_after_the_grace_and_begins_anew() -> None:
    history = running(20)
    history.ask("restart", reply=0)
    history.wait()
    assert history.state.life is Life.KILLING
    history.end(-9)
    assert len(history.all_of(Spawn)) == 2
    assert history.state.restarts.failures == 0


def test_a_restart_ends_the_wait_for_the_next_attempt() -> None:
    history = running(20)
    history.end(status=1)
    assert history.state.life is Life.BACKOFF
    history.ask("restart", reply=0)
    assert history.state.deadline == history.now
    history.wait()
    assert len(history.all_of(Spawn)) == 2


def test_a_restart_in_a_stop_or_before_a_pivot_begins_nothing_of_its_own() -> None:
    for history in (running(20), running(20)):
        if history.attempt:
            history.pivot()
        before = terms(history)
        history.ask("restart", reply=0)
        assert (history.state.life, terms(history)) == (Life.RUNNING, before)
    history = running(20)
    history.tell(Signalled("TERM"))
    history.ask("restart", reply=0)
    assert terms(history) == 1


def test_the_cadence_of_a_running_attempt_is_that_of_its_own_settings_until_the_next() -> None:
    settings = Settings(cadence=50, boundary=True)
    history = running(20, replace(fresh_state(), next_settings=None))
    history.state = replace(history.state, next_settings=settings)
    history.ask("save", pin=False, note="")
    (orders, *_) = [e.orders for e in history.last if isinstance(e, GiveOrders)]
    assert orders.save is not None
    assert orders.save.align == "step"
    history.end(status=1)
    history.wait()
    assert history.state.settings == settings
    assert history.state.next_settings is None
