"""Files that torch.save wrote are read back without torch, and nothing in a file can do harm."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter, OrderedDict
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from supervisor.sidecars.checkpoints import torch_file
from supervisor.sidecars.checkpoints.torch_file import Tensor, TorchFile, tensors
from tests.support.runs import ROOT

pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental:UserWarning"),
]

BYTES = st.binary(min_size=1)  # torch.load takes no empty ones
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | BYTES
DTYPES = [dtype for dtype in vars(torch).values() if isinstance(dtype, torch.dtype)]
DTYPES = sorted((d for d in set(DTYPES) if str(d)[6:] in torch_file.ITEM_BYTES), key=str)


def read(path: Path) -> TorchFile:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return torch_file.read(descriptor, str(path))
    finally:
        os.close(descriptor)


def equal(found: Any, wanted: Any, content: bytes) -> bool:  # noqa: ANN401 - any plain value
    """Whether the tree is the value, tensors by every bit of each element."""
    if isinstance(wanted, torch.Tensor):
        if not isinstance(found, Tensor) or f"torch.{found.dtype}" != str(wanted.dtype):
            return False
        same = found.shape == tuple(wanted.shape) and found.stride == wanted.stride()
        if not same or not wanted.numel():
            return same and found.bytes == 0
        memory = bytearray(content[found.offset : found.offset + found.bytes])
        flat = torch.frombuffer(memory, dtype=wanted.dtype)
        told = flat.as_strided(found.shape, found.stride)
        bits = [t.contiguous().flatten().view(torch.uint8) for t in (told, wanted.detach())]
        return torch.equal(*bits)
    if isinstance(wanted, dict):
        pairs = zip(found.items(), wanted.items(), strict=True)
        return all(a == b and equal(x, y, content) for (a, x), (b, y) in pairs)
    if isinstance(wanted, list | tuple):
        return type(found) in (list, tuple) and all(
            equal(x, y, content) for x, y in zip(found, wanted, strict=True)
        )
    return bool(found == wanted) or found != found  # noqa: PLR0124 - not a number


@st.composite
def some_tensor(draw: st.DrawFn) -> torch.Tensor:
    dtype = draw(st.sampled_from(DTYPES))
    shape = draw(st.lists(st.integers(0, 4), max_size=3))
    count = 1
    for length in shape:
        count *= length
    size = torch_file.ITEM_BYTES[str(dtype)[6:]] * (count + 3)
    whole = torch.frombuffer(
        bytearray(draw(st.binary(min_size=size, max_size=size))), dtype=torch.uint8
    )
    if dtype is torch.bool:
        whole = whole % 2
    found = whole.view(dtype)[3:].reshape(shape)
    if len(shape) > 1 and draw(st.booleans()):
        found = found.transpose(0, 1)
    if shape and shape[0] > 1 and draw(st.booleans()):
        found = found[1:]
    return found


VALUES = st.recursive(
    SCALARS | some_tensor(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=5) | st.integers(-9, 9), inner, max_size=4)
    ),
    max_leaves=12,
)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(tree=VALUES)
def test_whatever_torch_saves_is_read_as_torch_loads_it(tmp_path: Path, tree: object) -> None:
    path = tmp_path / "x.pt"
    torch.save(tree, path)
    wanted = torch.load(path, weights_only=True)  # noqa: TID251 - what the reader is held against
    assert equal(read(path).tree, wanted, path.read_bytes())


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype_is_known(tmp_path: Path, dtype: torch.dtype) -> None:
    memory = torch.arange(64, dtype=torch.uint8)
    memory = memory % 2 if dtype is torch.bool else memory
    torch.save(tensor := memory.view(dtype), tmp_path / "x.pt")
    assert equal(read(tmp_path / "x.pt").tree, tensor, (tmp_path / "x.pt").read_bytes())


def test_a_whole_training_state_is_read(tmp_path: Path) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    optimizer = torch.optim.Adam(model.parameters())
    scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, [3, 3, 5])
    model(torch.ones(4, 3)).sum().backward()
    optimizer.step()
    shared = torch.arange(12.0).reshape(3, 4)
    tree = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "scheduler": scheduler.state_dict(),
        "counted": Counter("abca"),
        "ordered": OrderedDict(b=1, a=2),
        "keys": {1.5: 1, None: 2, True: 3, b"x": 4, ("a", 1): 5},
        "views": [shared, shared[1], shared[:, ::2], shared.expand(2, 3, 4)],
        "parameter": model[0].weight,
        "buffer": torch.nn.Buffer(torch.ones(2)),
        "others": [torch.Size([1, 2]), {1, 2}, 1j, bytearray(b"x"), -(2**70)],
        "losses": [float(i) for i in range(3000)],
        "generator": torch.get_rng_state(),
    }
    torch.save(tree, path := tmp_path / "x.pt")
    found = read(path).tree
    assert equal(found, tree, path.read_bytes())
    views = [tensor.entry for _, tensor in tensors(found["views"])]
    assert len(set(views)) == 1
    assert [tensor.dense for tensor in found["views"]] == [True, True, False, False]
    named = dict(tensors(found["model"], "model"))
    assert list(named) == [f"model.{name}" for name in model.state_dict()]
    torch.save([torch.float16, torch.device("cuda:1")], path)
    assert read(path).tree == ["torch.float16", "cuda:1"]


def test_a_tensor_in_every_order_of_its_axes_is_dense() -> None:
    def dense(shape: tuple[int, ...], stride: tuple[int, ...], length: int) -> bool:
        return Tensor("float32", shape, stride, "", 0, length).dense

    assert dense((), (), 4)
    assert dense((3, 4), (4, 1), 48)
    assert dense((4, 3), (1, 4), 48)
    assert dense((2, 1, 3), (3, 99, 1), 24)
    assert dense((0, 3), (3, 1), 0)
    assert not dense((3, 2), (4, 2), 44)
    assert not dense((2, 3, 4), (0, 4, 1), 48)
    assert not dense((3, 3), (2, 1), 28)


def test_nothing_of_it_needs_torch_or_pickle() -> None:
    code = (
        "import sys, supervisor.sidecars.checkpoints.torch_file\n"
        "print('torch' in sys.modules, 'numpy' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "False False\n"
