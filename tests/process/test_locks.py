"""Kernel locks on descriptors: who holds one, who can take it, and what the loser is told."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor.errors import LockHeldError, RefusedError
from supervisor.process.locks import held, holders, take
from tests.process.conftest import Lives
from tests.support.runs import ROOT
from tests.support.waiting import wait_until

HOLDER = """
import sys
from pathlib import Path
from supervisor.process.locks import take
take(Path(sys.argv[1]), 0)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    return tmp_path / "run.lock"


@pytest.fixture
def holder(lock: Path, lives: Lives) -> Iterator[subprocess.Popen[bytes]]:
    """Another process that holds the lock until its input ends."""
    process = lives.other(
        [sys.executable, "-c", HOLDER, lock],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    with process.stdin, process.stdout:
        assert process.stdout.readline() == b"held\n"
        yield process


def test_a_lock_is_a_file_of_the_owner_alone_and_not_inherited(lock: Path) -> None:
    descriptor = take(lock, 0)
    assert lock.stat().st_mode & 0o777 == 0o600
    assert not os.get_inheritable(descriptor)
    os.close(descriptor)


def test_closing_the_descriptor_lets_go(lock: Path) -> None:
    assert not held(lock)  # there is no file yet
    descriptor = take(lock, 0)
    assert held(lock)
    os.close(descriptor)
    assert not held(lock)
    os.close(take(lock, 0))


def test_the_refusal_names_the_holder(lock: Path, holder: subprocess.Popen[bytes]) -> None:
    assert holders(lock) == [holder.pid]
    with pytest.raises(LockHeldError) as refusal:
        take(lock, 0)
    assert str(refusal.value).startswith(f"cannot take {lock}: it is held by pid {holder.pid};")
    assert refusal.value.exit_code == 11


def test_having_the_file_open_is_not_holding_it(lock: Path, lives: Lives) -> None:
    lock.touch()
    with lock.open() as reader:
        lives.other(stdin=reader)
        assert holders(lock) == []
        descriptor = take(lock, 0)
        assert holders(lock) == [os.getpid()]
        os.close(descriptor)


def test_a_taker_outlives_a_holder_that_ends_in_time(
    lock: Path, holder: subprocess.Popen[bytes]
) -> None:
    waited: list[float] = []

    def wait(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == 3:
            holder.kill()
            holder.wait(20)

    os.close(take(lock, 20, wait))
    assert len(waited) == 3


def test_a_killed_holder_holds_nothing(lock: Path, holder: subprocess.Popen[bytes]) -> None:
    holder.kill()
    holder.wait(20)
    assert not held(lock)


def test_a_reader_that_asks_just_now_is_not_taken_for_a_holder(lock: Path) -> None:
    with lock.open("w") as reader:
        fcntl.flock(reader, fcntl.LOCK_SH)
        assert not held(lock)
    descriptor = take(lock, 0)
    assert held(lock)
    os.close(descriptor)


def test_readers_see_neither_one_another_nor_keep_a_taker_away(lock: Path, lives: Lives) -> None:
    lock.touch()
    code = (
        "import sys; from pathlib import Path; from supervisor.process.locks import held\n"
        "print('on', flush=True)\n"
        "while True: assert not held(Path(sys.argv[1])) or Path(sys.argv[1] + '.taken').exists()\n"
    )
    readers = [
        lives.other([sys.executable, "-c", code, lock], stdout=subprocess.PIPE, cwd=ROOT)
        for _ in range(2)
    ]
    for reader in readers:
        assert reader.stdout is not None
        with reader.stdout:
            reader.stdout.readline()
    assert all(reader.poll() is None for reader in readers)
    Path(f"{lock}.taken").touch()
    for _ in range(50):
        os.close(take(lock, 2))
    assert all(reader.poll() is None for reader in readers)


def test_a_lock_file_that_was_replaced_is_taken_anew(lock: Path) -> None:
    """A lock on a removed file would protect nothing."""
    code = (
        "import os, sys; from pathlib import Path; import filelock\n"
        "from supervisor.process.locks import take\n"
        "path, replaced = Path(sys.argv[1]), []\n"
        "def audit(event, _):\n"
        "    if event == 'fcntl.flock' and not replaced:\n"  # opened, not yet locked
        "        replaced.append(path.stat().st_ino)\n"
        "        path.rename(path.with_suffix('.old')); path.touch()\n"
        "sys.addaudithook(audit)\n"
        "print(os.fstat(take(path, 5)).st_ino == path.stat().st_ino != replaced[0])\n"
    )
    command = [sys.executable, "-c", code, lock]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, timeout=30)
    assert done.stdout == b"True\n"


def test_what_cannot_be_a_lock_is_refused_by_name(lock: Path, tmp_path: Path) -> None:
    lock.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RefusedError, match=f"^cannot lock {lock}: "):
        take(lock, 0)
    assert not (tmp_path / "elsewhere").exists()


def test_a_forked_worker_holds_the_trainers_lock_and_a_popened_one_does_not(lives: Lives) -> None:
    path = lives.run / "trainer.lock"
    child = lives.python(
        "import os, subprocess, time\n"
        "popened = subprocess.Popen(['sleep', '1000']).pid\n"
        "forked = os.fork()\n"
        "if not forked: time.sleep(1000)\n"
        "print(popened, forked, flush=True)\n"
        "time.sleep(1000)\n"
    )
    popened, forked = map(int, lives.said()[0].split())
    assert holders(path) == sorted([child.pid, forked])
    child.send("KILL")
    wait_until(child.gone, "the end of the trainer")
    child.status()
    assert holders(path) == [forked]
    os.kill(forked, 9)
    wait_until(lambda: not held(path), "the forked worker's end")
    assert Path(f"/proc/{popened}").exists()
