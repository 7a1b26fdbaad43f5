"""An upgrade: another version behind the same link takes over in place, or nothing changes."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.daemon import Daemon
from tests.support.reloading import SECONDS, life, until_another, whole
from tests.support.runs import scripted
from tests.support.versions import Versions
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.system, pytest.mark.timeout(150)]

Supervise = Callable[..., Daemon]


@pytest.mark.parametrize("kind", ["script", "module"])
def test_an_upgrade_behind_a_link_takes_over(
    supervise: Supervise, tmp_path: Path, kind: str
) -> None:
    versions = Versions(tmp_path / "versions")
    install = versions.install if kind == "script" else versions.environment
    for version in ("1.0", "2.0"):
        install(version)
    versions.use("1.0")
    daemon = supervise(scripted(rate=200), every=100)
    script, python = str(versions.script), str(versions.current / "bin/python")
    daemon.program = (script,) if kind == "script" else (python, "-m", "supervisor")
    daemon.start().until_step(20)
    trainer, before = daemon.until_trainer(), life(daemon)
    assert before["version"] == "1.0"
    versions.use("2.0")
    daemon.signal(signal.SIGHUP)
    assert until_another(daemon, before)["version"] == "2.0"
    assert daemon.run.trainer_pid() == trainer
    daemon.until_step(daemon.run.last_step() + 20)
    assert daemon.stop() == 0
    whole(daemon)


@pytest.mark.parametrize("fault", ["fails", "absent"])
def test_a_version_that_cannot_check_the_settings_does_not_take_over(
    supervise: Supervise, tmp_path: Path, fault: str
) -> None:
    versions = Versions(tmp_path / "versions")
    versions.install("1.0")
    if fault == "fails":
        versions.install("2.0", "sys.exit('cannot load half of it')")
    versions.use("1.0")
    daemon = supervise(scripted(rate=200), every=100)
    daemon.program = (str(versions.script),)
    daemon.start().until_step(20)
    before = life(daemon)
    versions.use("2.0")
    daemon.signal(signal.SIGHUP)
    daemon.until(lambda: life(daemon)["stayed"]["serial"], "the word that it stays", SECONDS)
    why = "cannot load half of it" if fault == "fails" else "cannot be started"
    assert why in life(daemon)["stayed"]["why"]
    assert life(daemon)["life"] == before["life"]
    daemon.until_step(daemon.run.last_step() + 20)
    assert daemon.stop() == 0
    whole(daemon)


def test_where_the_exec_fails_the_old_life_goes_on(supervise: Supervise, tmp_path: Path) -> None:
    versions = Versions(tmp_path / "versions")
    versions.install("1.0")
    facts = json.dumps({"ok": True, "version": "2.0"})
    gone = f"#!/bin/sh\nrm '{versions.folder}/2.0/bin/stepkeeper'\necho '{facts}'\n"
    versions.write("2.0", gone)
    versions.use("1.0")
    daemon = supervise(scripted(rate=200), every=100)
    daemon.program = (str(versions.script),)
    daemon.start().until_step(20)
    trainer, before = daemon.until_trainer(), life(daemon)
    versions.use("2.0")
    daemon.signal(signal.SIGHUP)
    assert until_another(daemon, before)["version"] == "1.0"
    assert "No such file or directory; going on" in daemon.output()
    daemon.until_step(daemon.run.last_step() + 20)
    assert daemon.run.trainer_pid() == trainer
    versions.use("1.0")
    versions.install("3.0")
    assert daemon.stop() == 0
    whole(daemon)


def test_signals_in_the_window_of_the_exec_are_not_lost(
    supervise: Supervise, tmp_path: Path
) -> None:
    versions = Versions(tmp_path / "versions")
    wait, began, go = versions.wait()
    versions.install("1.0")
    versions.install("2.0", wait)
    versions.use("1.0")
    daemon = supervise(scripted(rate=200, every=100_000), every=100_000)
    daemon.program = (str(versions.script),)
    daemon.start().until_step(20)
    versions.use("2.0")
    daemon.signal(signal.SIGHUP)
    daemon.until(began.exists, "the new program", SECONDS)
    daemon.signal(signal.SIGUSR1)
    daemon.signal(signal.SIGTERM)
    go.touch()
    assert daemon.wait(SECONDS) == 0
    whole(daemon)
    assert max(daemon.run.seals()) == daemon.run.last_step()
    assert daemon.run.pids() == []


def test_a_supervisor_killed_in_the_window_of_the_exec_costs_no_step(
    supervise: Supervise, tmp_path: Path
) -> None:
    versions = Versions(tmp_path / "versions")
    wait, began, go = versions.wait()
    versions.install("1.0")
    versions.install("2.0", wait)
    versions.use("1.0")
    daemon = supervise(scripted(rate=200), every=100)
    daemon.program = (str(versions.script),)
    daemon.start().until_step(20)
    trainer = daemon.until_trainer()
    versions.use("2.0")
    daemon.signal(signal.SIGHUP)
    daemon.until(began.exists, "the new program", SECONDS)
    daemon.kill()
    go.touch()
    daemon.start()
    daemon.until_step(daemon.run.reports(1, "step")[-1]["step"] + 20)
    assert daemon.run.trainer_pid() == trainer
    assert daemon.stop() == 0
    whole(daemon)


def test_a_stop_wins_over_a_reload_that_is_still_checking(
    supervise: Supervise, tmp_path: Path
) -> None:
    versions = Versions(tmp_path / "versions")
    versions.install("1.0")
    began, go = tmp_path / "began", tmp_path / "go"
    text = f"#!/bin/sh\ntouch '{began}'\nuntil [ -e '{go}' ]; do sleep 0.05; done\necho '{{}}'\n"
    versions.write("2.0", text)
    versions.use("1.0")
    daemon = supervise(scripted(rate=200), every=1000)
    daemon.program = (str(versions.script),)
    daemon.start().until_step(20)
    versions.use("2.0")
    daemon.signal(signal.SIGHUP)
    daemon.until(began.exists, "the check")
    assert daemon.stop() == 0
    go.touch()
    whole(daemon)
    assert wait_until(lambda: not daemon.run.pids(), "the end of all")
