"""Arrays are copied out of a mapped file whole, and a file with a bad digest trains nothing."""

from __future__ import annotations

import errno
import hashlib
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.trainer.tiny import launch, live, read_reports
from trainer.contract.checkpoint_format import CheckpointFormatError
from trainer.contract.wire import Ready, Step
from trainer.mapped import fill

MIB = 1 << 20


@pytest.mark.parametrize("count", [1, 4 * MIB - 2, 4 * MIB - 1, 9 * MIB + 1])
def test_arrays_that_end_anywhere_in_a_window_are_filled_and_hashed(
    tmp_path: Path, count: int
) -> None:
    data = np.random.default_rng(count).random(count, dtype=np.float32)
    path = tmp_path / "file"
    path.write_bytes(b"headhead" + data.tobytes())
    lengths = [count - 2 * (count // 3), count // 3, count // 3]
    arrays = [torch.zeros(length) for length in lengths if length]
    with path.open("rb", buffering=0) as file:
        digest = fill(file, 8, arrays)
    assert torch.equal(torch.cat(arrays), torch.from_numpy(data))
    assert digest.result(30) == hashlib.sha256(path.read_bytes()).hexdigest()


def test_pages_that_cannot_be_read_are_an_error_and_no_signal(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(8 * MIB))

    def shrinking() -> list[torch.Tensor]:
        return [torch.zeros(2 * MIB)]

    class Shrinking:
        """What is mapped loses its pages before they are read."""

        def __iter__(self) -> object:
            with path.open("r+b") as file:
                file.truncate(0)
            return iter(shrinking())

    with path.open("rb", buffering=0) as file, pytest.raises(OSError) as raised:  # noqa: PT011 - the number follows
        fill(file, 0, Shrinking())
    assert raised.value.errno == errno.EIO


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
