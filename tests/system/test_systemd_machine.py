"""The booted systemd is a real one, leaves nothing behind, and is not passed over in silence."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from supervisor.process.identity import stat
from tests.support.runs import ROOT
from tests.support.systemd_machine import Machine, booted, missing
from tests.support.waiting import wait_until

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
    seen: list[Machine] = []
    with pytest.raises(ZeroDivisionError):
        _fail_inside(tmp_path / "m", seen)
    assert _groups(seen[0].group) == []
    assert _mounts() == before
    assert list((tmp_path / "m/layers").iterdir()) == []


def test_a_machine_ends_with_whoever_booted_it(tmp_path: Path) -> None:
    if why := missing():
        pytest.skip(f"CANNOT BOOT A SYSTEMD HERE: {why}")
    process = subprocess.Popen(
        [sys.executable, "-c", _BOOT, tmp_path / "m"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    number, group = process.stdout.readline().split()
    pid = int(number)
    assert _groups(group)
    assert Path(f"/proc/{pid}").exists()
    process.kill()
    process.communicate()
    # It may stay as a zombie of ours, where an earlier test had this process take orphans in.
    wait_until(lambda: _has_ended(pid), "the end of PID 1")
    wait_until(lambda: _groups(group) == [], "the end of its control groups")


def _has_ended(pid: int) -> bool:
    facts = stat(pid)
    return facts is None or facts.dead


_BOOT = """
import sys
from pathlib import Path
from tests.support.systemd_machine import booted
with booted(Path(sys.argv[1])) as machine:
    print(machine.pid, machine.group, flush=True)
    input()
"""


def _fail_inside(folder: Path, seen: list[Machine]) -> None:
    with booted(folder) as machine:
        machine.call("systemd-run", "--quiet", "sleep", "1000")
        seen.append(machine)
        assert machine.inside("/").exists()
        assert _groups(machine.group)
        raise ZeroDivisionError


def _mounts() -> list[str]:
    return Path("/proc/self/mountinfo").read_text().splitlines()


def _groups(name: str) -> list[str]:
    """Control groups of that name; those of others may go while we look."""
    found = os.walk("/sys/fs/cgroup", onerror=lambda _: None)
    return [f"{folder}/{name}" for folder, inner, _ in found if name in inner]
