"""What the golden files of full states hold, and how they were made: run this as a module.

They stand for every file that was ever written, so they are not made again: a test that fails on
them says that a promise was broken.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn

from trainer.full_state import Objects, TrainState, payload_of, write_one_file, write_sharded
from trainer.full_state.schema import SCHEMA_V1

GOLDEN = Path(__file__).parent / "golden"
V1 = GOLDEN / "full_state_v1.pt"
V2 = GOLDEN / "full_state_v2.pt"
SHARDED = GOLDEN / "full_state_v2.sharded"
LOSSES = [2.25, float("inf")]
WEIGHT, BIAS, MOMENTUM = [[0.5, -1.25]], [0.75], [[2.0, 4.0]]
DRAWS = [0.46568745374679565, 0.23276680707931519]  # what torch draws next


def script() -> Objects:
    """One linear layer with momentum and a schedule, two steps of arithmetic without rounding."""
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.5)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
    return Objects(model, optimizer, scheduler)


def payload() -> dict[str, Any]:
    """The state behind step 2."""
    torch.manual_seed(11)
    objects = script()
    assert objects.optimizer is not None
    assert objects.scheduler is not None
    for _ in range(2):
        objects.model.weight.grad = torch.tensor([[1.0, 2.0]])
        objects.model.bias.grad = torch.tensor([1.0])
        objects.optimizer.step()
        objects.scheduler.step()
    with torch.no_grad():
        objects.model.weight.copy_(torch.tensor(WEIGHT))
        objects.model.bias.copy_(torch.tensor(BIAS))
    objects.optimizer.state[objects.model.weight]["momentum_buffer"].copy_(torch.tensor(MOMENTUM))
    torch.manual_seed(12)
    return payload_of(objects, TrainState(2, 1, 3, LOSSES), extra={"note": "golden"})


def main() -> None:
    """Write the files that are not there."""
    made = payload()
    made["libraries"] = {"python": "3.11.7", "torch": "2.13.0+cpu", "numpy": "2.4.6"}
    old = ("model", "optimizer", "scheduler", "train_state", "rng", "wall_saved_at")
    first = {name: made[name] for name in old} | {"schema": SCHEMA_V1}
    first["rng"] = {name: state for name, state in made["rng"].items() if name != "generators"}
    if not V1.exists():
        torch.save(first, V1)
    if not V2.exists():
        write_one_file(V2, made)
    if not SHARDED.exists():
        write_sharded(SHARDED, made, split="by_group")


if __name__ == "__main__":
    main()
