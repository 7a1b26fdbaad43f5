"""Starting a trainer: what it inherits, what it does not, and how its end is told."""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
from pathlib import Path

import pytest

from supervisor.process.child import Child, cgroup_oom_kills, spawn
from supervisor.process.locks import take
from tests.process.conftest import Lives
from tests.support.waiting import wait_until


def status_of(child: Child) -> int | None:
    wait_until(child.gone, "the end of the trainer")
    return child.status()


def signal_sets(text: str) -> dict[str, int]:
    lines = (line.split(":\t") for line in text.splitlines() if line.startswith("Sig"))
    return {key: int(value, 16) for key, value in lines if key != "SigQ"}


def test_the_trainer_begins_with_sigusr1_ignored_and_nothing_blocked(lives: Lives) -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGHUP))
    try:
        child = lives.trainer(("cat", "/proc/self/status"))
        after = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    assert status_of(child) == 0
    sets = signal_sets(lives.output.read_text())
    assert sets["SigBlk"] == 0
    assert sets["SigIgn"] == 1 << (signal.SIGUSR1 - 1)
    assert sets["SigPnd"] == 0
    assert {signal.SIGTERM, signal.SIGHUP} <= after  # the caller's own mask is put back


def test_the_trainer_begins_so_when_another_thread_starts_it(lives: Lives) -> None:
    started: list[Child] = []

    def start() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        started.append(lives.trainer(("cat", "/proc/self/status")))

    thread = threading.Thread(target=start)
    thread.start()
    thread.join(20)
    assert status_of(started[0]) == 0
    sets = signal_sets(lives.output.read_text())
    assert (sets["SigBlk"], sets["SigIgn"]) == (0, 1 << (signal.SIGUSR1 - 1))


def test_a_flood_of_sigusr1_from_the_first_moment_is_harmless(lives: Lives) -> None:
    child = lives.python("print('began')")
    while not child.gone():
        child.send("USR1")
    assert child.status() == 0
    assert lives.said() == ["began"]


def test_our_own_sigusr1_handler_is_back_after_a_start(lives: Lives) -> None:
    got: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda number, _: got.append(number))
    try:
        status_of(lives.trainer(("true",)))
        os.kill(os.getpid(), signal.SIGUSR1)
        wait_until(lambda: got, "our own SIGUSR1")
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_it_inherits_the_lock_and_no_other_descriptor(lives: Lives, tmp_path: Path) -> None:
    extra = os.open(tmp_path, os.O_RDONLY)
    os.set_inheritable(extra, True)  # noqa: FBT003 - as os gives it
    lock = take(lives.run / "trainer.lock", 0)
    code = (
        "import os; names = [f'/proc/self/fd/{n}' for n in os.listdir('/proc/self/fd')]\n"
        "print(*[os.readlink(name) for name in names if os.path.lexists(name)])"
    )
    command = (sys.executable, "-c", code)
    try:
        child = spawn(command, lives.run, lives.env(), lives.output, lock, lives.mark)
    finally:
        os.close(lock)
        os.close(extra)
    assert status_of(child) == 0
    child.close()
    out = str(lives.output)
    assert lives.said()[0].split() == ["/dev/null", out, out, str(lives.run / "trainer.lock")]


def test_its_output_is_appended_from_both_streams(lives: Lives) -> None:
    lives.output.write_text("an earlier attempt\n")
    child = lives.trainer(("sh", "-c", "echo out; echo err >&2; cat"))
    assert status_of(child) == 0  # cat has read the end of an empty standard input
    assert lives.output.read_text() == "an earlier attempt\nout\nerr\n"


def test_it_leads_a_session_of_its_own_in_the_run_directory(lives: Lives) -> None:
    child = lives.trainer(("sh", "-c", "pwd; exec sleep 1000"))
    assert lives.said() == [str(lives.run)]
    assert os.getsid(child.pid) == os.getpgid(child.pid) == child.pid


def test_its_environment_is_what_was_given_and_nothing_more(lives: Lives) -> None:
    child = lives.trainer(("env",))
    assert status_of(child) == 0
    given = {f"{key}={value}" for key, value in lives.env().items()}
    assert set(lives.output.read_text().splitlines()) == given


@pytest.mark.parametrize(
    ("command", "status"),
    [("exit 0", 0), ("exit 3", 3), ("kill -KILL $$", -9), ("kill -SEGV $$", -11)],
)
def test_its_end_is_told_as_subprocess_tells_it(lives: Lives, command: str, status: int) -> None:
    child = lives.trainer(("sh", "-c", command))
    assert status_of(child) == status
    assert child.status() == status  # reaped once, remembered
    assert not Path(f"/proc/{child.pid}").exists()


def test_the_pidfd_turns_readable_at_its_end(lives: Lives) -> None:
    child = lives.trainer()
    assert not child.gone()
    assert child.status() is None
    child.send("TERM")
    readable, _, _ = select.select([child.pidfd], [], [], 20)
    assert readable == [child.pidfd]
    assert child.status() == -signal.SIGTERM


def test_signalling_one_that_is_gone_is_not_an_error(lives: Lives) -> None:
    child = lives.trainer(("true",))
    wait_until(child.gone, "the end of the trainer")
    child.send("TERM")  # still a zombie
    assert child.status() == 0
    child.send("KILL")  # reaped
    child.close()
    child.send("USR1")  # let go
    assert child.gone()


@pytest.mark.parametrize(
    ("command", "error"),
    [("no-such-trainer", FileNotFoundError), ("./data.txt", PermissionError)],
)
def test_a_command_that_cannot_be_executed_is_told_apart(
    lives: Lives, command: str, error: type[OSError]
) -> None:
    (lives.run / "data.txt").write_text("not a program")
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(error):
        lives.trainer((command,))
    assert len(list(Path("/proc/self/fd").iterdir())) == descriptors
    assert signal.getsignal(signal.SIGUSR1) == signal.SIG_DFL


def test_kills_for_lack_of_memory_are_counted_where_the_kernel_counts_them() -> None:
    count = cgroup_oom_kills()
    assert count is None or count >= 0
