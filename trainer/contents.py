"""All that a checkpoint holds of a step but its arrays, in one form for every format."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

from trainer import rng
from trainer.contract.checkpoint_format import Companion
from trainer.losses import read_losses
from trainer.phases import read_phase
from trainer.state import State


class Contents(NamedTuple):
    """``generators`` are states as the companion has them, the mixer's among them.

    ``losses`` are those up to ``step``, as far back as the checkpoint holds them.
    """

    step: int
    tokens: int
    updates: int
    phase: dict[str, Any] | None
    cursors: dict[str, Any]
    generators: dict[str, Any]
    losses: list[float]


def of_companion(companion: Companion) -> Contents:
    """What the companion of a ``.bin`` holds. Raises KeyError, TypeError, ValueError."""
    return Contents(
        step=companion.step,
        tokens=int(companion.schedule["tokens"]),
        updates=int(companion.schedule["updates"]),
        phase=companion.phase,
        cursors=companion.cursors,
        generators=companion.rng,
        losses=read_losses(companion.losses, companion.step),
    )


def restore(state: State, contents: Contents, omit: Collection[str] = ()) -> list[str]:
    """Put everything back but the arrays, generators last; returns what does not match.

    What ``omit`` names stays as a fresh start has it; of the arrays, m or v become zero. Raises
    ValueError, KeyError or TypeError.
    """
    state.step = contents.step
    state.losses.replace(contents.step, contents.losses)
    if "scheduler" not in omit:
        state.tokens = contents.tokens
        state.optimizer.updates = contents.updates
    if "phase" not in omit:
        state.phase = read_phase(contents.phase)
    remarks = []
    if "cursor" not in omit:
        remarks += state.mixer.restore(contents.cursors)
    for name, arrays in (("m", state.optimizer.m), ("v", state.optimizer.v)):
        if name in omit:
            for tensor in arrays:
                tensor.zero_()
    if "rng" not in omit:
        state.mixer.restore_generator(contents.generators["mixer"])
        rng.restore(contents.generators)
    return remarks + [f"{name} is left out, as STEPKEEPER_OMIT asks" for name in sorted(omit)]
