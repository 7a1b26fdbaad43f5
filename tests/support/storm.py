"""A storm: the supervisor of one run killed, reloaded and stopped at random moments of its life.

Which moments follows from a seed alone. They are drawn as shares of the time that this machine
takes to start a supervisor, so that about a third of them fall into its start.
"""

from __future__ import annotations

import signal
import time
from random import Random

from supervisor.control import request
from supervisor.errors import UnknownError
from tests.support.daemon import Daemon
from tests.support.scripted_reports import pause

SECONDS = 60.0
SPAN = 3.0  # starts of a supervisor within which its next moment lies
FROZEN = 0.3  # seconds that a supervisor is stopped at most


class Storm:
    """``kills``, ``reloads`` and ``freezes`` count what was done to the supervisor so far."""

    def __init__(self, daemon: Daemon, seed: int) -> None:
        self.daemon = daemon
        self.kills = self.reloads = self.freezes = 0
        self._random = Random(seed)  # noqa: S311 - moments, not secrets
        self._start = 0.5

    def measure(self) -> None:
        """Start a supervisor, and take the time until it answers."""
        began = time.perf_counter()
        self.daemon.start()
        self.answers()
        self._start = time.perf_counter() - began

    def answers(self) -> None:
        """Wait until the supervisor answers."""

        def asked() -> bool:
            try:
                return "supervisor" in request(self.daemon.run.path, "status", {}, 5.0)
            except UnknownError:
                return False

        self.daemon.until(asked, "an answer of the supervisor", SECONDS)

    def blow(self) -> None:
        """At a random moment kill it, also in the middle of a reload, and start the next one.

        Now and then it is stopped and continued before.
        """
        draw = self._random.random()
        self._wait(SPAN)
        if draw < 0.15:
            self.freezes += 1
            self.daemon.signal(signal.SIGSTOP)
            self._wait(FROZEN / self._start)
            self.daemon.signal(signal.SIGCONT)
            self._wait(1.0)
        elif draw < 0.35:
            self.reloads += 1
            self.daemon.signal(signal.SIGHUP)
            self._wait(SPAN)
        self.kill()
        self.daemon.start()

    def kill(self) -> None:
        """SIGKILL to the supervisor, and what it had under way is left as it is."""
        self.kills += 1
        self.daemon.kill()

    def _wait(self, most: float) -> None:
        pause(self._random.uniform(0.0, most) * self._start)
