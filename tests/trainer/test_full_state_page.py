"""The recipe is run as it is printed: its script is cut and resumed, its other blocks follow."""

from __future__ import annotations

import re
import subprocess
import sys
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tests.support.runs import ROOT
from trainer import full_state
from trainer.contract.checkpoint_format.shard_index import (
    SPLITS,
)
from trainer.full_state import FullStateError, Objects, TrainState, payload_of

PAGE = (ROOT / "trainer/full_state/README.md").read_text()
BLOCKS = dict(re.findall(r"```python ?(\S*)\n(.*?)```", PAGE, re.DOTALL))


def run(folder: Path, checkpoint: str, steps: int) -> subprocess.CompletedProcess[str]:
    """The printed script, from where its checkpoint stands to that step."""
    (folder / "train.py").write_text(BLOCKS["train.py"])
    return subprocess.run(
        [sys.executable, folder / "train.py", folder / checkpoint, str(steps)],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=True,
    )


def test_the_printed_script_ends_the_same_whether_it_was_cut_or_not(tmp_path: Path) -> None:
    whole = run(tmp_path, "whole.pt", 13)
    run(tmp_path, "cut.pt", 7)
    resumed = run(tmp_path, "cut.pt", 13)
    assert whole.stderr == ""
    assert resumed.stderr == "resumed at step; 7\n"
    assert resumed.stdout == whole.stdout
    assert whole.stdout.startswith("[")


class Script:
    """What the short blocks take for granted."""

    def __init__(self, folder: Path) -> None:
        torch.manual_seed(1)
        self.model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, 3)
        self.names: dict[str, Any] = {
            "model": self.model,
            "optimizer": self.optimizer,
            "scheduler": self.scheduler,
            "state": TrainState(),
            "path": folder / "state.pt",
            "folder": folder / "state.sharded",
            "steps": 4,
            "train_one_step": self.step,
            "dataset": torch.linspace(-1, 1, 28).reshape(14, 2),
            "train_on": self.update,
            "half_a_window": lambda model: model(torch.ones(1, 2)).sum().backward(),
        }

    def step(self, state: TrainState) -> None:
        """One update, counted."""
        self.update(torch.rand(3, 2))
        state.step += 1

    def update(self, batch: torch.Tensor) -> None:
        """One update, with noise from torch's global generator."""
        self.optimizer.zero_grad()
        self.model(batch + torch.rand(1, 2)).square().sum().backward()
        self.optimizer.step()
        self.scheduler.step()

    def run(self, block: str) -> dict[str, Any]:
        """Run a block with these names; returns all names afterwards."""
        exec(BLOCKS[block], self.names)  # noqa: S102 - the page's own words are what is tested
        return self.names


@pytest.mark.parametrize("block", [name for name in BLOCKS if name != "train.py"])
def test_every_other_block_runs_as_printed(tmp_path: Path, block: str) -> None:
    script = Script(tmp_path)
    names = script.run(block)
    if block == "":
        assert names["state"].step == 4
        weights = deepcopy(script.model.state_dict())
        again = Script(tmp_path)
        assert again.run(block)["state"].step == 4
        assert torch.equal(again.model.state_dict()["1.weight"], weights["1.weight"])


def weights_behind(folder: Path, block: str, *ends: int) -> torch.Tensor:
    """One process after another runs the block, each up to its step."""
    folder.mkdir()
    for steps in ends:
        script = Script(folder)
        script.names["steps"] = steps
        exec(block, script.names)  # noqa: S102 - as above
        assert script.names["state"].step == steps
    return script.model.state_dict()["0.weight"].clone()


def test_workers_of_a_dataloader_neither_skip_nor_move_anything_at_a_resume(tmp_path: Path) -> None:
    block = BLOCKS["dataloader"]
    whole = weights_behind(tmp_path / "whole", block, 10)  # 14 items: epochs of 4, 4, 4 and 2
    assert torch.equal(weights_behind(tmp_path / "cut", block, 3, 8, 10), whole)
    moved = block.replace("        generator=torch.Generator(),  # not the global one\n", "")
    assert moved != block
    assert not torch.equal(weights_behind(tmp_path / "moved", moved, 3, 8, 10), whole)


def test_the_five_lines_are_five() -> None:
    assert len([line for line in BLOCKS[""].splitlines() if line.strip()]) == 5


def test_the_tables_name_all_there_is() -> None:
    rows = " ".join(line.split("|")[1] for line in PAGE.splitlines() if line.startswith("|"))
    named = set(re.findall(r"`(\w+)`", rows))
    assert set(payload_of(Objects(nn.Linear(1, 1)), TrainState())) - named == set()
    errors = {
        name
        for name, value in vars(full_state).items()
        if isinstance(value, type) and issubclass(value, FullStateError)
    }
    assert errors - {"FullStateError"} - named == set()
    assert set(SPLITS) - named == set()
