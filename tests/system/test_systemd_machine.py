"""The booted systemd is a real one, leaves nothing behind, and is not passed over in silence."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.systemd_machine import Machine, booted, missing

pytestmark = pytest.mark.system


def test_a_machine_that_can_boot_a_systemd_is_not_passed_over() -> None:
    """Asked with plain commands: where they work, every test with a systemd must have run."""
    able = os.geteuid() == 0 and shutil.which("systemctl") is not None
    able = able and Path("/lib/systemd/systemd").exists()
    if able:
        unshare = ["unshare", "--mount", "--pid", "--fork", "--cgroup", "true"]
        able = subprocess.run(unshare, check=False).returncode == 0
    if able:
        assert missing() == ""


def test_the_booted_system_is_whole_and_its_own(machine: Machine) -> None:
    assert machine.call("systemctl", "is-system-running").stdout == "running\n"
    assert "systemd" in machine.call("cat", "/proc/1/comm").stdout
    assert machine.call("systemd-run", "--wait", "--pipe", "echo", "hello").stdout == "hello\n"
    assert not machine.inside("/run/systemd/system").samefile("/run")
    assert machine.call("hostname").stdout != os.uname().nodename


def test_nothing_is_left_of_a_machine(tmp_path: Path) -> None:
    if why := missing():
        pytest.skip(f"CANNOT BOOT A SYSTEMD HERE: {why}")
    before = _mounts()
    seen: list[Path] = []
    with pytest.raises(ZeroDivisionError):
        _fail_inside(tmp_path / "m", seen)
    assert not seen[0].exists()
    assert _mounts() == before
    assert _groups() == []
    assert list((tmp_path / "m/layers").iterdir()) == []


def _fail_inside(folder: Path, seen: list[Path]) -> None:
    with booted(folder) as machine:
        machine.call("systemd-run", "--quiet", "sleep", "1000")
        seen.append(machine.inside("/"))
        assert seen[0].exists()
        raise ZeroDivisionError


def _mounts() -> list[str]:
    return Path("/proc/self/mountinfo").read_text().splitlines()


def _groups() -> list[str]:
    """Control groups of machines that ended; one still runs for the other tests."""
    found = Path("/sys/fs/cgroup").glob("**/stepkeeper-test-*")
    return [str(path) for path in found if "populated 0" in (path / "cgroup.events").read_text()]
