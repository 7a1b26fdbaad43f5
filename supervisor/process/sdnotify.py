"""Tell the service manager how the supervisor is; silent where there is none."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Mapping
from typing import Self

from supervisor import clock


class Notifier:
    """Sends states to the socket that a service manager named; without one it does nothing.

    ``watchdog_interval`` is half of what the manager allows between signs of life, in seconds,
    or None where it watches nothing. A manager that cannot be reached never stops a run.
    """

    def __init__(self, address: str, watchdog_interval: float | None = None) -> None:
        self.watchdog_interval = watchdog_interval
        self.told_ready = False
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        self._socket: socket.socket | None = None
        if address.startswith(("@", "/")):
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
            self._socket.settimeout(0)

    @classmethod
    def from_environment(cls, env: Mapping[str, str]) -> Self:
        """Read NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID."""
        interval = None
        usec, pid = env.get("WATCHDOG_USEC", ""), env.get("WATCHDOG_PID", "")
        if usec.isdigit() and int(usec) > 0 and pid in ("", str(os.getpid())):
            interval = int(usec) / 2e6
        return cls(env.get("NOTIFY_SOCKET", ""), interval)

    def ready(self) -> None:
        """The lock is held and the trainer spawned or adopted."""
        self.told_ready = True
        self._send("READY=1", f"MAINPID={os.getpid()}")

    def reloading(self) -> None:
        """Another life is about to begin under our pid; ``ready`` follows from it."""
        self._send("RELOADING=1", f"MONOTONIC_USEC={int(clock.monotonic() * 1e6)}")

    def status(self, text: str) -> None:
        """One line for people."""
        self._send(f"STATUS={' '.join(text.split())}")

    def watchdog(self) -> None:
        """The loop has come round."""
        self._send("WATCHDOG=1")

    def extend(self, seconds: float) -> None:
        """Ask for ``seconds`` more from now before a start or stop is called late."""
        self._send(f"EXTEND_TIMEOUT_USEC={int(seconds * 1e6)}")

    def stopping(self, *, done: bool = False) -> None:
        """The end has begun; ``done`` says that it is a good one, also where nothing had begun."""
        if done and not self.told_ready:
            self.ready()  # a start that ends well without a word counts as failed
        self._send("STOPPING=1")

    def close(self) -> None:
        """Let go of the socket."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _send(self, *states: str) -> None:
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.sendto("\n".join(states).encode(), self._address)
