"""What a checkpoint holds of one step, taken at the step's end and written by any format.

The tensors are the live ones: until the next update they do not change, and whoever writes longer
than that copies them first. All else is a value of its own.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from trainer import clock, rng
from trainer.contract.checkpoint_format import Companion
from trainer.phases import phase_record
from trainer.state import State


@dataclass(frozen=True)
class Moment:
    """One step: float32 tensors in the model's own order, and everything else as JSON holds it.

    ``parameters`` are names and shapes; ``history`` the losses up to this step, as far back as they
    are known. ``image`` is, where the tensors are copies, the memory that holds them as a ``.bin``
    does, header and all, from a page's beginning; else None. The other fields are those of the
    companion.
    """

    step: int
    parameters: tuple[tuple[str, tuple[int, ...]], ...]
    weights: tuple[Tensor, ...]
    m: tuple[Tensor, ...]
    v: tuple[Tensor, ...]
    rng: dict[str, Any]
    cursors: dict[str, Any]
    schedule: dict[str, Any]
    phase: dict[str, Any] | None
    identities: dict[str, Any]
    reason: str
    saved: str
    losses: dict[str, Any] | None = None
    next: dict[str, Any] | None = None
    history: array[float] = field(default_factory=lambda: array("d"))
    image: memoryview | None = None

    @property
    def n_params(self) -> int:
        """Parameters of the model."""
        return sum(tensor.numel() for tensor in self.weights)

    def arrays(self) -> Iterator[Tensor]:
        """All weights, then all m, then all v."""
        for group in (self.weights, self.m, self.v):
            yield from group

    def companion(self, form: str, sha256: str, size: int) -> Companion:
        """The companion of the checkpoint of this moment, which has that digest and size."""
        return Companion(
            step=self.step,
            sha256=sha256,
            bytes=size,
            n_params=self.n_params,
            parameters=self.parameters,
            rng=self.rng,
            cursors=self.cursors,
            schedule=self.schedule,
            phase=self.phase,
            scaler=None,
            identities=self.identities,
            reason=self.reason,
            saved=self.saved,
            format=form,
            losses=self.losses,
            next=self.next,
        )


def take(state: State, reason: str, identities: dict[str, Any], since: int = 0) -> Moment:
    """The moment that ``state`` stands at; ``since`` is the step of the checkpoint before."""
    return Moment(
        step=state.step,
        parameters=state.shapes(),
        weights=tuple(tensor.detach() for tensor in state.optimizer.parameters),
        m=tuple(state.optimizer.m),
        v=tuple(state.optimizer.v),
        rng={**rng.capture(), "mixer": state.mixer.generator_state()},
        cursors=state.mixer.record(),
        schedule={"updates": state.optimizer.updates, "tokens": state.tokens},
        phase=phase_record(state.phase),
        identities=identities,
        reason=reason,
        saved=clock.wall(),
        losses=state.losses.since(since),
        next={"lr": state.next_rate, "arms": state.mixer.upcoming()},
        history=state.losses.whole(),
    )
