"""What an attempt leaves behind is gone before the next one's first instruction."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.process.conftest import alive
from tests.support.daemon import Daemon
from tests.support.runs import ROOT, scripted
from tests.support.service import PYTHON, Service, within
from tests.support.systemd_machine import HOME

pytestmark = pytest.mark.system

Supervise = Callable[..., Daemon]
HIDING = str(ROOT / "tests/support/hiding.py")

# Starts a worker that notes SIGTERM, then becomes the trainer.
NOTING = """
import os, signal, sys, time
run = os.environ["STEPKEEPER_RUN"]
if not os.fork():
    def note(*_):
        open(run + "/termed", "w").write(str(os.getppid()))
        os._exit(0)
    signal.signal(signal.SIGTERM, note)
    open(run + "/worker", "w").write(str(os.getpid()))
    while True:
        time.sleep(0.05)
os.execv(sys.argv[1], sys.argv[1:])
"""


@pytest.fixture
def hiding(supervise: Supervise) -> Iterator[Callable[..., Daemon]]:
    """A run whose trainers hide a worker; every one is ended with the test."""
    made: list[Daemon] = []

    def make(**options: object) -> Daemon:
        command = [sys.executable, "-S", HIDING, *scripted(**options)]
        made.append(supervise(command, every=100))
        return made[-1]

    yield make
    for daemon in made:
        for pid in hidden(daemon):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def hidden(daemon: Daemon) -> list[int]:
    note = daemon.run.path / "hidden"
    return [int(pid) for pid in note.read_text().split()] if note.exists() else []


def found(path: Path, attempt: int) -> str | None:
    note = path / f"found-{attempt:06d}"
    return note.read_text() if note.exists() else None


def test_a_worker_that_hides_from_session_token_and_parent_is_gone_before_the_next_attempt(
    hiding: Callable[..., Daemon],
) -> None:
    daemon = hiding(rate=300).start()
    daemon.until_step(20)
    first = daemon.until_trainer()
    [secret] = hidden(daemon)
    os.kill(first, signal.SIGKILL)
    daemon.until_trainer(first)
    assert found(daemon.run.path, 2) == ""
    assert not alive(secret)
    assert f"{secret}" in daemon.output()
    assert daemon.stop() == 0


def test_workers_that_outlived_supervisor_and_trainer_are_gone_before_the_next_attempt(
    hiding: Callable[..., Daemon],
) -> None:
    """126 of them stayed on the GPUs elsewhere, and the next start failed for want of memory."""
    daemon = hiding(rate=300, workers=6, stray_workers=6).start()
    daemon.until_step(20)
    first = daemon.until_trainer()
    workers = [pid for pid in daemon.run.pids() if pid != first]
    assert len(workers) == 12
    daemon.kill()
    os.kill(first, signal.SIGKILL)
    daemon.start().until_trainer(first)
    told = found(daemon.run.path, 2)
    # Without a service's cgroup a dead supervisor's orphans are the init's: one hides from us.
    assert told in ("", *(str(pid) for pid in hidden(daemon)[:1]))
    assert not any(alive(pid) for pid in workers)
    assert daemon.stop() == 0


def test_under_a_service_manager_even_then_nothing_is_left(
    serve: Callable[..., Service],
) -> None:
    """The unit's cgroup holds what hides from session, token and parent."""
    script = f"{HOME}/code/tests/support/hiding.py"
    command = [PYTHON, "-S", script, *within(rate=100, every=100)]
    service = serve(command, every=100).start()
    service.until_step(10)
    main, first = service.main, service.trainer()
    service.signal("KILL", main)
    service.signal("KILL", first)
    service.until(lambda: found(service.run.path, 2) is not None, "another attempt")
    assert found(service.run.path, 2) == ""
    service.until_more()
    service.stop()


def test_a_stop_signals_the_trainer_alone_and_its_workers_when_it_has_ended(
    supervise: Supervise,
) -> None:
    command = [sys.executable, "-S", "-c", NOTING, *scripted(rate=300)]
    daemon = supervise(command, every=10_000).start()
    daemon.until_step(20)
    trainer = daemon.until_trainer()
    worker = int((daemon.run.path / "worker").read_text())
    assert daemon.stop() == 0
    assert max(daemon.run.seals()) == daemon.run.last_step()
    assert not alive(worker)
    parent = int((daemon.run.path / "termed").read_text())
    assert parent not in (0, trainer), "it was signalled while its trainer was alive"
    assert f"pid {worker}" in daemon.output()


def test_a_run_that_is_finished_leaves_no_worker_behind(hiding: Callable[..., Daemon]) -> None:
    daemon = hiding(rate=300, steps=40, workers=2, stray_workers=2).start()
    assert daemon.wait() == 0
    assert daemon.run.pids() == []
    assert not any(alive(pid) for pid in hidden(daemon))
