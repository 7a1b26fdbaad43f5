"""Everything that a step changes, in one place: exactly what a checkpoint has to hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from torch import Tensor

from trainer.losses import Losses
from trainer.mixer import Mixer
from trainer.model import Transformer
from trainer.optimizer import AdamW
from trainer.phases import Phase


@dataclass
class State:
    """``step`` steps are done, on ``tokens`` tokens; ``phase`` is the last one begun, or None.

    ``rate`` gives the learning rate of the update after so many others.
    """

    model: Transformer
    optimizer: AdamW
    mixer: Mixer
    rate: Callable[[int], float]
    step: int = 0
    tokens: int = 0
    phase: Phase | None = None
    losses: Losses = field(default_factory=Losses)

    @property
    def n_params(self) -> int:
        """Parameters of the model."""
        return sum(parameter.numel() for parameter in self.optimizer.parameters)

    @property
    def next_rate(self) -> float:
        """The learning rate of the next update."""
        return self.rate(self.optimizer.updates)

    def shapes(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """Names and shapes of the parameters, in the order of the arrays."""
        return tuple((name, tuple(p.shape)) for name, p in self.model.named_parameters())

    def arrays(self) -> Iterator[Tensor]:
        """All weights, then all m, then all v: float32, in the model's order."""
        for group in (self.optimizer.parameters, self.optimizer.m, self.optimizer.v):
            for tensor in group:
                yield tensor.detach()
