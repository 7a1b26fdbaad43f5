"""AdamW, gradient clipping and the learning rate's schedule.

The arithmetic is torch.optim.AdamW's, operation for operation and bit for bit. Its own class is
not used because building one imports hundreds of modules of the compiler, which would nearly
double the time from a crash to the next step.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor

from trainer.contract.settings import TrainSettings

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8


class AdamW:
    """First and second moments of every parameter, and the number of updates behind them."""

    def __init__(self, parameters: Iterable[Tensor], weight_decay: float) -> None:
        self.parameters = list(parameters)
        self.weight_decay = weight_decay
        self.m = [torch.zeros_like(p, requires_grad=False) for p in self.parameters]
        self.v = [torch.zeros_like(p, requires_grad=False) for p in self.parameters]
        self.updates = 0

    @torch.no_grad()
    def step(self, gradients: list[Tensor], lr: float) -> None:
        """One update. ``gradients`` stand in the order of the parameters."""
        self.updates += 1
        correction1 = 1 - BETA1**self.updates
        correction2 = math.sqrt(1 - BETA2**self.updates)
        if self.weight_decay:
            torch._foreach_mul_(self.parameters, 1 - lr * self.weight_decay)
        torch._foreach_lerp_(self.m, gradients, 1 - BETA1)
        torch._foreach_mul_(self.v, BETA2)
        torch._foreach_addcmul_(self.v, gradients, gradients, 1 - BETA2)
        scale = torch._foreach_sqrt(self.v)  # noqa: SLF001 - the only name it has
        torch._foreach_div_(scale, correction2)
        torch._foreach_add_(scale, EPSILON)
        torch._foreach_addcdiv_(self.parameters, self.m, scale, -(lr / correction1))


@torch.no_grad()
def clip(gradients: list[Tensor], bound: float) -> Tensor:
    """Scale the gradients so that their common norm is at most ``bound`` (0: leave them).

    Returns the norm before, a scalar on the gradients' device, so that nothing waits for it.
    """
    norms = torch._foreach_norm(gradients)  # noqa: SLF001 - the only name it has
    norm: Tensor = torch.linalg.vector_norm(torch.stack(norms))
    if bound:
        torch._foreach_mul_(gradients, (bound / (norm + 1e-6)).clamp(max=1.0))
    return norm


def learning_rate(t: int, settings: TrainSettings) -> float:
    """The rate of the update after ``t`` others: linear warm-up, then a cosine to its floor."""
    warmup = settings.warmup_steps
    span = max(1, settings.steps - warmup)
    progress = min(1.0, max(0.0, (t + 1 - warmup) / span))
    floor = settings.final_lr_share
    share = floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * progress))
    return settings.lr * share * min(1.0, (t + 1) / max(1, warmup))
