"""Where training stands: the counters and the loss history, and what a resume gives back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import torch
from torch import Tensor

from trainer.full_state.errors import SchemaError
from trainer.full_state.plain import number


@dataclass
class TrainState:
    """``step`` updates are done; ``batch_in_epoch`` batches of ``epoch`` are consumed.

    ``losses`` is the history as floats; a loss that is not finite stays what it is.
    """

    step: int = 0
    epoch: int = 0
    batch_in_epoch: int = 0
    losses: list[float] = field(default_factory=list)

    def record(self) -> dict[str, Any]:
        """The four fields as plain numbers. Raises PayloadError."""
        return {
            "step": int(self.step),
            "epoch": int(self.epoch),
            "batch_in_epoch": int(self.batch_in_epoch),
            "losses": [number(loss, f"losses[{at}]") for at, loss in enumerate(self.losses)],
        }

    @classmethod
    def of(cls, record: object, where: str) -> Self:
        """The state of a ``record``, whose losses may be a float64 tensor: a long history is.

        Raises SchemaError that names the field.
        """
        fields = ("step", "epoch", "batch_in_epoch", "losses")
        if not isinstance(record, dict) or set(record) != set(fields):
            found = sorted(map(str, record)) if isinstance(record, dict) else type(record).__name__
            raise SchemaError(f"cannot use {where}: train_state: expected {fields}, found {found}")
        for name in fields[:3]:
            if type(record[name]) is not int or record[name] < 0:
                raise SchemaError(
                    f"cannot use {where}: train_state.{name}: expected a whole number of 0 or "
                    f"more, found {record[name]!r}"
                )
        losses = record["losses"]
        if isinstance(losses, Tensor) and losses.dtype == torch.float64 and losses.ndim == 1:
            record = {**record, "losses": losses.tolist()}
        elif not isinstance(losses, list) or not {float}.issuperset(map(type, losses)):
            raise SchemaError(f"cannot use {where}: train_state.losses: expected a list of floats")
        return cls(**{name: record[name] for name in fields})


@dataclass
class Restored(TrainState):
    """Where training stands after a resume, and how exactly it was restored.

    ``omitted`` are the parts that were left out on request; ``device_changed`` says that no claim
    on bits holds; ``remarks`` name what is not as it was when this was saved. ``accumulation`` is
    the number of micro-batches whose gradients stand in the model, 0 at a window's border;
    ``extra`` is the caller's own; ``rng`` is for ``generators_moved``.
    """

    schema: str = ""
    omitted: tuple[str, ...] = ()
    device_changed: bool = False
    remarks: tuple[str, ...] = ()
    accumulation: int = 0
    extra: dict[str, Any] = field(default_factory=dict)
    rng: dict[str, Any] = field(default_factory=dict)
