"""Arrays are read whole from a file, and one whose digest is not right trains nothing."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.trainer.tiny import launch, live, read_reports
from trainer.contract.checkpoint_format import CheckpointFormatError
from trainer.contract.wire import Ready, Step
from trainer.filling import fill

MIB = 1 << 20


@pytest.mark.parametrize("count", [1, 16 * MIB - 1, 16 * MIB, 17 * MIB + 1])
def test_arrays_that_end_anywhere_in_a_read_are_filled_and_hashed(
    tmp_path: Path, count: int
) -> None:
    data = np.random.default_rng(count).random(count, dtype=np.float32)
    path = tmp_path / "file"
    path.write_bytes(b"headhead" + data.tobytes())
    lengths = [count - 2 * (count // 3), count // 3, count // 3]
    arrays = [torch.zeros(length) for length in lengths if length]
    with path.open("rb", buffering=0) as file:
        digest = fill(file, b"headhead", arrays)
    assert torch.equal(torch.cat(arrays), torch.from_numpy(data))
    assert digest.result(30) == hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_file_that_ends_too_early_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "step_000003.bin"
    path.write_bytes(bytes(100))
    message = f"{path}: size: expected as at the start, found shorter"
    with path.open("rb", buffering=0) as file, pytest.raises(CheckpointFormatError, match=message):
        fill(file, b"headhead", [torch.zeros(20), torch.zeros(20)])


def test_reads_go_on_where_one_was_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = np.random.default_rng(0).random(3000, dtype=np.float32)
    path = tmp_path / "file"
    path.write_bytes(b"headhead" + data.tobytes())
    read = os.preadv

    def little(descriptor: int, buffers: list[memoryview], at: int) -> int:
        return read(descriptor, [buffers[0][:777]], at)

    monkeypatch.setattr(os, "preadv", little)
    arrays = [torch.zeros(1000) for _ in range(3)]
    with path.open("rb", buffering=0) as file:
        digest = fill(file, b"headhead", arrays)
    assert torch.equal(torch.cat(arrays), torch.from_numpy(data))
    assert digest.result(30) == hashlib.sha256(path.read_bytes()).hexdigest()


def test_no_step_is_made_from_a_file_that_is_not_what_was_saved(run: Path) -> None:
    path = live(run, stop_after=3).newest()
    data = bytearray(path.read_bytes())
    data[-2] ^= 1
    path.write_bytes(data)
    with pytest.raises(CheckpointFormatError, match=re.escape(f"{path}: sha256: expected")):
        live(run, attempt=2, resume=path)
    reports = read_reports(launch(run, 2, path).reports)
    assert [type(r) for r in reports if isinstance(r, Step | Ready)] == [Ready]
    assert [p.name for p in path.parent.glob("*.bin")] == [path.name]
