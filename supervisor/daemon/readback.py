"""Have checkpoints read back one at a time, in the order in which they were written."""

from __future__ import annotations

import selectors
from collections import deque
from collections.abc import Callable
from pathlib import Path

from supervisor.core.messages import Verdict, Verified, Verify
from supervisor.sidecars.checkpoints.verifying import Verifier


class ReadBack:
    """The queue before the verifying child; ``put`` receives Verified.

    ``selector`` watches the child that runs, as ``"verifier"``.
    """

    def __init__(
        self, folder: Path, selector: selectors.BaseSelector, put: Callable[[Verified], None]
    ) -> None:
        self._folder = folder
        self._selector = selector
        self._put = put
        self._verifier = Verifier()
        self._waiting: deque[tuple[Verify, bool]] = deque()
        self._current: Verify | None = None

    def add(self, effect: Verify, *, companion: bool) -> None:
        """Read this one back after those before it; ``companion`` says that it must have one."""
        self._waiting.append((effect, companion))
        if self._current is None:
            self._next()

    def ready(self) -> None:
        """The child has said something: pass its verdict on, and go on with the next one."""
        descriptor = self._verifier.fileno()
        verdict = self._verifier.result()
        if verdict is not None and self._current is not None:
            self._selector.unregister(descriptor)
            self._conclude(self._current, verdict)

    def close(self) -> None:
        """End the child if it still runs."""
        self._verifier.close()

    def _next(self) -> None:
        effect, companion = self._waiting.popleft()
        self._current = effect
        try:
            descriptor = self._verifier.start(
                self._folder, effect.name, effect.sha256, companion=companion
            )
        except OSError as error:
            problem = f"cannot read {effect.name} back: {error}"
            self._conclude(effect, Verdict(effect.step, effect.name, "", 0, "", problem))
            return
        self._selector.register(descriptor, selectors.EVENT_READ, "verifier")

    def _conclude(self, effect: Verify, verdict: Verdict) -> None:
        self._current = None
        self._put(Verified(effect.attempt, verdict))
        if self._waiting:
            self._next()
