"""Marks on checkpoints: pinned, rejected, quarantined no more, or with data to skip."""

from __future__ import annotations

from supervisor import clock
from supervisor.core.messages import Lift, Pin, Reject, Skip, Unpin
from supervisor.perform import retaining
from supervisor.perform.parts import Parts
from supervisor.sidecars.checkpoints import lift, pin, reject, skip, unpin

Mark = Pin | Unpin | Reject | Lift | Skip


def mark(parts: Parts, effect: Mark) -> None:
    """Make it durable. Raises OSError, RefusedError for marks that cannot be read."""
    folder = parts.checkpoints
    match effect:
        case Pin():
            retaining.refuse_to_pin(parts.run, effect.step)
            pin(folder, effect.step, effect.note)
        case Unpin():
            unpin(folder, effect.step)
        case Reject():
            reject(folder, effect.seal, effect.why)
        case Lift():
            facts = {"step": effect.step, "seal": effect.seal, "why": effect.why}
            parts.events.append("quarantine-lifted", facts, clock.wall(), once=True)
            lift(folder, effect.seal)
        case Skip():
            skip(folder, effect.seal, effect.attempt, effect.steps)
