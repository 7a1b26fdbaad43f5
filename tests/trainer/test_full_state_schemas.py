"""Every version that was ever written loads, and what no version says is refused."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest
import torch

from tests.trainer.full_state_golden import (
    BIAS,
    DRAWS,
    LOSSES,
    MOMENTUM,
    SHARDED,
    V1,
    V2,
    WEIGHT,
    script,
)
from trainer.full_state import (
    DeviceError,
    Payload,
    PayloadError,
    SchemaError,
    atomic_write_json,
    migrate_v1_to_v2,
    read_one_file,
    read_sharded,
    restore,
    write_one_file,
)
from trainer.full_state.schema import SCHEMA_V1


@pytest.fixture
def payload() -> Payload:
    """The golden one, read anew."""
    return read_one_file(V2)


@pytest.mark.parametrize("path", [V1, V2, SHARDED], ids=lambda path: path.name)
def test_every_version_that_was_ever_written_loads(path: Path) -> None:
    payload = read_sharded(path) if path.is_dir() else read_one_file(path)
    objects = script()
    restored = restore(payload, objects)
    assert torch.rand(2).tolist() == DRAWS
    assert restored.record() == {"step": 2, "epoch": 1, "batch_in_epoch": 3, "losses": LOSSES}
    assert objects.model.weight.tolist() == WEIGHT
    assert objects.model.bias.tolist() == BIAS
    assert objects.optimizer is not None
    weights = objects.optimizer.state[objects.model.weight]
    assert weights["momentum_buffer"].tolist() == MOMENTUM
    assert objects.optimizer.param_groups[0]["lr"] == 0.25
    said = "which device it was saved on is not recorded" in restored.remarks
    assert said is (path == V1)


def test_the_golden_file_is_what_is_written_today(payload: Payload, tmp_path: Path) -> None:
    """The containers and the tensors; what torch lays around them is torch's."""
    written = write_one_file(tmp_path / "state.pt", payload)
    if payload["libraries"]["torch"] == torch.__version__:
        assert written.sha256 == sha256(V2.read_bytes()).hexdigest()


def test_the_first_version_becomes_the_second_by_name(payload: Payload) -> None:
    first = {k: payload[k] for k in ("model", "optimizer", "scheduler", "train_state")}
    first |= {"schema": SCHEMA_V1, "wall_saved_at": "x", "rng": {"python": 1}}
    second = migrate_v1_to_v2(first)
    assert second["schema"] == "stepkeeper.full-state/2"
    assert set(second) == set(payload)
    new = set(payload) - set(first)
    assert {name for name in new if second[name] not in (None, {})} == set()


BAD: dict[str, tuple[Callable[[Payload], object], str]] = {
    "a newer schema": (
        lambda p: p.update(schema="stepkeeper.full-state/3"),
        "its schema stepkeeper.full-state/3 is newer than stepkeeper.full-state/2",
    ),
    "another schema": (lambda p: p.update(schema="x/1"), "schema: expected .*, found 'x/1'"),
    "no schema": (lambda p: p.pop("schema"), "it holds no full state"),
    "a missing field": (lambda p: p.pop("scaler"), "it lacks scaler; nothing is made up"),
    "an unknown field": (lambda p: p.update(more=1), "it has unknown more"),
    "a field of another kind": (lambda p: p.update(model=[1]), "model: expected dict, found list"),
    "a field of a version before": (
        lambda p: p.update(schema=SCHEMA_V1),
        "it has unknown accumulation, device, extra",
    ),
    "no generators": (lambda p: p["rng"].pop("generators"), "rng: it lacks generators"),
    "no torch_cpu": (lambda p: p["rng"].pop("torch_cpu"), "rng: it lacks torch_cpu"),
    "no step": (lambda p: p["train_state"].pop("step"), "train_state: expected"),
    "a step below 0": (
        lambda p: p["train_state"].update(step=-1),
        "train_state.step: expected a whole number",
    ),
    "a loss of text": (
        lambda p: p["train_state"].update(losses=["1"]),
        "losses: expected a list of floats",
    ),
    "half an accumulation": (
        lambda p: p.update(accumulation={"position": 1}),
        "accumulation: it lacks gradients",
    ),
    "an accumulation of nothing": (
        lambda p: p.update(accumulation={"position": 0, "gradients": {}}),
        "position: expected 1 or more",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_payload_that_is_not_as_its_schema_says_is_refused(
    payload: Payload, tmp_path: Path, name: str
) -> None:
    spoil, message = BAD[name]
    spoil(payload)
    write_one_file(tmp_path / "state.pt", payload)
    with pytest.raises(SchemaError, match=message):
        read_one_file(tmp_path / "state.pt")


def test_strict_json_is_written_or_nothing(tmp_path: Path) -> None:
    for bad in ({"nonfinite": 1}, {"a": torch.ones(2)}, {"a": b"x"}, {"a": {1, 2}}):
        with pytest.raises(PayloadError, match="cannot "):
            atomic_write_json(bad, tmp_path / "x.json")
    assert list(tmp_path.iterdir()) == []


def test_a_device_that_is_not_here_is_refused_by_name() -> None:
    if torch.cuda.is_available():
        pytest.skip("needs a machine without CUDA: its devices are here")
    with pytest.raises(DeviceError, match="to cuda:0: there is no such device here"):
        read_one_file(V2, map_location="cuda:0")
