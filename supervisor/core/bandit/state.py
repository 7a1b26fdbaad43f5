"""What is known of the arms under one policy: statistics, decided phases, who left and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from trainer.contract.wire import PhaseOrder


class Discounted(NamedTuple):
    """Sums over rewards in [0, 1] in which older pulls count less.

    ``pulls`` counts them, ``total`` sums their rewards, ``square`` the squares of these.
    """

    pulls: float = 0.0
    total: float = 0.0
    square: float = 0.0


NOTHING = Discounted()


@dataclass(frozen=True, slots=True)
class ArmState:
    """Statistics of one arm under the policy in force.

    ``served`` and ``failed`` count pulls; ``n`` pulls have a reward, ``mean`` and ``ema`` are of
    those rewards in [0, 1]; ``loss`` is the smoothed loss, or None before the first. ``epochs``
    is how often its documents were read since the run began, None where the trainer does not
    say; ``epochs_from`` are epochs and served pulls from which on they are counted together.
    ``discounted`` is kept for every algorithm; ``log_weight`` is exp3s's iterate, or None.
    ``content`` identifies what the source held when it was looked at, empty before; ``changed``
    is the last step that was done when it was found to hold something else, 0 for never.
    """

    name: str
    served: int = 0
    failed: int = 0
    n: int = 0
    mean: float = 0.0
    ema: float = 0.0
    loss: float | None = None
    last_step: int = 0
    epochs: float | None = None
    discounted: Discounted = NOTHING
    log_weight: float | None = None
    epochs_from: tuple[float, int] | None = None
    content: str = ""
    changed: int = 0

    @property
    def requested(self) -> int:
        """Pulls asked for: those served and those that failed."""
        return self.served + self.failed


@dataclass(frozen=True, slots=True)
class Retired:
    """An arm that holds no weight any more, with its numbers kept."""

    arm: ArmState
    why: str
    step: int


@dataclass(frozen=True, slots=True)
class BanditState:
    """Everything the next decision depends on.

    ``phases`` are those decided and not yet reported finished; ``decided`` numbers the last of
    them. ``rewards`` is the scaler's window of raw rewards; ``generator`` a 64-bit state.
    ``step`` is the last step of the last finished phase, at first the one that training began
    after. ``frozen`` says why the mix is decided as under ``static``; empty where it is not.
    ``strangers`` are pulls of what is no arm of this policy, by the name that the trainer gave;
    under the empty name are those without one, and all beyond the first few names.

    Served pulls of arms, retired arms and strangers sum to the pulls since the policy began.
    """

    policy: int
    digest: str
    arms: tuple[ArmState, ...]
    phases: tuple[PhaseOrder, ...] = ()
    decided: int = 0
    finished: int = 0
    rewards: tuple[float, ...] = ()
    generator: int = 0
    retired: tuple[Retired, ...] = ()
    step: int = 0
    frozen: str = ""
    strangers: tuple[tuple[str, int], ...] = ()

    @property
    def served(self) -> int:
        """All pulls served since the policy began, whoever has left since."""
        left = sum(retired.arm.served for retired in self.retired)
        strange = sum(pulls for _, pulls in self.strangers)
        return sum(arm.served for arm in self.arms) + left + strange
