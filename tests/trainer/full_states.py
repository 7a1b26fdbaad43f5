"""A small training script that uses everything with a state, and what it does step by step."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from trainer.full_state import (
    EpochOrder,
    Restored,
    TrainState,
    Written,
    load_checkpoint,
    load_sharded_checkpoint,
    save_checkpoint,
    save_sharded_checkpoint,
)

ITEMS, BATCH = 22, 4  # the last batch of an epoch is a short one
OPTIMIZERS: dict[str, Any] = {
    "Adam": lambda p: torch.optim.Adam(p, lr=0.03, amsgrad=True),
    "AdamW": lambda p: torch.optim.AdamW(p, lr=0.03),
    "SGD": lambda p: torch.optim.SGD(p, lr=0.03, momentum=0.9, nesterov=True),
}
SCHEDULERS: dict[str, Any] = {
    "OneCycleLR": lambda o: torch.optim.lr_scheduler.OneCycleLR(o, max_lr=0.05, total_steps=40),
    "StepLR": lambda o: torch.optim.lr_scheduler.StepLR(o, step_size=3, gamma=0.5),
    "MultiStepLR": lambda o: torch.optim.lr_scheduler.MultiStepLR(o, [2, 2, 9], gamma=0.5),
}


class Net(nn.Module):
    """Two inputs, one output, dropout, and buffers that move with every batch."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.first = nn.Linear(2, width)
        self.norm = nn.BatchNorm1d(width)
        self.drop = nn.Dropout(0.25)
        self.last = nn.Linear(width, 1)

    def forward(self, rows: Tensor) -> Tensor:
        return self.last(self.drop(torch.relu(self.norm(self.first(rows)))))


@dataclass
class Script:
    """One process's objects; ``seed`` makes two of them begin unlike each other."""

    seed: int = 0
    optimizer_name: str = "AdamW"
    scheduler_name: str = "OneCycleLR"
    width: int = 8
    state: TrainState = field(default_factory=TrainState)
    seen: list[list[int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        torch.set_num_threads(1)  # for models as small as this, threads only wait for each other
        random.seed(self.seed)
        np.random.seed(self.seed)  # noqa: NPY002 - the global one is what is tested
        torch.manual_seed(self.seed)
        self.noise = np.random.default_rng(self.seed)
        self.model = Net(self.width)
        self.optimizer = OPTIMIZERS[self.optimizer_name](self.model.parameters())
        self.scheduler = SCHEDULERS[self.scheduler_name](self.optimizer)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=2)
        self.loader = EpochOrder(ITEMS, BATCH, np.random.default_rng(self.seed + 1))

    @property
    def parts(self) -> dict[str, Any]:
        """What the functions take by keyword."""
        return {
            "scaler": self.scaler,
            "loader": self.loader,
            "generators": {"noise": self.noise},
        }

    def micro(self) -> Tensor:
        """Forward and backward of one batch; every generator is drawn from."""
        rows = torch.linspace(-1, 1, ITEMS * 2).reshape(ITEMS, 2)
        indices = self.loader.next_batch()
        self.seen.append(indices)
        gain = 1 + 0.1 * random.random()  # noqa: S311 - as a script would
        shift = 0.01 * np.random.random()  # noqa: NPY002 - as above
        batch = rows[indices] * gain + shift
        batch = batch + torch.from_numpy(self.noise.normal(size=(1, 2))).float() * 0.01
        loss = (self.model(batch) - batch.sum(1, keepdim=True)).square().mean()
        self.scaler.scale(loss).backward()
        return loss.detach()

    def update(self) -> None:
        """The optimizer's step, and everything that follows it."""
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad()
        self.scheduler.step()
        self.state.step += 1
        self.state.epoch = self.loader.epoch
        self.state.batch_in_epoch = self.loader.batch_in_epoch

    def train(self, steps: int) -> None:
        """Each step accumulates two batches."""
        for _ in range(steps):
            losses = [self.micro(), self.micro()]
            self.update()
            self.state.losses.append(float(sum(losses)))

    def save(self, path: Path, **options: object) -> Written:
        """As one file, or as shards where the name says so."""
        write: Any = save_sharded_checkpoint if path.suffix == ".sharded" else save_checkpoint
        parts = (self.model, self.optimizer, self.scheduler, self.state)
        return write(path, *parts, **self.parts, **options)

    def load(self, path: Path, **options: object) -> Restored:
        """Go on from there."""
        read: Any = load_sharded_checkpoint if path.suffix == ".sharded" else load_checkpoint
        objects = (self.model, self.optimizer, self.scheduler)
        restored: Restored = read(path, *objects, **(self.parts | options))
        self.state = TrainState(**restored.record())
        return restored

    def everything(self) -> dict[str, Any]:
        """All that the next step depends on, as values to compare."""
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scheduler": self.scheduler.state_dict(),
            "scaler": self.scaler.state_dict(),
            "loader": self.loader.state_dict(),
            "gradients": {name: p.grad for name, p in self.model.named_parameters()},
            "state": self.state.record(),
            "draws": (random.getstate(), torch.get_rng_state(), self.noise.bit_generator.state),
            "numpy": np.random.get_state()[1].tolist(),  # noqa: NPY002 - as above
        }


def same(one: object, two: object) -> bool:
    """Bit for bit, through every container."""
    if isinstance(one, Tensor) and isinstance(two, Tensor):
        bits = one.dtype == two.dtype and one.shape == two.shape
        return bits and one.contiguous().numpy().tobytes() == two.contiguous().numpy().tobytes()
    if isinstance(one, dict) and isinstance(two, dict):
        alike = type(one) is type(two) and list(one) == list(two)
        return alike and all(same(one[key], two[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(two, list | tuple):
        return len(one) == len(two) and all(map(same, one, two))
    return type(one) is type(two) and repr(one) == repr(two)  # a float's tells all of its bits
