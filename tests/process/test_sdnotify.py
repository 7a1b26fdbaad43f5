"""What the service manager is told, over a real socket; silence where there is none."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor.process.sdnotify import Notifier


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, socket.socket]]:
    """A manager's socket and its name as the environment gives it."""
    name = str(tmp_path / "notify") if request.param == "path" else f"@{secrets.token_hex(8)}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.settimeout(10)
        listener.bind(name.replace("@", "\0"))
        yield name, listener


def test_every_state_arrives_as_a_datagram_of_its_own(manager: tuple[str, socket.socket]) -> None:
    name, listener = manager
    notifier = Notifier.from_environment({"NOTIFY_SOCKET": name})
    notifier.ready()
    notifier.status("step 112700\nloss 3.23")
    notifier.watchdog()
    notifier.extend(1.5)
    notifier.stopping()
    told = [listener.recv(4096).decode() for _ in range(5)]
    notifier.close()
    assert told == [
        f"READY=1\nMAINPID={os.getpid()}",
        "STATUS=step 112700 loss 3.23",
        "WATCHDOG=1",
        "EXTEND_TIMEOUT_USEC=1500000",
        "STOPPING=1",
    ]


@pytest.mark.parametrize(
    "env", [{}, {"NOTIFY_SOCKET": ""}, {"NOTIFY_SOCKET": "vsock:2:1"}, {"NOTIFY_SOCKET": "/gone"}]
)
def test_without_a_manager_that_can_be_reached_nothing_happens(env: dict[str, str]) -> None:
    notifier = Notifier.from_environment(env)
    notifier.ready()
    notifier.status("fine")
    notifier.close()
    notifier.watchdog()
    assert notifier.watchdog_interval is None


def test_a_manager_that_does_not_read_never_blocks(manager: tuple[str, socket.socket]) -> None:
    name, _ = manager
    notifier = Notifier.from_environment({"NOTIFY_SOCKET": name})
    for _ in range(10_000):
        notifier.watchdog()
    notifier.close()


@pytest.mark.parametrize(
    ("env", "interval"),
    [
        ({"WATCHDOG_USEC": "30000000"}, 15.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid())}, 15.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
    ],
)
def test_the_watchdog_is_fed_twice_as_often_as_it_asks(
    env: dict[str, str], interval: float | None
) -> None:
    notifier = Notifier.from_environment(env)
    assert notifier.watchdog_interval == interval
    notifier.close()
