"""Which file systems give locks that prove something: a table of numbers, and real mounts."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from supervisor.errors import RefusedError
from supervisor.process.filesystem import Mount, magic_of, mount_of, refuse_untrusted, untrusted
from tests.support.runs import ROOT

LOCAL = {
    "ext4": 0xEF53,
    "xfs": 0x58465342,
    "btrfs": 0x9123683E,
    "tmpfs": 0x01021994,
    "overlay": 0x794C7630,
    "zfs": 0x2FC12FC1,
    "f2fs": 0xF2F52010,
    "bcachefs": 0xCA451A4E,
    "unknown": 0x12345678,
}
SHARED = {
    "nfs4": 0x6969,
    "cifs": 0xFF534D42,
    "smb3": 0xFE534D42,
    "fuse.sshfs": 0x65735546,
    "virtiofs": 0x65735546,
    "9p": 0x01021997,
    "afs": 0x5346414F,
    "gpfs": 0x47504653,
    "lustre": 0x0BD00BD0,
}


def mounted(kind: str, options: str = "rw") -> Mount:
    return Mount(kind, frozenset(options.split(",")))


@pytest.mark.parametrize("kind", LOCAL)
def test_locks_on_a_local_disk_are_trusted(kind: str) -> None:
    assert untrusted(LOCAL[kind], mounted(kind)) == ""


@pytest.mark.parametrize("kind", SHARED)
def test_locks_that_other_machines_may_not_see_are_not_trusted(kind: str) -> None:
    assert untrusted(SHARED[kind], mounted(kind))


def test_what_the_options_say_decides_where_the_number_cannot() -> None:
    assert untrusted(SHARED["lustre"], mounted("lustre", "rw,flock")) == ""
    assert untrusted(SHARED["lustre"], mounted("lustre", "rw,localflock")) == "Lustre"
    assert untrusted(SHARED["fuse.sshfs"], mounted("fuse.sshfs")) == "fuse.sshfs"
    assert untrusted(SHARED["fuse.sshfs"], mounted("fuseblk")) == ""


def test_the_nearest_mount_is_the_one_that_counts(tmp_path: Path) -> None:
    table = tmp_path / "mountinfo"
    table.write_text(
        "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n"
        "2 1 0:9 / /data rw,nosuid shared:7 - nfs4 server:/data rw,vers=4.2\n"
        "3 1 0:8 / /data rw - tmpfs none rw\n"  # mounted over the one before
        "4 3 0:7 / /data/two\\040words rw master:1 - lustre a@tcp:/l rw,flock\n"
        "broken\n"
    )
    assert mount_of(Path("/elsewhere"), table).kind == "ext4"
    assert mount_of(Path("/data/run"), table).kind == "tmpfs"
    assert mount_of(Path("/data/two words/run"), table) == mounted("lustre", "rw,flock")
    assert mount_of(Path("/x"), tmp_path / "none") == Mount("", frozenset())


def test_this_directory_has_the_number_that_stat_says(tmp_path: Path) -> None:
    said = subprocess.run(
        ["stat", "-f", "-c", "%t", tmp_path], capture_output=True, text=True, check=True
    )
    assert magic_of(tmp_path) == int(said.stdout, 16)
    with pytest.raises(FileNotFoundError):
        magic_of(tmp_path / "none")


def _in_a_namespace(folder: Path, script: str) -> str:
    """What a Python script prints that may mount things nobody else sees."""
    program = shutil.which("unshare")
    if program is None or os.geteuid():
        pytest.skip("needs root and unshare, to mount a file system")
    done = subprocess.run(
        [program, "--mount", sys.executable, "-c", script, folder],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=20,
        check=False,
    )
    if done.returncode == 77:  # the script's word for: cannot mount here
        pytest.skip(f"cannot mount here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    return done.stdout


_LOOK = """
import ctypes, os, sys
from pathlib import Path
from supervisor.errors import RefusedError
from supervisor.process.filesystem import refuse_untrusted
folder = Path(sys.argv[1])
libc = ctypes.CDLL(None, use_errno=True)
def mount(kind, place, options):
    if libc.mount(kind, os.fsencode(place), kind, 0, options):
        print(os.strerror(ctypes.get_errno()), file=sys.stderr)
        sys.exit(77)
def look(place):
    try:
        refuse_untrusted(place, trust=False)
        print("trusted")
    except RefusedError as error:
        print(error)
"""


def test_a_real_fuse_mount_is_refused_and_an_overlay_is_not(tmp_path: Path) -> None:
    """The kernel answers statfs of a foreign user's FUSE mount without asking its server."""
    script = f"""{_LOOK}
for name in ("low", "up", "work", "over", "fuse"):
    (folder / name).mkdir()
mount(b"tmpfs", folder / "up", None)
for name in ("up", "work"):
    (folder / "up" / name).mkdir()
layers = f"lowerdir={{folder}}/low,upperdir={{folder}}/up/up,workdir={{folder}}/up/work"
mount(b"overlay", folder / "over", layers.encode())
look(folder / "over")
look(folder / "up")
try:
    server = os.open("/dev/fuse", os.O_RDWR)
except OSError as error:
    print(error, file=sys.stderr)
    sys.exit(77)
options = f"fd={{server}},rootmode=40000,user_id=12345,group_id=12345"
mount(b"fuse.sshfs", folder / "fuse", options.encode())
look(folder / "fuse")
"""
    over, memory, fuse = _in_a_namespace(tmp_path, script).splitlines()
    assert (over, memory) == ("trusted", "trusted")
    assert fuse.startswith(f"cannot keep a run in {tmp_path}/fuse: it lies on fuse")
    assert "a local disk" in fuse


def test_the_operator_can_vouch_for_the_locks(tmp_path: Path) -> None:
    refuse_untrusted(tmp_path / "not looked at", trust=True)
    with pytest.raises((RefusedError, OSError)):
        refuse_untrusted(tmp_path / "not looked at", trust=False)
