"""The operator's socket as a file and as a server: who may connect, and that nothing blocks."""

from __future__ import annotations

import json
import os
import select
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from supervisor.control import NAME, request
from supervisor.control.server import Server
from supervisor.errors import RefusedError, UnknownError
from tests.process.serving import Loop, asking, connect
from tests.support.waiting import wait_until

STRANGER = 12345


def test_clients_that_dawdle_keep_nobody_waiting_and_are_dropped(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with connect(tmp_path) as half, connect(tmp_path) as silent, connect(tmp_path) as good:
        half.send(b'{"verb":')
        good.send(b'{"verb":"status"}\n')
        asked = asking(server)
        assert [one.verb for one in asked] == ["status"]
        monkeypatch.setattr("supervisor.control.server.PATIENCE", -1.0)
        server.ready()
        assert half.recv(100) == silent.recv(100) == b""
        # The one that asked waits for the core, however long it thinks.
        server.answer(asked[0].reply, {"ok": True})
        assert good.recv(100) == b'{"ok": true}\n'


def test_an_answer_that_nobody_reads_blocks_nothing_and_arrives_whole(
    server: Server, tmp_path: Path
) -> None:
    with connect(tmp_path) as link:
        link.send(b'{"verb":"status"}\n')
        (asked,) = asking(server)
        server.answer(asked.reply, {"text": "x" * 3_000_000})
        got = b""
        while not got.endswith(b"\n"):
            got += link.recv(1 << 20)
            server.ready()
    assert len(got) > 3_000_000
    assert server._clients == {}


def test_an_answer_never_reaches_the_next_client(server: Server, tmp_path: Path) -> None:
    """The descriptor of one that left is the next one's."""
    with connect(tmp_path) as link:
        link.send(b'{"verb":"status"}\n')
        (first,) = asking(server)
    with connect(tmp_path) as link:
        link.send(b'{"verb":"release"}\n')
        (second,) = asking(server)
        assert len(server._clients) == 1
        server.answer(first.reply, {"for": "first"})
        server.answer(second.reply, {"for": "second"})
        assert link.recv(100) == b'{"for": "second"}\n'


def test_a_crowd_is_turned_away_and_the_loop_goes_on(server: Server, tmp_path: Path) -> None:
    crowd = []
    for _ in range(100):
        crowd.append(connect(tmp_path))
        server.ready()
    assert len(server._clients) == 32
    for link in crowd:
        link.close()
    wait_until(lambda: server.ready() == [] and not server._clients, "the crowd to be gone")
    with connect(tmp_path) as link:
        link.send(b'{"verb":"status"}\n')
        assert asking(server)[0].verb == "status"


def test_an_idle_server_does_not_spin(server: Server, tmp_path: Path) -> None:
    with connect(tmp_path) as link:
        link.sendall(b'{"verb":"status"}\n')
        link.shutdown(socket.SHUT_WR)
        asking(server)
        assert select.select([server.fileno()], [], [], 0.05)[0] == []


def test_the_socket_is_its_owners_alone_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with_umask = Server(tmp_path)
    finally:
        os.umask(before)
    facts = (tmp_path / NAME).lstat()
    assert stat.S_ISSOCK(facts.st_mode)
    assert stat.S_IMODE(facts.st_mode) == 0o600
    with_umask.close()
    assert not (tmp_path / NAME).exists()


def test_a_path_longer_than_an_address_serves_as_well(tmp_path: Path) -> None:
    run = tmp_path / ("a" * 100) / ("b" * 100)
    run.mkdir(parents=True)
    loop = Loop(Server(run))
    try:
        assert request(run, "status", {}, 10) == {"verb": "status"}
    finally:
        loop.end()


def test_a_stale_socket_is_replaced_and_any_other_file_is_not(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(tmp_path / NAME))
    with pytest.raises(UnknownError, match="no supervisor answers"):
        request(tmp_path, "status", {}, 1)
    Server(tmp_path).close()
    for make in (Path.touch, Path.mkdir, lambda path: path.symlink_to(tmp_path / "elsewhere")):
        make(tmp_path / NAME)
        with pytest.raises(RefusedError, match=r"^cannot listen on .* no socket"):
            Server(tmp_path)
        assert os.path.lexists(tmp_path / NAME)
        path = tmp_path / NAME
        path.rmdir() if path.is_dir() else path.unlink()


def test_a_socket_that_vanished_is_bound_anew_under_the_same_descriptor(
    loop: Loop, tmp_path: Path
) -> None:
    assert not loop.server.renew()
    before = loop.server.fileno()
    (tmp_path / NAME).unlink()
    with pytest.raises(UnknownError):
        request(tmp_path, "status", {}, 1)
    assert loop.server.renew()
    assert loop.server.fileno() == before
    assert request(tmp_path, "status", {}, 10) == {"verb": "status"}


def test_closing_leaves_another_supervisors_socket_alone(tmp_path: Path) -> None:
    first = Server(tmp_path)
    (tmp_path / NAME).unlink()
    second = Server(tmp_path)
    first.close()
    assert (tmp_path / NAME).exists()
    second.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
@pytest.mark.parametrize("owner", [0, STRANGER])
def test_another_user_may_look_and_not_touch(loop: Loop, tmp_path: Path, owner: int) -> None:
    """The run belongs to root or to the stranger, who connects past the file's mode."""
    loop.end()
    tmp_path.chmod(0o755)
    os.chown(tmp_path, owner, owner)
    loop = Loop(Server(tmp_path))
    (tmp_path / NAME).chmod(0o666)  # else it could not even connect
    code = (
        "import os, socket, sys; os.setgid(12345); os.setuid(12345)\n"
        "for verb in sys.argv[1:]:\n"
        "    link = socket.socket(socket.AF_UNIX); link.connect('control.sock')\n"
        "    link.sendall(('{\"verb\":\"' + verb + '\"}\\n').encode())\n"
        "    print(link.makefile().readline(), end=''); link.close()\n"
    )
    command = [sys.executable, "-c", code, "status", "stop", "save"]
    try:
        done = subprocess.run(command, capture_output=True, check=True, timeout=30, cwd=tmp_path)
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        assert answers[0] == {"verb": "status"}
        if owner == STRANGER:
            assert answers[1:] == [{"verb": "stop"}, {"verb": "save"}]
        else:
            refusal = "cannot {}: uid 12345 is not the owner of this run, uid 0"
            assert answers[1:] == [{"error": refusal.format(verb)} for verb in ("stop", "save")]
        assert request(tmp_path, "stop", {}, 10) == {"verb": "stop"}  # root may
    finally:
        loop.end()
