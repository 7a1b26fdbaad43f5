"""What one life of the supervisor hands to the next in the same process, and what it refuses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from supervisor.control.server import Listener, Server
from supervisor.core.state import SaveRequest
from supervisor.daemon import handover
from supervisor.daemon.successor import program
from supervisor.environment import for_trainer, take_handover
from supervisor.errors import LockHeldError
from supervisor.process import child as children
from supervisor.process.answering import AnsweringChild
from supervisor.process.locks import held, take, take_over
from tests.process.conftest import Lives
from tests.process.serving import asking, connect
from tests.support.reloading import zombies
from tests.support.runs import ROOT
from tests.support.waiting import wait_until

LEFT = handover.Handover(
    pid=os.getpid(),
    version="1.0",
    lock=-1,
    listener=None,
    pidfd=-1,
    oom_kills=3,
    attempt=7,
    saves=(SaveRequest(12, pin=True, note="kept"),),
    ready=True,
    restart=False,
)


def inheritable(descriptor: int) -> bool:
    return os.get_inheritable(descriptor)


def test_what_is_handed_over_arrives_as_it_was() -> None:
    reader, writer = os.pipe()
    try:
        left = handover.Handover(
            **{name: getattr(LEFT, name) for name in LEFT.__slots__}
            | {"lock": reader, "listener": Listener(writer, 99)}
        )
        assert handover.load(left.dump()) == left
        assert inheritable(reader)
        assert inheritable(writer)
    finally:
        os.close(reader)
        os.close(writer)


@pytest.mark.parametrize(
    "text",
    ["", "nonsense", "[]", "{}", json.dumps({"pid": 1}), json.dumps({"pid": "x"})],
)
def test_what_is_not_meant_for_this_process_or_not_understood_is_nothing(text: str) -> None:
    assert handover.load(text) is None


def test_a_field_of_another_version_is_ignored_and_a_missing_one_is_absent() -> None:
    found = handover.load(json.dumps({"pid": os.getpid(), "later": [1, 2], "lock": 5}))
    assert found is not None
    assert (found.lock, found.pidfd, found.saves) == (5, -1, ())


def test_the_environment_gives_it_once_and_never_to_the_trainer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("STEPKEEPER_HANDOVER", "{}")
    assert "STEPKEEPER_HANDOVER" not in for_trainer()
    assert take_handover() == "{}"
    assert take_handover() == ""


def test_an_inherited_lock_is_taken_over_and_any_other_descriptor_is_not(tmp_path: Path) -> None:
    path = tmp_path / "run.lock"
    lock = take(path, 0.0)
    os.set_inheritable(lock, True)  # noqa: FBT003 - as the call has it
    other = os.open(tmp_path / "other", os.O_RDWR | os.O_CREAT)
    second = os.open(path, os.O_RDWR)
    try:
        assert not take_over(path, other)
        assert not take_over(path, second)  # the file, but not the lock
        assert not take_over(path, 987_654)
        assert take_over(path, lock)
        assert not inheritable(lock)
        assert held(path)
        with pytest.raises(LockHeldError):
            take(path, 0.0)
        path.unlink()
        path.touch()
        assert not take_over(path, lock)  # what it holds protects nothing any more
    finally:
        for descriptor in (lock, other, second):
            os.close(descriptor)


def test_a_connection_made_between_two_lives_is_served_by_the_second(tmp_path: Path) -> None:
    first = Server(tmp_path)
    first.pause(paused=True)
    with connect(tmp_path) as link:
        link.send(b'{"verb":"status"}\n')
        assert first.ready() == []
        assert not first.busy
        left = first.hand_over()
        first.close()
        second = Server(tmp_path, left)
        try:
            assert (tmp_path / "control.sock").exists()
            (asked,) = asking(second)
            second.answer(asked.reply, {"ok": True})
            assert link.recv(100) == b'{"ok": true}\n'
            assert not second.renew()
        finally:
            second.close()
    assert not (tmp_path / "control.sock").exists()


def test_a_socket_that_is_not_the_one_under_the_name_is_not_listened_on(tmp_path: Path) -> None:
    first = Server(tmp_path)
    left = first.hand_over()
    assert left is not None
    first.close()
    (tmp_path / "control.sock").unlink()
    for wrong in (left, Listener(os.open(tmp_path, os.O_RDONLY), 1), Listener(987_654, 1)):
        second = Server(tmp_path, wrong)
        with connect(tmp_path) as link:
            link.send(b'{"verb":"status"}\n')
            assert len(asking(second)) == 1
        second.close()
        if wrong.descriptor != left.descriptor and wrong.descriptor < 1000:
            os.close(wrong.descriptor)


def test_an_inherited_pidfd_is_that_of_the_trainer_or_of_nobody(lives: Lives) -> None:
    trainer = lives.trainer()
    descriptor = os.dup(trainer.pidfd)
    os.set_inheritable(descriptor, True)  # noqa: FBT003 - as the call has it
    other = trainer.identity._replace(pid=os.getpid())
    assert children.take_over(other, descriptor) is None
    assert children.take_over(trainer.identity, 987_654) is None
    found = children.take_over(trainer.identity, descriptor)
    assert found is not None
    assert not inheritable(descriptor)
    found.send("KILL")
    wait_until(found.gone, "the end of the trainer")
    assert found.status() == -9
    found.close()


BETWEEN_LIVES = """
import os, signal
from supervisor.process.signals import Signals, hold_back
with Signals() as first:
    os.kill(os.getpid(), signal.SIGTERM)
    os.kill(os.getpid(), signal.SIGUSR1)
    hold_back(first)
    os.kill(os.getpid(), signal.SIGHUP)  # and one that comes in between
with Signals() as second:
    wait = [signalled.name for signalled in second.drain()]
    os.kill(os.getpid(), signal.SIGTERM)
    print(*sorted(wait), *(signalled.name for signalled in second.drain()))
"""


def test_signals_that_nobody_acted_on_wait_for_the_next_life() -> None:
    """In a process of its own: a thread of another's would take what is held back in one."""
    command = [sys.executable, "-c", BETWEEN_LIVES]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("HUP TERM USR1 TERM\n", "")


def test_the_program_that_takes_over_is_the_one_that_was_typed(tmp_path: Path) -> None:
    script = tmp_path / "stepkeeper"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    words = ["run", "demo"]
    typed = [str(script), *words]
    assert program(["/v1/bin/python", *typed], typed) == (str(script),)
    module = ["python", "-X", "dev", "-m", "supervisor", *words]
    assert program(module, ["/v1/supervisor/__main__.py", *words]) == tuple(module[:-2])
    script.chmod(0o644)
    assert program(["/v1/bin/python", *typed], typed) == ("/v1/bin/python", str(script))


def test_a_child_that_answers_is_heard_whole_and_leaves_no_zombie() -> None:
    before = set(zombies(os.getpid()))  # of earlier tests, where one had us take orphans in
    child = AnsweringChild()
    code = "import sys; print('x' * 300_000); sys.exit(3)"
    descriptor = child.start([sys.executable, "-S", "-c", code], {})
    assert descriptor == child.fileno()
    said = wait_until(child.result, "its answer")
    assert (said.status, len(said.output)) == (3, 300_001)
    assert child.fileno() == -1
    child.start([sys.executable, "-S", "-c", "import time; time.sleep(60)"], {})
    assert child.result() is None
    child.close()
    assert set(zombies(os.getpid())) <= before
    with pytest.raises(OSError, match="No such file"):
        child.start(["/nowhere/at-all"], {})
    assert child.fileno() == -1


def test_a_child_that_closes_its_output_and_stays_is_ended() -> None:
    child = AnsweringChild()
    child.start(["sh", "-c", "exec >&- 2>&-; exec sleep 60"], {"PATH": "/usr/bin:/bin"})
    said = wait_until(child.result, "its end", 10.0)
    assert said == (-9, b"")


def test_nothing_of_a_handover_reaches_the_programs_that_we_start(tmp_path: Path) -> None:
    lock = take(tmp_path / "run.lock", 0.0)
    os.set_inheritable(lock, True)  # noqa: FBT003 - as the call has it
    assert take_over(tmp_path / "run.lock", lock)
    done = subprocess.run(
        ["sh", "-c", f"[ -e /proc/self/fd/{lock} ]"], close_fds=False, check=False
    )
    os.close(lock)
    assert done.returncode == 1
