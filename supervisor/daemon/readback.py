"""Have checkpoints read back one at a time, in the order in which they were written."""

from __future__ import annotations

import selectors
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from supervisor import clock
from supervisor.core.messages import Verdict, Verified, Verify
from supervisor.core.state import Attempt
from supervisor.sidecars.checkpoints.verifying import Verifier

TRIES = 6  # a reader that died, killed for memory perhaps, says nothing against the checkpoint
PAUSE_SECONDS = 0.5  # before the second try, doubling: memory comes back


class _Waiting(NamedTuple):
    """A checkpoint to be read back, and what it must agree with."""

    effect: Verify
    companion: bool
    n_params: int


class ReadBack:
    """The queue before the verifying child; ``put`` receives Verified.

    ``selector`` watches the child that runs, as ``"verifier"``.
    """

    def __init__(
        self,
        folder: Path,
        selector: selectors.BaseSelector,
        put: Callable[[Verified], None],
        roots: Mapping[str, Path] | None = None,
    ) -> None:
        self._folder = folder
        self._selector = selector
        self._put = put
        self._verifier = Verifier(roots)
        self._waiting: deque[_Waiting] = deque()
        self._current: _Waiting | None = None
        self._tries = 0
        self._not_before: float | None = None

    def add(self, effect: Verify, attempt: Attempt | None) -> None:
        """Read this one back after those before it; ``attempt`` says what it must agree with."""
        companion = attempt is None or attempt.companion
        n_params = attempt.n_params if attempt else 0
        self._waiting.append(_Waiting(effect, companion, n_params))
        if self._current is None:
            self._next()

    @property
    def busy(self) -> bool:
        """Whether a checkpoint is being read back for its seal."""
        return self._current is not None

    def ready(self) -> None:
        """The child has said something: pass its verdict on, and go on with the next one."""
        descriptor = self._verifier.fileno()
        verdict = self._verifier.result()
        if verdict is None or self._current is None:
            return
        self._selector.unregister(descriptor)
        self._conclude(self._current, verdict)

    def keep_up(self, now: float) -> None:
        """Try again what could not be told, once it is time."""
        if self._not_before is not None and now >= self._not_before and self._current is not None:
            self._not_before = None
            self._start(self._current)

    def close(self) -> None:
        """End the child if it still runs."""
        self._verifier.close()

    def _next(self) -> None:
        self._current = self._waiting.popleft()
        self._tries = 0
        self._start(self._current)

    def _start(self, current: _Waiting) -> None:
        effect = current.effect
        try:
            descriptor = self._verifier.start(
                self._folder,
                effect.name,
                effect.sha256,
                companion=current.companion,
                n_params=current.n_params,
            )
        except OSError as error:
            problem = f"cannot tell whether {effect.name} is good: {error.strerror or error}"
            self._conclude(current, Verdict(effect.step, effect.name, "", 0, "", problem))
            return
        self._selector.register(descriptor, selectors.EVENT_READ, "verifier")

    def _conclude(self, current: _Waiting, verdict: Verdict) -> None:
        self._tries += 1
        if verdict.problem.startswith("cannot tell") and self._tries < TRIES:
            self._not_before = clock.monotonic() + PAUSE_SECONDS * 2 ** (self._tries - 1)
            return
        self._current = None
        self._put(Verified(current.effect.attempt, verdict))
        if self._waiting:
            self._next()
