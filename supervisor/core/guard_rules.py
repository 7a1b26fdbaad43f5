"""The operator's rules for the guards on the loss, as plain values."""

from __future__ import annotations

from dataclasses import dataclass

from supervisor.core.levels import BLOCK, MEMORY
from supervisor.core.rungs import Action

SPAN = 3000  # steps after which a window forgets a loss, however rarely its arm is drawn
CALM = 200  # steps, where nothing is quarantined
LOOK = 1000  # steps for which a suspicion that is over is remembered


@dataclass(frozen=True, slots=True)
class Nonfinite:
    """Rules for a loss that is no number."""

    action: Action = Action.ALERT


@dataclass(frozen=True, slots=True)
class Spike:
    """``threshold`` in robust deviations, over the arm's last ``window`` losses, from ``least`` on.

    A deviation is at least ``floor`` of the median, so that a flat loss may still move.
    """

    action: Action = Action.ALERT
    threshold: float = 10.0
    window: int = 64
    least: int = 32
    floor: float = 0.01


@dataclass(frozen=True, slots=True)
class Divergence:
    """Above the lowest of the last ``window`` steps by the share ``margin``, for ``steps``."""

    action: Action = Action.ALERT
    margin: float = 0.05
    steps: int = 500
    window: int = 10_000


@dataclass(frozen=True, slots=True)
class Plateau:
    """Not lower by the share ``margin`` than it was ``steps`` before."""

    action: Action = Action.RECORD
    margin: float = 0.005
    steps: int = 10_000


@dataclass(frozen=True, slots=True)
class Guards:
    """The operator's rules. ``rollback_most`` rolls back to one seal so often, then it stops.

    With 0 ``quarantine_steps`` nothing is quarantined.
    """

    nonfinite: Nonfinite = Nonfinite()
    spike: Spike = Spike()
    divergence: Divergence = Divergence()
    plateau: Plateau = Plateau()
    quarantine_steps: int = 200
    rollback_most: int = 2

    def action(self, guard: str) -> Action:
        """What to do about a finding of this guard."""
        of: Nonfinite | Spike | Divergence | Plateau = getattr(self, guard)
        return of.action

    @property
    def calm(self) -> int:
        """After so many steps without such a loss, the next one is another event."""
        return self.quarantine_steps or CALM

    @property
    def blocks(self) -> int:
        """How many blocks are kept: those that are compared, and those that an average rests on."""
        steps = max(self.divergence.window + self.divergence.steps, self.plateau.steps)
        return max(-(-steps // BLOCK) + 1, MEMORY)

    @property
    def tail(self) -> int:
        """Steps from which all that is kept can be told anew."""
        return max((self.blocks + MEMORY) * BLOCK, SPAN + LOOK) + BLOCK


GUARDED = Guards()
