"""A supervisor dies; the next one takes on exactly the trainer that was left, or none."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from pathlib import Path

import pytest

from supervisor.errors import LockHeldError
from supervisor.process.child import Child, Identity, adopt, find_by_token
from supervisor.process.ending import status_of_adopted
from supervisor.process.identity import identify
from supervisor.process.locks import held, take
from tests.process.conftest import SLEEP, Lives, alive
from tests.support.runs import ROOT
from tests.support.waiting import wait_until

# A supervisor in small: takes the lock, spawns, says who it spawned, and dies without a word.
SUPERVISOR = """
import json, os, signal, sys
from pathlib import Path
from supervisor.process.child import spawn
from supervisor.process.locks import take
run, env, command = Path(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[4:]
lock = take(run / "trainer.lock", 0)
child = spawn(command, run, env, run / "output.log", lock, env["STEPKEEPER_TOKEN"])
os.close(lock)
print(json.dumps(child.identity), flush=True)
if sys.argv[3] == "die":
    os.kill(os.getpid(), signal.SIGKILL)
sys.stdin.read()
"""


def supervised(lives: Lives, command: tuple[str, ...] = SLEEP, then: str = "die") -> Identity:
    """Let another process spawn a trainer; it dies at once, or stays without ever reaping."""
    process = lives.other(
        [sys.executable, "-c", SUPERVISOR, lives.run, json.dumps(lives.env()), then, *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
    )
    assert process.stdout is not None
    assert process.stdin is not None
    with process.stdout, process.stdin:
        identity = Identity(*json.loads(process.stdout.readline()))
        lives.remember(identity.pid)
        if then == "die":
            process.wait(20)
            return identity
        # Its end is waited for while it still has not reaped its child.
        wait_until(lambda: not alive(identity.pid), "the end of the trainer")
        assert Path(f"/proc/{identity.pid}").exists()
        assert adopt(identity) is None
    return identity


def adopted(identity: Identity) -> Child:
    child = adopt(identity)
    assert child is not None
    return child


def test_a_trainer_whose_supervisor_was_killed_is_adopted_and_ended(lives: Lives) -> None:
    identity = supervised(lives)
    child = adopted(identity)
    assert child.identity == identity
    assert not child.gone()
    child.send("KILL")
    wait_until(child.gone, "the end of the adopted trainer")
    assert child.status() in (-9, None)  # not ours: whether anyone can say is up to the kernel
    child.close()
    assert adopt(identity) is None


def kernel_tells_of_the_reaped() -> bool:
    """Whether a pidfd knows how a process ended that was waited for (Linux 6.15)."""
    process = subprocess.Popen(["true"])
    pidfd = os.pidfd_open(process.pid)
    try:
        facts = identify(process.pid, "")
        assert facts is not None
        process.wait(20)
        return status_of_adopted(facts, pidfd) == 0
    finally:
        os.close(pidfd)


@pytest.mark.parametrize(("command", "status"), [("exit 7", 7), ("exit 0", 0), ("kill -9 $$", -9)])
@pytest.mark.parametrize("reaped", [False, True])
def test_the_end_of_an_adopted_trainer_is_told_where_the_kernel_knows(
    lives: Lives, command: str, status: int, *, reaped: bool
) -> None:
    if reaped and not kernel_tells_of_the_reaped():
        pytest.skip("needs Linux 6.15, whose pidfds know of ends that were waited for")
    process = lives.other(["sh", "-c", f"read go; {command}"], stdin=subprocess.PIPE)
    assert process.stdin is not None
    identity = identify(process.pid, "")
    assert identity is not None
    pidfd = os.pidfd_open(process.pid)
    try:
        assert status_of_adopted(identity, pidfd) is None
        process.stdin.close()
        assert select.select([pidfd], [], [], 20)[0]
        if reaped:
            process.wait(20)
        assert status_of_adopted(identity, pidfd) == status
    finally:
        os.close(pidfd)


@pytest.mark.parametrize(
    "other",
    [{"start_ticks": 1}, {"boot_id": "another"}, {"pid_namespace": 1}, {"token": "token-2"}],
    ids=lambda other: next(iter(other)),
)
def test_one_fact_that_does_not_agree_refuses_the_adoption(
    lives: Lives, other: dict[str, object]
) -> None:
    child = lives.trainer()
    adopted(child.identity).close()
    assert adopt(child.identity._replace(**other)) is None
    assert not child.gone()


def test_one_in_the_middle_of_its_exec_is_found_and_adopted(lives: Lives) -> None:
    """For a moment it has no environment that could tell its token."""
    for turn in range(40):
        child = lives.trainer()
        if turn % 2:
            assert find_by_token(lives.mark) == child.identity
        adopted(child.identity).close()
        child.send("KILL")
        wait_until(child.gone, "the end of the trainer")


def test_a_token_that_only_begins_like_ours_is_another(lives: Lives) -> None:
    child = lives.trainer()
    assert adopt(Identity(*child.identity[:-1], lives.mark[:-1])) is None
    assert find_by_token(lives.mark[:-1]) is None


# Writes over its own environment in memory, as programs do that set their title.
WIPE = """
import sys, time
fields = open("/proc/self/stat").read().rpartition(")")[2].split()
start, end = int(fields[47]), int(fields[48])
with open("/proc/self/mem", "r+b", buffering=0) as memory:
    memory.seek(start)
    memory.write(b"x" * (end - start))
{lock}
print("wiped", flush=True)
time.sleep(1000)
"""


def test_a_trainer_that_sets_its_title_is_proven_by_its_lock(lives: Lives) -> None:
    child = lives.python(WIPE.format(lock=""))
    lives.said()
    assert find_by_token(lives.mark) is None
    adopted(child.identity).close()
    assert adopt(child.identity._replace(start_ticks=1)) is None


def test_one_that_shows_neither_token_nor_lock_is_not_adopted(lives: Lives) -> None:
    child = lives.python(WIPE.format(lock="import os; os.closerange(3, 100)"))
    lives.said()
    assert adopt(child.identity) is None


def test_a_zombie_of_somebody_else_is_not_adopted(lives: Lives) -> None:
    supervised(lives, ("true",), then="stay")


def test_our_own_zombie_is_adopted_so_that_its_end_is_told(lives: Lives) -> None:
    child = lives.trainer(("sh", "-c", "exit 7"))
    wait_until(child.gone, "the end of the trainer")
    again = adopted(child.identity)  # as after a re-exec, which forgets objects but not children
    assert again.gone()
    assert again.status() == 7
    again.close()


def test_a_trainer_whose_pid_was_never_recorded_is_found_by_its_token(lives: Lives) -> None:
    lives.other(env=lives.env(), start_new_session=False)  # carries the token and leads nothing
    code = "import subprocess; subprocess.run(['sleep', '1000'])"
    identity = supervised(lives, (sys.executable, "-c", code))
    children = Path(f"/proc/{identity.pid}/task/{identity.pid}/children")
    wait_until(lambda: children.read_text().strip(), "a worker that carries the token too")
    assert find_by_token(lives.mark) == identity
    assert find_by_token(f"{lives.mark}2") is None


def test_the_trainers_lock_outlives_its_supervisor_and_forbids_a_second_trainer(
    lives: Lives,
) -> None:
    identity = supervised(lives)
    path = lives.run / "trainer.lock"
    assert held(path)
    with pytest.raises(LockHeldError, match=f"held by pid {identity.pid};"):
        take(path, 0.1)
    with pytest.raises(LockHeldError):
        lives.trainer()
    child = adopted(identity)
    child.send("KILL")
    wait_until(child.gone, "the end of the adopted trainer")
    child.close()
    os.close(take(path, 2))
    assert not held(path)
