"""A reload: other settings take over in place, and the trainer notices none of it."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from supervisor.control import request
from tests.support.daemon import Daemon
from tests.support.reloading import SECONDS, edit, life, until_another, whole, zombies
from tests.support.runs import scripted
from tests.system.test_service import Manager

pytestmark = [pytest.mark.system, pytest.mark.timeout(150)]

Supervise = Callable[..., Daemon]


def test_good_settings_come_into_force_under_the_same_pid_and_trainer(supervise: Supervise) -> None:
    settings = "[stop]\ngrace = 50.0\n[restart]\nfirst = 0.5\n"
    daemon = supervise(scripted(rate=200), every=100, settings=settings).start()
    daemon.until_step(20)
    trainer, before = daemon.until_trainer(), life(daemon)
    edit(daemon, "grace = 50.0", "grace = 70.0")
    edit(daemon, "every_steps = 100", "every_steps = 50")
    told = daemon.cli("status", "{run}", "--json")
    assert json.loads(told.stdout)["settings"] == {"number": 1, "edited": True}
    told = daemon.cli("reload", "{run}", "--json", seconds=SECONDS)
    assert told.returncode == 0, told.stderr
    changes = [
        {"setting": "checkpoint.every_steps", "old": 100, "new": 50, "reach": "next attempt"},
        {"setting": "stop.grace", "old": 50.0, "new": 70.0, "reach": "live"},
    ]
    assert json.loads(told.stdout)["changes"] == changes
    assert life(daemon)["life"] != before["life"]
    assert daemon.run.events("settings-changed")[0]["changes"] == changes
    text = (daemon.run.path / "run.toml").read_bytes()
    assert (daemon.run.path / "settings/0002.toml").read_bytes() == text
    assert daemon.run.trainer_pid() == trainer
    daemon.until_step(daemon.run.last_step() + 50)
    assert zombies(daemon.pid) == []
    assert daemon.stop() == 0
    whole(daemon)


def test_settings_that_do_not_hold_change_nothing(supervise: Supervise) -> None:
    daemon = supervise(scripted(rate=200), every=100, settings="[stop]\ngrace = 50.0\n").start()
    daemon.until_step(20)
    before = life(daemon)
    edit(daemon, "grace = 50.0", "grace = -1.0")
    daemon.signal(signal.SIGHUP)
    daemon.until(lambda: life(daemon)["stayed"]["serial"] == 1, "the word that nothing changes")
    assert life(daemon)["life"] == before["life"]
    assert "stop.grace: -1.0" in life(daemon)["stayed"]["why"]
    assert daemon.output().count("ALARM: cannot reload") == 1
    edit(daemon, "grace = -1.0", "grace = 50.0")
    edit(daemon, 'name = "demo"', 'name = "other"')
    told = daemon.cli("reload", "{run}", seconds=SECONDS)
    assert told.returncode == 1
    assert "name: 'other': it is 'demo' for the life of this run" in told.stderr
    assert life(daemon)["life"] == before["life"]
    assert not (daemon.run.path / "settings/0002.toml").exists()
    assert daemon.stop() == 0
    whole(daemon)


def test_a_supervisor_killed_while_settings_are_half_edited_begins_with_those_in_force(
    supervise: Supervise,
) -> None:
    daemon = supervise(scripted(rate=200), every=100).start()
    daemon.until_step(20)
    trainer = daemon.until_trainer()
    edit(daemon, "every_steps = 100", "every_steps =")
    daemon.kill()
    daemon.start()
    daemon.until_step(daemon.run.reports(1, "step")[-1]["step"] + 20)
    assert daemon.run.trainer_pid() == trainer
    assert "going on with the settings in force" in daemon.output()
    assert daemon.stop() == 0
    whole(daemon)


def test_a_restart_begins_a_new_attempt_with_the_new_settings_at_once(supervise: Supervise) -> None:
    daemon = supervise(scripted(rate=200), every=100).start()
    daemon.until_step(20)
    edit(daemon, '"200"', '"300"')
    told = daemon.cli("reload", "{run}", "--restart", seconds=SECONDS)
    assert told.returncode == 0, told.stderr
    assert "trainer.command: " in told.stdout
    assert "attempt 2 began with these settings" in told.stdout
    daemon.until_step(daemon.run.last_step() + 20)
    first, second = daemon.run.attempts()
    assert first["ended"]["cause"] == "stopped"
    assert first["ended"]["last_step"] == second["resume"]["step"]
    assert (first["command"][4], second["command"][4]) == ("200", "300")
    assert daemon.stop() == 0
    steps = [line["step"] for line in daemon.run.ledger()]
    assert steps == list(range(1, steps[-1] + 1))


def test_a_save_that_somebody_waits_for_keeps_its_pin_over_a_reload(supervise: Supervise) -> None:
    command = scripted(rate=60, every=300, sigusr1="boundary")
    daemon = supervise(command, every=300, settings="[samples]\nseed = 1\n")
    edit(daemon, "every_steps = 300", 'every_steps = 300\nsigusr1 = "boundary"')
    daemon.start().until_step(5)
    before = life(daemon)
    answer = request(daemon.run.path, "save", {"pin": True, "note": "kept"}, SECONDS)
    assert "serial" in answer
    daemon.signal(signal.SIGHUP)
    until_another(daemon, before)
    assert daemon.run.seals() == {}
    daemon.until_seal(300, SECONDS)
    pins = daemon.run.path / "checkpoints/pins.json"
    daemon.until(lambda: pins.exists() and "kept" in pins.read_text(), "the pin")
    assert daemon.run.seals()[300]["save"] == answer["serial"]
    assert daemon.stop() == 0
    whole(daemon)


def test_the_wait_before_the_next_attempt_is_neither_skipped_nor_begun_anew(
    supervise: Supervise,
) -> None:
    trainer = scripted(no_ready=True, attempts="1")
    daemon = supervise(trainer, every=100, settings="[restart]\nfirst = 8.0\n").start()
    daemon.until(lambda: "next attempt in" in daemon.output(), "the wait")
    before = life(daemon)
    daemon.signal(signal.SIGHUP)
    until_another(daemon, before)
    assert len(daemon.run.attempts()) == 1
    daemon.until_step(1, SECONDS)
    told = [float(text.split()[0]) for text in daemon.output().split("next attempt in ")[1:]]
    assert len(told) == 2
    assert told[1] < 8.0  # what is left of it
    first, second = daemon.run.attempts()
    assert _seconds(second["started"]) - _seconds(first["ended"]["time"]) > 6.0
    assert daemon.stop() == 0


def _seconds(stamp: str) -> float:
    hours, minutes, seconds = stamp.partition("T")[2].rstrip("Z").split(":")
    return 3600 * int(hours) + 60 * int(minutes) + float(seconds)


@pytest.mark.timeout(900)
def test_many_reloads_in_a_row_at_full_speed_miss_no_report(
    supervise: Supervise,
    thorough: bool,  # noqa: FBT001 - a fixture
) -> None:
    daemon = supervise(scripted(every=500), every=500).start()
    daemon.until_step(20)
    trainer = daemon.until_trainer()
    for _ in range(50 if thorough else 3):
        before = life(daemon)
        daemon.signal(signal.SIGHUP)
        until_another(daemon, before)
    assert daemon.run.trainer_pid() == trainer
    daemon.until(lambda: zombies(daemon.pid) == [], "notice taken of every child that ended")
    assert daemon.stop(SECONDS) == 0
    whole(daemon)


def test_a_reload_before_the_trainer_is_ready_does_not_disturb_its_start(
    supervise: Supervise,
) -> None:
    daemon = supervise(scripted(rate=200, ready_after=6.0), every=100).start()
    daemon.until(lambda: [a for a in daemon.run.attempts() if a["identity"]], "a trainer")
    before = life(daemon)
    daemon.signal(signal.SIGHUP)
    until_another(daemon, before)
    assert not daemon.run.reports(1, "ready")
    daemon.until_step(20, SECONDS)
    assert daemon.run.trainer_pid() == daemon.run.attempts()[0]["identity"]["pid"]
    assert daemon.stop() == 0
    whole(daemon)


def test_settings_that_the_disk_does_not_take_are_no_reason_to_leave_a_trainer_alone(
    supervise: Supervise,
) -> None:
    daemon = supervise(scripted(rate=200), every=100).start()
    daemon.until_step(20)
    trainer = daemon.until_trainer()
    edit(daemon, "every_steps = 100", "every_steps = 50")
    (daemon.run.path / "settings").rename(daemon.run.path / "elsewhere")
    (daemon.run.path / "settings").write_text("in the way")
    daemon.kill()
    daemon.start()
    daemon.until_step(daemon.run.reports(1, "step")[-1]["step"] + 20)
    assert daemon.run.trainer_pid() == trainer
    assert "cannot keep run.toml as the settings in force" in daemon.output()
    assert daemon.stop() == 0
    whole(daemon)


def test_a_reload_while_the_run_is_being_stopped_is_refused(supervise: Supervise) -> None:
    daemon = supervise(scripted(rate=200, slow_save=1.0), every=1000).start()
    daemon.until_step(20)
    daemon.signal(signal.SIGTERM)
    daemon.until(lambda: (daemon.run.read("intent.json") or {}).get("want") == "stop", "the intent")
    daemon.signal(signal.SIGHUP)
    daemon.signal(signal.SIGHUP)
    assert daemon.wait() == 0
    assert "took over" not in daemon.output()
    assert daemon.run.last_step() in daemon.run.seals()


def test_a_pivot_under_way_goes_on_over_a_reload(supervise: Supervise) -> None:
    daemon = supervise(scripted(rate=60, every=300), every=300).start()
    daemon.until_step(5)
    policy = (daemon.run.path / "policy.toml").read_text().replace("cap = 1.0", "cap = 0.8")
    request(daemon.run.path, "pivot", {"policy": policy, "when": "boundary"}, SECONDS)
    before = life(daemon)
    daemon.signal(signal.SIGHUP)
    until_another(daemon, before)
    assert (daemon.run.read("pivot.json") or {})["stage"] == "requested"
    daemon.until(lambda: daemon.run.events("pivot-done"), "the pivot's end", SECONDS)
    assert daemon.stop() == 0
    steps = [line["step"] for line in daemon.run.ledger()]
    assert steps == list(range(1, steps[-1] + 1))
    assert {line["policy"] for line in daemon.run.ledger() if line["step"] > 300} == {2}


def test_a_service_manager_is_told_that_we_reload_and_are_ready_again(
    supervise: Supervise, tmp_path: Path
) -> None:
    manager = Manager(tmp_path / "notify")
    daemon = supervise(scripted(rate=100), every=100)
    daemon.start(env={"NOTIFY_SOCKET": str(manager.path), "WATCHDOG_USEC": "400000"})
    daemon.until_step(20)
    before = life(daemon)
    daemon.signal(signal.SIGHUP)
    until_another(daemon, before)
    at = len(manager.heard("WATCHDOG=1"))
    daemon.until(lambda: len(manager.heard("WATCHDOG=1")) > at + 2, "signs of life")
    told = [s for s in manager.states if s.startswith(("READY=", "RELOADING=", "MONOTONIC_USEC="))]
    assert told[0] == "READY=1"
    assert told[1] == "RELOADING=1"
    assert told[2].removeprefix("MONOTONIC_USEC=").isdigit()
    assert set(told[3:]) == {"READY=1"}
    pids = {s for s in manager.states if s.startswith("MAINPID=")}
    assert pids == {f"MAINPID={daemon.pid}"}
    assert daemon.stop() == 0
    manager.socket.close()
