"""How long the followed trainer has said nothing, in turns of our own loop.

A turn counts only where all reports were read in it and there was none, and never for more than
one poll: while we were stopped, starved or asleep, nothing was missed that could be proved. Bytes
of a checkpoint that move are a sign of life as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from supervisor.core.hanging import budget
from supervisor.core.messages import Event, Moved, Quiet
from supervisor.core.state import Life, State
from supervisor.daemon.following import POLL_SECONDS, Following
from supervisor.sidecars.checkpoints.growing import Mark, marks

LOOK_SECONDS = 1.0
LEAST_POLLS = 2
_GAP = 1.0
_LOOKS = 4  # of the checkpoints' folder within a budget, at least


class Silence:
    """``seconds`` of it; ``put`` receives Quiet past the core's budget, and Moved.

    ``judges`` is False for a visit that does not stay: it has no word on a hang.
    ``roots`` are the folders that shards may lie in, by name.
    """

    def __init__(
        self,
        run: Path,
        put: Callable[[Event], None],
        *,
        judges: bool,
        roots: Mapping[str, Path] = MappingProxyType({}),
    ) -> None:
        self.seconds = 0.0
        self._judges = judges
        self._polls = 0
        self._folder = run / "checkpoints"
        self._roots = roots
        self._put = put
        self._attempt = 0
        self._at = self._look_at = 0.0
        self._seen: frozenset[Mark] | None = None

    def turn(self, state: State, following: Following | None, now: float, *, polled: bool) -> None:
        """The loop came round at ``now``; ``polled`` says whether reports were looked for."""
        passed, self._at = now - self._at, now
        if following is None:
            return
        if following.attempt != self._attempt:
            self._attempt, self._seen, passed = following.attempt, None, 0.0
            self._begin_anew()
        limit = budget(state) if self._judges else None
        if limit is None or following.ended or (polled and following.heard):
            self._begin_anew()
        elif polled and following.caught_up:
            self.seconds += min(passed, POLL_SECONDS)
            self._polls += 1
        if state.life is Life.STOPPING:
            if passed > _GAP or self._moved(now, LOOK_SECONDS):
                self._put(Moved(self._attempt))
        elif limit is not None:
            every = min(LOOK_SECONDS, limit.seconds / _LOOKS)
            if self.seconds > every and self._moved(now, every):
                self._begin_anew()
        if limit and self.seconds > limit.seconds and self._polls >= LEAST_POLLS:
            self._put(Quiet(self._attempt, following.seq, self.seconds))

    def facts(self, state: State) -> dict[str, Any]:
        """What status tells: seconds of silence, and what they may come to (None: no limit)."""
        limit = budget(state)
        return {
            "quiet": round(self.seconds, 1),
            "budget": round(limit.seconds, 1) if limit else None,
            "of": limit.what if limit else None,
            "why": limit.why if limit else None,
        }

    def _begin_anew(self) -> None:
        self.seconds, self._polls = 0.0, 0

    def _moved(self, now: float, every: float) -> bool:
        """Whether a checkpoint grew, came or went since the last look; at most one in ``every``."""
        if now < self._look_at:
            return False
        self._look_at = now + every
        before, self._seen = self._seen, marks(self._folder, self._roots)
        return before is not None and before != self._seen
