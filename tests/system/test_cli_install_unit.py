"""What ``install-unit`` writes, and when it refuses to."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.command import Told, program
from tests.support.runs import ROOT
from tests.support.service import OfAUser, within
from tests.support.systemd_machine import HOME, Machine, missing

pytestmark = pytest.mark.system

UNIT = "stepkeeper@.service"


def command(*words: str, env: dict[str, str] | None = None) -> Told:
    """In a process of its own: the unit names the program that was called."""
    done = subprocess.run(
        program(*words),
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, **(env or {})},  # noqa: TID251 - a user's, with another home
    )
    return Told(done.returncode, done.stdout, done.stderr)


def test_a_dry_run_shows_every_file_and_writes_none() -> None:
    files = command("install-unit", "--dry-run", "--json").facts()["files"]
    names = [Path(path).name for path in files]
    assert names == [UNIT, "stepkeeper.conf", "stepkeeper.conf"]
    unit = files["/etc/systemd/system/stepkeeper@.service"]
    shipped = (ROOT / "systemd" / UNIT).read_text()
    program = Path(sys.executable).absolute().parent / "stepkeeper"
    assert unit == shipped.replace(f"{HOME}/venv/bin/stepkeeper", str(program))


def test_another_state_directory_is_named_wherever_the_unit_names_it() -> None:
    for state, tmp in (
        ("/var/lib/gpu/runs", "gpu/runs/%i/tmp"),
        ("/srv/runs", "stepkeeper-tmp/%i"),
    ):
        files = command("install-unit", "--dry-run", "--json", "--state", state).facts()["files"]
        unit = files["/etc/systemd/system/stepkeeper@.service"]
        assert "/var/lib/stepkeeper/" not in unit
        assert f"StateDirectory={tmp}\n" in unit
        assert f"BindPaths=/var/lib/{tmp}:/tmp\n" in unit
        assert f"ReadWritePaths={state}\n" in unit
        assert f" run {state}/%i\n" in unit
        assert f"d {state} 0750" in files["/etc/tmpfiles.d/stepkeeper.conf"]


@pytest.mark.parametrize("state", ["/srv/my runs", "/srv/100%", '/srv/"x"', "/srv/a:b"])
def test_a_path_that_cannot_stand_in_a_unit_is_refused(state: str) -> None:
    done = command("install-unit", "--dry-run", "--state", state)
    assert done.code == 2
    assert done.complaint().startswith("cannot name ")


def test_the_users_unit_leaves_out_what_a_user_manager_cannot_do(tmp_path: Path) -> None:
    env = {"XDG_CONFIG_HOME": str(tmp_path), "STEPKEEPER_STATE": "/srv/mine"}
    done = command("install-unit", "--user", "--json", env=env)
    path = tmp_path / "systemd/user" / UNIT
    assert done.facts()["written"] == {str(path): True}
    unit = path.read_text()
    for word in ("User=", "BindPaths=", "Protect", "DeviceAllow=", "OOMScoreAdjust=", "multi-user"):
        assert word not in unit
    for word in (
        "KillMode=process",
        "NotifyAccess=exec",
        "WantedBy=default.target",
        "/srv/mine/%i",
    ):
        assert word in unit
    again = command("install-unit", "--user", "--json", env=env)
    assert again.facts()["written"] == {str(path): False}


def test_a_file_that_differs_is_replaced_only_by_force(tmp_path: Path) -> None:
    env = {"XDG_CONFIG_HOME": str(tmp_path)}
    path = tmp_path / "systemd/user" / UNIT
    path.parent.mkdir(parents=True)
    path.write_text("[Unit]\n# mine\n")
    refused = command("install-unit", "--user", env=env)
    assert refused.code == 1
    assert refused.complaint().startswith(f"cannot write {path}: ")
    assert path.read_text() == "[Unit]\n# mine\n"
    assert command("install-unit", "--user", "--force", env=env).code == 0
    assert "KillMode=process" in path.read_text()


def test_the_users_unit_passes_systemds_own_check(tmp_path: Path) -> None:
    if why := missing():
        pytest.skip(f"CANNOT ASK SYSTEMD HERE: {why}")
    env = {"XDG_CONFIG_HOME": str(tmp_path)}
    assert command("install-unit", "--user", env=env).code == 0
    unit = tmp_path / "systemd/user" / UNIT
    done = subprocess.run(
        ["systemd-analyze", "--user", "verify", unit],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": os.defpath, "XDG_RUNTIME_DIR": str(tmp_path)},
    )
    assert done.stdout + done.stderr == ""


def test_a_users_own_manager_keeps_a_run_too(machine: Machine) -> None:
    """Started, killed, adopted, stopped; without a user or a /tmp of its own."""
    user = OfAUser(machine, "of-a-user", within(rate=50, every=100_000), every=100_000)
    user.begin()
    try:
        user.start().until_step(10)
        trainer, main = user.trainer(), user.main
        user.signal("KILL", main)
        user.until(lambda: user.main not in (0, main), "the next supervisor")
        user.until_more(20)
        assert user.trainer() == trainer
        user.until(lambda: "steps/s" in user.show("StatusText"), "the loop's next round")
        assert "ALARM" not in user.journal()
        user.stop()
        assert user.show("Result") == "success"
    finally:
        user.finish()


def test_the_program_is_named_by_the_link_it_was_called_by(machine: Machine) -> None:
    """Upgrades are another environment behind that link."""
    said = json.loads(machine.call("stepkeeper", "install-unit", "--dry-run", "--json").stdout)
    unit = said["files"]["/etc/systemd/system/stepkeeper@.service"]
    assert f"ExecStart={HOME}/venv/bin/stepkeeper run" in unit
    assert said["warnings"] == []


def test_what_is_installed_holds_the_unit() -> None:
    """The folder is data of the package through a link, so that it has one place alone."""
    assert (ROOT / "supervisor/systemd").resolve() == ROOT / "systemd"
    assert 'supervisor = ["systemd/*"]' in (ROOT / "pyproject.toml").read_text()
