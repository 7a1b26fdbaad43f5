"""Watch the time limits: how much is left by the clocks, and when a stop must begin."""

from __future__ import annotations

from collections.abc import Callable

from supervisor import clock
from supervisor.core.limits import Left, Limits
from supervisor.core.messages import ClockStepped, Event, LimitNear
from supervisor.core.state import State, Want

STEP_SECONDS = 60.0  # what the clock may drift between two looks before it was set


class TimeLeft:
    """``began`` is when an operator started the run, in seconds since the boot."""

    def __init__(self, limits: Limits, began: float, put: Callable[[Event], None]) -> None:
        self._limits = limits
        self._began = began
        self._put = put
        self._before: tuple[float, float] | None = None

    def look(self, state: State) -> None:
        """Look at the clocks, about once a second."""
        self.see(state, clock.unix(), clock.monotonic(), clock.since_boot())

    def see(self, state: State, wall: float, now: float, booted: float) -> None:
        """Tell the core of a clock that was set, and of a limit that has come near enough.

        ``wall`` is in seconds since 1970, ``now`` of the monotonic clock, ``booted`` since boot.
        """
        self._compare(wall, now)
        left = self.left(wall, booted)
        if left is None or state.want is Want.STOP:
            return
        attempt = state.attempt
        needed = self._limits.needed(
            max(state.longest_save, attempt.longest_save if attempt else 0.0),
            attempt.longest_step if attempt else 0.0,
            attempt.n_params if attempt else 0,
        )
        if left.seconds <= needed:
            self._put(LimitNear(left.name, left.seconds, needed))

    def left(self, wall: float, booted: float) -> Left | None:
        """The limit that comes first."""
        return self._limits.left(wall, booted - self._began)

    def _compare(self, wall: float, now: float) -> None:
        before, self._before = self._before, (wall, now)
        if before is None:
            return
        seconds = (wall - before[0]) - (now - before[1])
        if abs(seconds) > STEP_SECONDS:
            stop_at = self._limits.stop_at
            self._put(ClockStepped(seconds, None if stop_at is None else stop_at - wall))
