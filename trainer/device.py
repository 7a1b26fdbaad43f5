"""Where and in which precision the arithmetic is done, chosen once from the settings."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

import torch

from trainer import launch
from trainer.contract.settings import TrainSettings
from trainer.errors import SettingsError


class Compute(NamedTuple):
    """A device, and whether forward passes run in bfloat16 (weights are float32 always)."""

    device: torch.device
    bf16: bool

    def autocast(self) -> AbstractContextManager[object]:
        """The context of a forward pass."""
        if not self.bf16:
            return nullcontext()
        return torch.autocast(self.device.type, dtype=torch.bfloat16)


def choose(settings: TrainSettings) -> Compute:
    """Pick the device and make it repeatable where asked. Raises SettingsError."""
    cuda = torch.cuda.is_available()
    if settings.device == "cuda" and not cuda:
        raise SettingsError('cannot use device = "cuda": torch finds no GPU; use "auto" or "cpu"')
    name = "cuda" if cuda and settings.device != "cpu" else "cpu"
    if settings.threads:
        torch.set_num_threads(settings.threads)
    if settings.deterministic and (name == "cuda" or settings.compile):
        # On the CPU every operation used is repeatable as it is; the switch costs an import of
        # the compiler's settings.
        launch.make_cuda_repeatable()
        torch.use_deterministic_algorithms(mode=True)
        torch.backends.cudnn.benchmark = False
    bf16 = settings.precision == "bf16" or (settings.precision == "auto" and name == "cuda")
    return Compute(torch.device(name), bf16)
