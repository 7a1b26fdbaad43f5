"""What the exercise trains: 33 parameters, every state that a resume can lose, one update.

On the CPU. Python's generator gives a gain to each batch, a PCG64 of NumPy the noise on it and
the order of the rows, torch the dropout. A boundary is the end of an update: no gradient is held
across it.
"""

from __future__ import annotations

import platform
import random
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor, nn

from trainer import rng
from trainer.identities import code_digest
from trainer.proof import rows
from trainer.proof.facts import plain

BATCH: Final = 4
_FEATURES: Final = 2
_HIDDEN: Final = 8
_DROPOUT: Final = 0.25
_LR: Final = 0.03
_STEP_SIZE: Final = 3
_GAMMA: Final = 0.5
_GAIN: Final = 0.05  # the gain of a batch lies within so much of 1
_NOISE: Final = 0.02  # standard deviation of what is added to each variable
_SEED: Final = 20


@dataclass
class Progress:
    """``step`` updates are done; ``cursor`` rows of ``order``, the epoch's, are used up."""

    step: int
    epoch: int
    cursor: int
    order: list[int]


class Experiment:
    """Model, optimizer, scheduler, generators and data of one life, at their beginning.

    The arithmetic of this process is one thread from now on.
    """

    def __init__(self, dtype: torch.dtype = torch.float64) -> None:
        torch.set_num_threads(1)
        rng.seed_everything(_SEED)
        self.dtype = dtype
        self.model = nn.Sequential(
            nn.Linear(_FEATURES, _HIDDEN), nn.Tanh(), nn.Dropout(_DROPOUT), nn.Linear(_HIDDEN, 1)
        ).to(dtype)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=_LR)
        # Built before any state is loaded: its making would overwrite a restored learning rate.
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, _STEP_SIZE, _GAMMA)
        self.generator = np.random.Generator(np.random.PCG64(_SEED))
        self.progress = Progress(0, 0, 0, self._new_order())
        self.history: list[dict[str, Any]] = []
        self._inputs = torch.tensor([[row.x, row.y] for row in rows.ROWS], dtype=dtype)
        self._targets = torch.tensor([[row.target] for row in rows.ROWS], dtype=dtype)
        self.model.train()

    @property
    def n_params(self) -> int:
        """Parameters of the model."""
        return sum(parameter.numel() for parameter in self.model.parameters())

    @property
    def lr(self) -> float:
        """The learning rate that the next update applies."""
        return float(self.optimizer.param_groups[0]["lr"])

    def update(self) -> None:
        """One batch, one update, one line of the history."""
        indices = self._next_batch()
        lr = self.lr
        loss = self._loss(indices)
        self.optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(loss)
        self.optimizer.step()
        self.scheduler.step()
        self.progress.step += 1
        self.history.append(
            {
                "step": self.progress.step,
                "rows": [rows.ROWS[index].name for index in indices],
                "lr": lr,
                "next_lr": self.lr,
                "loss": loss.item(),
            }
        )

    def next_draws(self) -> dict[str, float]:
        """What each generator would give next; all are put back to where they stood."""
        python, numpy = random.getstate(), self.generator.bit_generator.state
        torch_state = torch.get_rng_state()
        try:
            return {
                "python": random.random(),  # noqa: S311 - a generator of the exercise
                "numpy": float(self.generator.random()),
                "torch": torch.rand((), dtype=torch.float64).item(),
            }
        finally:
            random.setstate(python)
            self.generator.bit_generator.state = numpy
            torch.set_rng_state(torch_state)

    def evaluate(self) -> list[float]:
        """The model's answer for each row, without dropout, gain and noise."""
        self.model.eval()
        with torch.no_grad():
            answers: list[float] = self.model(self._inputs).reshape(-1).tolist()
        self.model.train()
        return answers

    def snapshot(self) -> dict[str, Any]:
        """Everything that the next updates depend on, and what the model answers now."""
        answers = self.evaluate()
        pairs = zip(answers, rows.ROWS, strict=True)
        mse = sum((answer - row.target) ** 2 for answer, row in pairs) / len(answers)
        state = {
            "parameters": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scheduler": self.scheduler.state_dict(),
            "progress": asdict(self.progress),
            "next_lr": self.lr,
            "next_draws": self.next_draws(),
            "evaluation": answers,
            "mse": mse,
        }
        kept: dict[str, Any] = plain(state)
        return kept

    def identities(self) -> dict[str, Any]:
        """Settings, code, data and versions: what a resume has to find as it was."""
        settings = {
            "rows": len(rows.ROWS),
            "features": _FEATURES,
            "hidden": _HIDDEN,
            "parameters": self.n_params,
            "dropout": _DROPOUT,
            "batch": BATCH,
            "optimizer": type(self.optimizer).__name__,
            "lr": _LR,
            "scheduler": type(self.scheduler).__name__,
            "step_size": _STEP_SIZE,
            "gamma": _GAMMA,
            "gain": _GAIN,
            "noise": _NOISE,
            "seed": _SEED,
            "dtype": str(self.dtype).removeprefix("torch."),
            "device": "cpu",
            "threads": torch.get_num_threads(),
        }
        versions = {
            "python": platform.python_version(),
            "torch": str(torch.__version__),
            "numpy": np.__version__,
            "machine": platform.machine(),
        }
        code, data = code_digest(), rows.digest()
        return {"settings": settings, "code": code, "data": data, "versions": versions}

    def _next_batch(self) -> list[int]:
        at = self.progress
        if at.cursor == len(at.order):
            at.epoch, at.cursor, at.order = at.epoch + 1, 0, self._new_order()
        indices = at.order[at.cursor : at.cursor + BATCH]
        at.cursor += len(indices)
        return indices

    def _new_order(self) -> list[int]:
        order: list[int] = self.generator.permutation(len(rows.ROWS)).tolist()
        return order

    def _loss(self, indices: list[int]) -> Tensor:
        gain = 1.0 + random.uniform(-_GAIN, _GAIN)  # noqa: S311 - a generator of the exercise
        noise = self.generator.normal(scale=_NOISE, size=(len(indices), _FEATURES))
        inputs = self._inputs[indices] * gain + torch.tensor(noise, dtype=self.dtype)
        return nn.functional.mse_loss(self.model(inputs), self._targets[indices])
