"""A request carried out on a trainer that nobody supervises, and when it is over.

The trainer is adopted and left again. No other one is started, and an interrupt ends the waiting,
not the trainer.
"""

from __future__ import annotations

from supervisor.core.messages import Asked, Effect, Event, Signalled, Spawn
from supervisor.core.state import Attempt, Life, State
from supervisor.errors import StepkeeperError
from supervisor.perform import say

INTERRUPTED = 130


class Errand:
    """``asked`` is a save or a stop."""

    def __init__(self, asked: Asked) -> None:
        self.verb = asked.verb
        self._asked = asked
        self._put = False
        self._attempt: int | None = None

    def due(self, *, caught_up: bool) -> list[Asked]:
        """The request, once: a stop at once, a save only after the fold, which tells of others."""
        if self._put or not (caught_up or self.verb == "stop"):
            return []
        self._put = True
        return [self._asked]

    def over(self, item: Event, state: State, effects: list[Effect]) -> int | None:
        """The exit code where ``item`` has ended the errand."""
        attempt = state.attempt
        if state.life is Life.PROVING or any(isinstance(effect, Spawn) for effect in effects):
            return self._lost()
        if item is self._asked and attempt is not None:
            self._attempt = attempt.number
        if self.verb == "stop" or self._attempt is None:
            return None
        if attempt is None or attempt.number != self._attempt:
            return self._lost()
        return None if state.saves or state.pending else 0

    def interrupted(self, signals: list[Signalled]) -> int | None:
        """The exit code where one of the signals ends the waiting."""
        return INTERRUPTED if any(s.name in ("INT", "TERM") for s in signals) else None

    def begin(self, attempt: Attempt | None) -> None:
        """Raise StepkeeperError where there is no trainer to adopt."""
        if attempt is None:
            raise StepkeeperError(f"cannot {self.verb}: no trainer is running")

    def _lost(self) -> int:
        say(f"cannot {self.verb}: the trainer ended before it was done", alarm=True)
        return 1
