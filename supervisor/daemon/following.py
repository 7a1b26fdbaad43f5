"""Follow the running attempt: its reports by polling, its process by pidfd, its checkpoints."""

from __future__ import annotations

import random
import selectors
from collections.abc import Callable
from pathlib import Path

from supervisor.core.messages import (
    Ended,
    Event,
    ReportsPosition,
    VisibleCheckpoint,
)
from supervisor.core.state import State
from supervisor.perform.spawning import reports_path
from supervisor.process.child import Child, cgroup_oom_kills
from supervisor.process.reports import Follower
from supervisor.sidecars.checkpoints import scan

POLL_SECONDS = 0.05
AHEAD = 2  # runs of reports given to the core and not yet in the ledger
AHEAD_IN_TROUBLE = 256  # the same, while the disk does not take the ledger: at most 16 MB


def may_read_on(ahead: int, state: State) -> bool:
    """Whether the ledger is near; while it is stuck, a stop still has to see the end."""
    return ahead < (AHEAD_IN_TROUBLE if state.trouble else AHEAD)


class Following:
    """One attempt being followed; ``put`` receives its events in order.

    The end of the process is told only when its reports are read to the end; ``selector`` is woken
    by it, as ``"child"``. ``heard`` tells whether the last poll found a report. ``oom_kills`` is
    the kernel's count from when the attempt was first followed in this process.
    """

    def __init__(
        self,
        run: Path,
        position: ReportsPosition,
        child: Child | None,
        put: Callable[[Event], None],
        selector: selectors.BaseSelector,
        oom_kills: int | None = None,
    ) -> None:
        self.attempt = position.attempt
        self.child = child
        self.caught_up = False
        self.heard = False
        self._run = run
        self._put = put
        self._follower = Follower(reports_path(run, position.attempt), position)
        self.oom_kills = cgroup_oom_kills() if oom_kills is None else oom_kills
        self._told = False
        self._selector = selector
        self._watched = child.pidfd if child is not None else -1
        if self._watched >= 0:
            selector.register(self._watched, selectors.EVENT_READ, "child")

    def poll(self) -> bool:
        """Read once; whether there may be more to read at once."""
        if self._told:
            return False
        gone = self.child is None or self.child.gone()
        events = self._follower.poll()
        self.heard = bool(events)
        for event in events:
            self._put(event)
        self.caught_up = self._follower.exhausted
        if gone and self.caught_up:
            self._tell_end()
        return not self.caught_up

    @property
    def ended(self) -> bool:
        """Whether the end was told."""
        return self._told

    @property
    def seq(self) -> int:
        """The number of the last report given out."""
        return self._follower.position.seq

    def forget_child(self) -> None:
        """Its end is known: be woken by it no more."""
        if self._watched >= 0:
            self._selector.unregister(self._watched)
            self._watched = -1

    def close(self) -> None:
        """Let go of the reports' file and of the process."""
        self.forget_child()
        self._follower.close()

    def _tell_end(self) -> None:
        self._told = True
        status = self.child.status() if self.child is not None else None
        kills = cgroup_oom_kills()
        oom = kills is not None and self.oom_kills is not None and kills > self.oom_kills
        visible = tuple(
            VisibleCheckpoint(found.step, found.name)
            for found in scan(self._run / "checkpoints").unsealed
        )
        draw = random.random()  # noqa: S311 - jitter, not a secret
        self._put(Ended(self.attempt, status, oom, visible, draw))
