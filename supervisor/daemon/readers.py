"""The children that read checkpoints: for a seal first, then against one that stands."""

from __future__ import annotations

import selectors
from collections.abc import Callable, Mapping
from pathlib import Path

from supervisor.core.messages import Event, Prove, Verify
from supervisor.core.state import State
from supervisor.daemon.proofs import Proofs
from supervisor.daemon.readback import ReadBack


class Readers:
    """``selector`` watches them as ``"verifier"``; ``put`` receives Verified and Proved.

    ``stays``: this life keeps the run, so it reads everything back once. ``roots`` are the folders
    that shards may lie in, by name.
    """

    def __init__(
        self,
        folder: Path,
        selector: selectors.BaseSelector,
        put: Callable[[Event], None],
        *,
        stays: bool,
        roots: Mapping[str, Path],
    ) -> None:
        self._readback = ReadBack(folder, selector, put, roots)
        self._proofs = Proofs(folder, selector, put, roots, everything=stays)

    def take(self, effect: Verify | Prove, state: State) -> None:
        """Read what the core asks for."""
        if isinstance(effect, Prove):
            self._proofs.want(effect)
        else:
            self._readback.add(effect, state.attempt)

    def ready(self) -> None:
        """A child has said something."""
        self._readback.ready()
        self._proofs.ready()

    def keep_up(self, state: State, now: float) -> str:
        """Go on with what nobody waits for; what a start waits for, in words, or empty."""
        self._readback.keep_up(now)
        self._proofs.keep_up(state, now, busy=self._readback.busy)
        return self._proofs.progress()

    def close(self) -> None:
        """End the children that still run."""
        self._readback.close()
        self._proofs.close()
