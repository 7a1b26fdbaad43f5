"""A rented machine's time limits on the real supervisor: sealed in time, and said everywhere."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from supervisor import clock
from tests.support.command import command
from tests.support.daemon import Daemon
from tests.support.runs import scripted

pytestmark = pytest.mark.system

Supervise = Callable[..., Daemon]


def at(seconds: float) -> str:
    """A moment so many seconds from now, as TOML writes it."""
    then = datetime.fromisoformat(clock.wall()) + timedelta(seconds=seconds)
    return then.astimezone(UTC).isoformat()


def limits(text: str, margin: float = 0.5) -> str:
    return f"[limits]\nmargin = {margin}\nassumed_save = 0.0\n{text}\n"


def stopped_by_its_limit(daemon: Daemon) -> None:
    """Exit 0, the last step sealed, and the reason in intent, journal and output."""
    run = daemon.run
    assert run.last_step() > 0
    assert max(run.seals()) == run.last_step()
    intent = run.read("intent.json")
    assert intent is not None
    assert (intent["want"], intent["by"], intent["done"]) == ("stop", "deadline", True)
    assert run.events("stop-asked")[-1]["by"] == "deadline"
    assert run.pids() == []


def test_a_run_stops_sealed_before_its_moment_and_does_not_start_after_it(
    supervise: Supervise,
) -> None:
    moment = at(7.0)
    settings = limits(f"stop_at = {moment}", margin=4.0)
    daemon = supervise(scripted(rate=200), every=100, settings=settings).start()
    assert daemon.wait() == 0
    assert clock.unix() < datetime.fromisoformat(moment).timestamp()
    stopped_by_its_limit(daemon)
    assert daemon.run.events("deadline")[0]["limit"] == "stop_at"
    told = command("status", daemon.run.path)
    assert "which stopped the run" in told.out
    wait = datetime.fromisoformat(moment).timestamp() - clock.unix()
    daemon.until(lambda: clock.unix() > datetime.fromisoformat(moment).timestamp(), "it", wait + 1)
    daemon.start()
    assert daemon.wait() == 2
    assert "cannot start" in daemon.output()
    assert "set a later one or remove it" in daemon.output()
    checked = command("check", daemon.run.path)
    assert (checked.code, "so it cannot start" in checked.out) == (0, True)
    refused = len(daemon.run.attempts())
    path = daemon.run.path / "run.toml"
    path.write_text(path.read_text().replace(moment, f'"{at(3600.0)}"'))  # as text too
    daemon.start().until(lambda: len(daemon.run.attempts()) > refused, "another attempt")
    assert daemon.stop() == 0


def began(daemon: Daemon) -> float:
    """When an operator started the run, in seconds since the boot."""
    return float((daemon.run.read("intent.json") or {})["start"]["seconds"])


def test_hours_count_on_over_supervisors_that_die_and_anew_for_an_operator(
    supervise: Supervise,
) -> None:
    settings = limits(f"max_hours = {4 / 3600}", margin=0.2)
    daemon = supervise(scripted(rate=200), every=100, settings=settings).start()
    first = daemon.until(lambda: daemon.run.read("intent.json") and began(daemon), "the start")
    for step in (20, 120):
        daemon.until_step(step)
        daemon.kill()
        daemon.start()
    assert daemon.wait() == 0
    assert began(daemon) == first
    assert clock.since_boot() > first + 3
    stopped_by_its_limit(daemon)
    daemon.start().until(lambda: len(daemon.run.attempts()) == 2, "a start that is not refused")
    assert began(daemon) > first + 3
    assert daemon.wait() == 0


def test_a_trainer_that_outlived_the_moment_without_supervisor_is_still_stopped_and_sealed(
    supervise: Supervise,
) -> None:
    moment = at(3.0)
    settings = limits(f"stop_at = {moment}", margin=0.0)
    daemon = supervise(scripted(rate=200), every=100, settings=settings).start()
    daemon.until_trainer()
    daemon.kill()
    daemon.until(lambda: clock.unix() > datetime.fromisoformat(moment).timestamp(), "the moment")
    assert daemon.start().wait() == 0
    stopped_by_its_limit(daemon)


def test_status_shows_the_time_left_and_check_warns_of_too_little(supervise: Supervise) -> None:
    settings = f"[limits]\nstop_at = {at(3 * 3600)}\nmax_hours = 2.5\n"
    daemon = supervise(scripted(rate=200), every=100, settings=settings).start()
    daemon.until_step(10)
    told = command("status", daemon.run.path)
    assert "limit     max_hours = 2.5, 2.5 h left" in told.out
    daemon.signal(signal.SIGTERM)
    assert daemon.wait() == 0
    assert (daemon.run.read("intent.json") or {})["by"] == "SIGTERM"
    path = daemon.run.path / "run.toml"
    path.write_text(path.read_text().replace("max_hours = 2.5", "max_hours = 0.05"))
    warned = json.loads(command("check", daemon.run.path, "--json").out)["warnings"]
    assert [text for text in warned if "limits.max_hours" in text and "210 s" not in text]


@pytest.mark.parametrize(
    "text", ["stop_at = 2026-01-31T12:00:00", 'stop_at = "soon"', "max_hours = 0", "max_hour = 3"]
)
def test_a_limit_that_cannot_be_meant_is_refused_by_name(supervise: Supervise, text: str) -> None:
    daemon = supervise(scripted(), settings=f"[limits]\n{text}\n")
    told = command("check", daemon.run.path)
    assert told.code == 1
    assert f"limits.{text.split(maxsplit=1)[0]}" in told.out
