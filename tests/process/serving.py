"""A supervisor's loop in small around the operator's socket, and clients that misbehave."""

from __future__ import annotations

import json
import select
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from supervisor.control import NAME
from supervisor.control.server import Server
from supervisor.core.messages import Asked
from tests.support.waiting import wait_until


class Loop:
    """A supervisor's loop around a server: what is asked is kept, and answered with its fields."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.asked: list[Asked] = []
        self.reply: Callable[[Asked], dict[str, Any]] = lambda asked: {"verb": asked.verb}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            if select.select([self.server.fileno()], [], [], 0.05)[0]:
                for asked in self.server.ready():
                    self.asked.append(asked)
                    self.server.answer(asked.reply, self.reply(asked))

    def end(self) -> None:
        self._stop.set()
        self._thread.join(20)
        self.server.close()


def connect(run: Path) -> socket.socket:
    link = socket.socket(socket.AF_UNIX)
    link.settimeout(10)
    link.connect(str(run / NAME))
    return link


def raw(run: Path, data: bytes, *, shut: bool = False) -> dict[str, Any]:
    """Send bytes as they are and read the answer."""
    with connect(run) as link:
        try:
            link.sendall(data)
            if shut:
                link.shutdown(socket.SHUT_WR)
        except (BrokenPipeError, ConnectionResetError):
            pass  # refused before it was all sent
        with link.makefile("rb") as file:
            answer = json.loads(file.readline())
    assert isinstance(answer, dict)
    return answer


def asking(server: Server) -> list[Asked]:
    """Make turns until somebody asks."""
    asked: list[Asked] = []
    wait_until(lambda: asked.extend(server.ready()) or asked, "a request")
    return asked
