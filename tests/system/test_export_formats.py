"""``export`` of checkpoints of one torch file and of a folder of shards, read without torch."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from supervisor.errors import StepkeeperError
from supervisor.perform import exporting_evidence, exporting_weights
from supervisor.sidecars.checkpoints import seals
from supervisor.sidecars.checkpoints.seals import Bin
from tests.support.command import command
from tests.support.runs import Run
from trainer.contract.checkpoint_format import format_companion, read_companion
from trainer.full_state import (
    TrainState,
    load_checkpoint,
    load_sharded_checkpoint,
    save_checkpoint,
    save_sharded_checkpoint,
)

pytestmark = pytest.mark.torch
STEP = 300


class Net(nn.Module):
    """Tensors of every kind: dense, of half precision, of no dimension, tied, out of order."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(3)
        self.up = nn.Parameter(torch.randn(5, 3, generator=generator))
        self.narrow = nn.Parameter(torch.randn(4, generator=generator).to(torch.bfloat16))
        self.scale = nn.Parameter(torch.tensor(1.5, dtype=torch.float64))
        self.tied = self.up
        self.turned = nn.Parameter(torch.randn(4, 6, generator=generator).t())
        self.register_buffer("count", torch.tensor([7, 8, 9]))


def reformed(run: Run, form: str, roots: dict[str, Path] | None = None) -> nn.Module:
    """Put a checkpoint of another format in the place of the newest; the model that it holds."""
    folder = run.path / "checkpoints"
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    state = TrainState(step=STEP)
    path = folder / f"step_{STEP:06d}.{form}"
    if form == "pt":
        save_checkpoint(path, model, optimizer, None, state)
        size, digest = path.stat().st_size, sha256(path.read_bytes()).hexdigest()
    else:
        options: Any = {"shards": 3, "shard_roots": roots}
        save_sharded_checkpoint(path, model, optimizer, None, state, **options)
        index = json.loads((path / "index.json").read_bytes())
        size = sum(part["bytes"] for part in (index["meta"], *index["shards"]))
        size += (path / "index.json").stat().st_size
        digest = sha256((path / "index.json").read_bytes()).hexdigest()
    (folder / f"step_{STEP:06d}.bin").unlink()
    beside = folder / f"step_{STEP:06d}.json"
    parameters = tuple((name, tuple(p.shape)) for name, p in model.named_parameters())
    old = read_companion(beside.read_bytes(), str(beside))
    n_params = sum(parameter.numel() for parameter in model.parameters())
    new = old._replace(
        format=form, sha256=digest, bytes=size, n_params=n_params, parameters=parameters
    )
    beside.write_bytes(format_companion(new))
    seal = folder / f"step_{STEP:06d}.seal.json"
    record = seals.read(seal)._replace(
        bin=Bin(path.name, digest, size), companion=sha256(beside.read_bytes()).hexdigest()
    )
    seal.write_bytes(record.encode())
    return model


def same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors are of one kind and hold the same bytes."""
    if (one.dtype, one.shape) != (other.dtype, other.shape):
        return False
    flat = [t.detach().contiguous().reshape(-1).view(torch.uint8) for t in (one, other)]
    return torch.equal(*flat)


@pytest.mark.parametrize("form", ["pt", "sharded"])
def test_every_tensor_of_the_model_is_exported_bit_for_bit(
    simple: Run, tmp_path: Path, form: str
) -> None:
    state = reformed(simple, form).state_dict()
    told = command("export", simple.path, tmp_path / "out", "--json")
    assert (told.code, told.err) == (0, "")
    found = load_file(tmp_path / "out/model.safetensors")
    assert set(found) == set(state)
    assert [name for name in state if not same_bits(state[name], found[name])] == []
    config = json.loads((tmp_path / "out/config.json").read_bytes())
    assert config["dtypes"] == {"float32": 3, "bfloat16": 1, "float64": 1, "int64": 1}


@pytest.fixture
def scattered(simple: Run) -> tuple[Run, nn.Module]:
    """A run whose newest checkpoint has shards in another folder than its own."""
    (simple.path / "fast").mkdir()
    for path in (simple.path / "run.toml", simple.path / "settings/0001.toml"):
        path.write_text(path.read_text() + '\n[checkpoint.shard_roots]\nfast = "fast"\n')
    model = reformed(simple, "sharded", {"fast": simple.path / "fast"})
    assert any((simple.path / "fast").iterdir())
    return simple, model


def test_shards_in_other_folders_are_found_by_their_roots(
    scattered: tuple[Run, nn.Module], tmp_path: Path
) -> None:
    run, model = scattered
    seal = seals.read(run.path / f"checkpoints/step_{STEP:06d}.seal.json")
    exporting_weights.export(run.path, seal, tmp_path / "out", lambda *_: None)
    state, found = model.state_dict(), load_file(tmp_path / "out/model.safetensors")
    assert [name for name in state if not same_bits(state[name], found[name])] == []


def test_a_bundle_leaves_no_shard_of_other_folders_behind_in_silence(
    scattered: tuple[Run, nn.Module], tmp_path: Path
) -> None:
    run, _ = scattered
    seal = seals.read(run.path / f"checkpoints/step_{STEP:06d}.seal.json")
    with pytest.raises(StepkeeperError, match="lies in the root fast of shard_roots"):
        exporting_evidence.export(run.path, seal, tmp_path / "out", None, lambda *_: None)
    assert [path.name for path in tmp_path.iterdir()] == ["copy"]


@pytest.mark.parametrize("form", ["pt", "sharded"])
def test_a_changed_byte_of_any_file_is_found(simple: Run, tmp_path: Path, form: str) -> None:
    reformed(simple, form)
    path = simple.path / f"checkpoints/step_{STEP:06d}.{form}"
    for file in [path] if form == "pt" else [*path.glob("model*"), path / "index.json"]:
        good = file.read_bytes()
        data = bytearray(good)
        data[len(data) // 2] ^= 1
        file.write_bytes(data)
        told = command("export", simple.path, tmp_path / "out")
        assert (told.code, "sha256 as sealed" in told.complaint()) == (1, True)
        file.write_bytes(good)
    assert [path.name for path in tmp_path.iterdir()] == ["copy"]


@pytest.mark.parametrize("form", ["pt", "sharded"])
def test_a_bundle_holds_a_checkpoint_that_loads(simple: Run, tmp_path: Path, form: str) -> None:
    wanted = reformed(simple, form).state_dict()
    told = command("export", simple.path, tmp_path / "out", "--bundle", "--no-load", "--json")
    assert (told.code, told.err) == (0, "")
    model = Net()
    for parameter in model.parameters():
        parameter.data.zero_()
    path = tmp_path / f"out/checkpoints/step_{STEP:06d}.{form}"
    load = load_checkpoint if form == "pt" else load_sharded_checkpoint
    load(path, model, torch.optim.SGD(model.parameters(), lr=0.1))
    found = model.state_dict()
    assert [name for name in wanted if not same_bits(wanted[name], found[name])] == []
    named = {file["name"] for file in told.facts()["files"]}
    there = [p for p in (tmp_path / "out").rglob("*") if p.is_file()]
    assert {str(p.relative_to(tmp_path / "out")) for p in there} == named
    assert command("fork", tmp_path / "out", tmp_path / "new").code == 0
