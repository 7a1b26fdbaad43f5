"""The supervisor as a service: what it tells its manager, its signals, what it refuses."""

from __future__ import annotations

import json
import os
import pty
import shutil
import signal
import socket
import struct
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.daemon import Daemon, end_all
from tests.support.runs import ROOT, Run, scripted
from tests.support.waiting import wait_until

pytestmark = pytest.mark.system

Supervise = Callable[..., Daemon]


class Manager:
    """The socket of a service manager, and all that came in on it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(path))
        self.socket.settimeout(0)
        self.states: list[str] = []

    def heard(self, start: str) -> list[str]:
        while True:
            try:
                self.states += self.socket.recv(4096).decode().split("\n")
            except BlockingIOError:
                return [state for state in self.states if state.startswith(start)]


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    found = Manager(tmp_path / "notify")
    yield found
    found.socket.close()


def test_the_manager_is_told_ready_status_and_signs_of_life(
    supervise: Supervise, manager: Manager
) -> None:
    daemon = supervise(scripted(every=100, rate=200), every=100)
    daemon.start(env={"NOTIFY_SOCKET": str(manager.path), "WATCHDOG_USEC": "400000"})
    daemon.until(lambda: manager.heard("READY=1"), "READY")
    assert daemon.run.attempts()[0]["identity"]
    daemon.until(
        lambda: [s for s in manager.heard("STATUS=") if "loss" in s and "steps/s" in s],
        "a status with step, loss and rate",
    )
    before = len(manager.heard("WATCHDOG=1"))
    daemon.until(lambda: len(manager.heard("WATCHDOG=1")) > before + 3, "signs of life")
    assert daemon.stop() == 0
    assert manager.heard("STOPPING=1")
    trainer = daemon.run.path / "attempts/000001/output.log"
    assert "NOTIFY_SOCKET" not in trainer.read_text()


def test_a_loop_that_does_not_turn_gives_no_sign_of_life(
    supervise: Supervise, manager: Manager
) -> None:
    daemon = supervise(scripted(every=100, rate=40), every=100)
    daemon.start(env={"NOTIFY_SOCKET": str(manager.path), "WATCHDOG_USEC": "200000"})
    daemon.until(lambda: manager.heard("WATCHDOG=1"), "a sign of life")
    daemon.until_step(5)
    daemon.signal(signal.SIGSTOP)
    state = Path(f"/proc/{daemon.pid}/stat")
    daemon.until(lambda: state.read_text().rpartition(")")[2].split()[0] == "T", "the stop")
    stopped = len(manager.heard("WATCHDOG=1"))
    step = daemon.run.reports(1, "step")[-1]["step"]
    daemon.until(lambda: daemon.run.reports(1, "step")[-1]["step"] > step + 40, "a second")
    assert len(manager.heard("WATCHDOG=1")) == stopped
    daemon.signal(signal.SIGCONT)
    daemon.until(lambda: len(manager.heard("WATCHDOG=1")) > stopped, "signs of life again")
    daemon.until_step(step + 40)
    assert daemon.stop() == 0


def test_sigusr1_reaches_the_trainers_main_process_and_no_worker(supervise: Supervise) -> None:
    daemon = supervise(scripted(every=10_000, rate=200, workers=2), every=10_000).start()
    daemon.until_step(20)
    before = daemon.run.pids()
    assert len(before) == 3
    daemon.signal(signal.SIGUSR1)
    daemon.until(daemon.run.seals, "a seal")
    (seal,) = daemon.run.seals().values()
    assert seal["reason"] == "signal"
    daemon.until_step(seal["step"] + 20)
    assert daemon.run.pids() == before
    assert daemon.stop() == 0


def test_a_second_stop_changes_nothing(supervise: Supervise) -> None:
    daemon = supervise(scripted(every=1000, rate=200, slow_save=1.0), every=1000).start()
    daemon.until_step(20)
    daemon.signal(signal.SIGTERM)
    daemon.until(lambda: (daemon.run.read("intent.json") or {}).get("want") == "stop", "the intent")
    daemon.signal(signal.SIGINT)
    assert daemon.stop() == 0
    assert list(daemon.run.seals()) == [daemon.run.last_step()]


def test_a_terminal_that_vanishes_does_not_end_the_run(supervise: Supervise) -> None:
    run = supervise(scripted(every=100, rate=200), every=100).run
    command = [sys.executable, "-m", "supervisor", "run", str(run.path)]
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(ROOT)
        os.execv(sys.executable, command)
    try:
        wait_until(lambda: run.last_step() >= 20, "step 20", describe=run.describe)
        os.close(terminal)
        log = run.path / "supervisor.log"
        wait_until(lambda: log.exists() and "head " in log.read_text(), "a head in the log")
        os.kill(pid, signal.SIGTERM)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert run.last_step() in run.seals()
    finally:
        end_all(run)


def refusal(daemon: Daemon) -> str:
    """What a supervisor says that will not start, which must be one line, with exit code 11."""
    daemon.start()
    assert daemon.wait() == 11
    said = daemon.logs()[-1].read_text()
    assert said.startswith("cannot ")
    assert said.count("\n") == 1
    return said


@pytest.fixture
def stopped(supervise: Supervise) -> Daemon:
    """A run stopped somewhere behind a seal at 100."""
    daemon = supervise(scripted(every=100, rate=500), every=100).start()
    daemon.until_seal(100)
    assert daemon.stop() == 0
    return daemon


def test_a_second_supervisor_is_refused_and_names_the_first(supervise: Supervise) -> None:
    daemon = supervise(scripted(every=100, rate=200), every=100).start()
    daemon.until_step(10)
    second = Daemon(daemon.run)
    said = refusal(second)
    assert f"pid {daemon.pid}" in said
    assert daemon.stop() == 0


def test_a_missing_ledger_stops_the_start(stopped: Daemon) -> None:
    ledger = stopped.run.path / "demo.loss.json"
    ledger.rename(stopped.run.path / "elsewhere")
    assert "demo.loss.json" in refusal(stopped)
    assert not ledger.exists()


def test_a_ledger_shorter_than_its_seal_stops_the_start(stopped: Daemon) -> None:
    ledger = stopped.run.path / "demo.loss.json"
    data = b"".join(ledger.read_bytes().splitlines(keepends=True)[:-20])
    ledger.write_bytes(data)
    refusal(stopped)
    assert ledger.read_bytes() == data


def test_a_ledger_of_another_run_stops_the_start(stopped: Daemon, supervise: Supervise) -> None:
    other = supervise(scripted(every=100, rate=500), every=100).start()
    other.until_seal(100)
    assert other.stop() == 0
    shutil.copy(other.run.path / "demo.loss.json", stopped.run.path / "demo.loss.json")
    refusal(stopped)


def test_two_ledgers_stop_the_start(stopped: Daemon) -> None:
    shutil.copy(stopped.run.path / "demo.loss.json", stopped.run.path / "other.loss.json")
    assert "other.loss.json" in refusal(stopped)


def test_a_checkpoint_ahead_of_the_ledger_is_superseded_and_never_resumed(stopped: Daemon) -> None:
    """As after a power cut that the checkpoint survived and the reports did not."""
    folder = stopped.run.path / "checkpoints"
    newest = stopped.run.last_step()
    source = folder / f"step_{newest:06d}.bin"
    ahead = newest + 50
    data = struct.pack("<i", ahead) + source.read_bytes()[4:]
    (folder / f"step_{ahead:06d}.bin").write_bytes(data)
    companion = json.loads((folder / f"step_{newest:06d}.json").read_text())
    (folder / f"step_{ahead:06d}.json").write_text(json.dumps({**companion, "step": ahead}))
    stopped.start()
    stopped.until_step(newest + 80)
    assert stopped.stop() == 0
    assert stopped.run.attempts()[-1]["resume"]["step"] == newest
    moved = list((folder / "superseded").glob(f"*/step_{ahead:06d}.bin"))
    assert [path.read_bytes() for path in moved] == [data]
    steps = [line["step"] for line in stopped.run.ledger()]
    assert steps == list(range(1, steps[-1] + 1))


def test_other_peoples_files_in_our_folders_are_left_alone(stopped: Daemon) -> None:
    run: Run = stopped.run
    foreign = {
        run.path / "notes.txt": b"mine",
        run.path / "checkpoints/step_000050.bin.bak": b"a copy",
        run.path / "checkpoints/.hidden.tmp": b"not ours",
        run.path / "attempts/readme": b"?",
        run.path / "archive-of-mine/demo.state.json": b"{}",
    }
    for path, data in foreign.items():
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
    last = run.last_step()
    stopped.start()
    stopped.until_step(last + 120)
    assert stopped.stop() == 0
    assert {path: path.read_bytes() for path in foreign} == foreign
