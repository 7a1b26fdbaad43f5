"""Write one checkpoint so that a visible ``.bin`` is a complete one, whatever happens when.

The ``.bin`` is streamed and hashed under a temporary name; the companion, which holds the digest,
becomes durable under its own name; only then does the ``.bin`` get its name.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from trainer import clock
from trainer.contract import durable
from trainer.contract.checkpoint_format import (
    companion_of,
    format_companion,
    name_of,
    pack_header,
    room_for,
    seal_of,
    size_of,
)
from trainer.moment import Moment

_CHUNK = 1 << 24


class Saved(NamedTuple):
    """A checkpoint that is visible: its step, file name, digest, size and the time it took."""

    step: int
    name: str
    sha256: str
    bytes: int
    seconds: float


class SealedError(Exception):
    """The supervisor vouches for this step's checkpoint, so it stays as it is."""


def write(folder: Path, moment: Moment) -> Saved:
    """Write the checkpoint of ``moment``. Raises OSError, with nothing new visible, SealedError."""
    began = clock.seconds()
    name, size = name_of(moment.step), size_of(moment.n_params)
    path = folder / name
    if path.exists() and (folder / seal_of(moment.step)).exists():
        raise SealedError(f"cannot write {path}: that step is sealed already")
    folder.mkdir(exist_ok=True)
    free, needed = shutil.disk_usage(folder).free, room_for(moment.n_params)
    if free < needed:
        text = f"{needed} bytes are needed and {free} are free"
        raise OSError(errno.ENOSPC, text, str(path))
    temporary = durable.temporary_for(path)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o640)
    try:
        sha256 = _stream(descriptor, moment)
        companion = moment.companion("bin", sha256, size)
        durable.write_file(folder / companion_of(moment.step), format_companion(companion))
        durable.finish(descriptor, temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    finally:
        os.close(descriptor)
    return Saved(moment.step, name, sha256, size, clock.seconds() - began)


def _stream(descriptor: int, moment: Moment) -> str:
    """Write header and arrays; returns their SHA-256."""
    digest = hashlib.sha256()
    for chunk in _chunks(moment):
        durable.write_all(descriptor, chunk)
        digest.update(chunk)
    return digest.hexdigest()


def _chunks(moment: Moment) -> Iterator[bytes | memoryview]:
    yield pack_header(moment.step, moment.n_params)
    for tensor in moment.arrays():
        view = bytes_of(tensor.cpu())
        for start in range(0, len(view), _CHUNK):
            yield view[start : start + _CHUNK]


def bytes_of(tensor: Tensor) -> memoryview:
    """The memory of a contiguous tensor on the CPU, writable."""
    flat: NDArray[np.float32] = tensor.contiguous().numpy().reshape(-1)
    return flat.data.cast("B")
