"""``[guards]``: what watches the loss, and what is done about what it finds."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from supervisor.config.parsing import Section
from supervisor.core.guard_rules import LOOK, Divergence, Guards, Nonfinite, Plateau, Spike
from supervisor.core.ladder import Action

Rung = Literal["record", "alert", "checkpoint", "freeze", "rollback", "stop"]
# What builds up over thousands of steps did not begin behind the newest seal.
RungOfTrend = Literal["record", "alert", "checkpoint", "freeze", "stop"]


class NonfiniteSettings(Section):
    """``[guards.nonfinite]``: a loss that is no number."""

    action: Rung = "rollback"


class SpikeSettings(Section):
    """``[guards.spike]``: a loss far above its arm's own, in robust deviations."""

    action: Rung = "alert"
    threshold: float = Field(default=10.0, gt=0)
    window: int = Field(default=64, ge=8, le=1024)
    least: int = Field(default=32, ge=8, le=1024)
    floor: float = Field(default=0.01, ge=0)


class DivergenceSettings(Section):
    """``[guards.divergence]``: a smoothed loss that stays above its lowest."""

    action: RungOfTrend = "alert"
    margin: float = Field(default=0.05, gt=0)
    steps: int = Field(default=500, ge=0, le=100_000)
    window: int = Field(default=10_000, ge=1000, le=100_000)


class PlateauSettings(Section):
    """``[guards.plateau]``: a smoothed loss that does not come down."""

    action: RungOfTrend = "record"
    margin: float = Field(default=0.005, ge=0)
    steps: int = Field(default=10_000, ge=1000, le=100_000)


class GuardSettings(Section):
    """``[guards]``: how long a checkpoint is suspect, and how often the run is rolled back."""

    nonfinite: NonfiniteSettings = NonfiniteSettings()
    spike: SpikeSettings = SpikeSettings()
    divergence: DivergenceSettings = DivergenceSettings()
    plateau: PlateauSettings = PlateauSettings()
    quarantine_steps: int = Field(default=200, ge=0, le=LOOK)
    rollback_most: int = Field(default=2, ge=0)

    def rules(self) -> Guards:
        """As the core takes them."""
        spike, divergence, plateau = self.spike, self.divergence, self.plateau
        return Guards(
            Nonfinite(Action(self.nonfinite.action)),
            Spike(
                Action(spike.action),
                spike.threshold,
                spike.window,
                min(spike.least, spike.window),
                spike.floor,
            ),
            Divergence(
                Action(divergence.action), divergence.margin, divergence.steps, divergence.window
            ),
            Plateau(Action(plateau.action), plateau.margin, plateau.steps),
            self.quarantine_steps,
            self.rollback_most,
        )
