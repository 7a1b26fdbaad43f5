"""Write one checkpoint so that a visible ``.bin`` is a complete one, whatever happens when.

The ``.bin`` is streamed and hashed under a temporary name; the companion, which holds the digest,
becomes durable under its own name; only then does the ``.bin`` get its name.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from trainer import clock, direct
from trainer.contract import durable
from trainer.contract.checkpoint_format import (
    FORMATS,
    companion_of,
    format_companion,
    name_of,
    pack_header,
    room_for,
    seal_of,
    size_of,
)
from trainer.moment import Moment


class Saved(NamedTuple):
    """A checkpoint that is visible: its step, file name, digest, size and the time it took.

    ``directly`` says whether the file system let it past the page cache.
    """

    step: int
    name: str
    sha256: str
    bytes: int
    seconds: float
    directly: bool = True


Writer = Callable[[Path, Moment], Saved]


class Store(NamedTuple):
    """The folder of the checkpoints, and what writes one of a moment there."""

    folder: Path
    write: Writer


class SealedError(Exception):
    """The supervisor vouches for this step's checkpoint, so it stays as it is."""


def write(folder: Path, moment: Moment) -> Saved:
    """Write the checkpoint of ``moment``. Raises OSError, with nothing new visible, SealedError."""
    began = clock.seconds()
    name, size = name_of(moment.step), size_of(moment.n_params)
    path = folder / name
    make_way(folder, path, moment.step)
    refuse_without_room(folder, path, room_for(moment.n_params))
    temporary = durable.temporary_for(path)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o640)
    try:
        sha256, directly = _stream(descriptor, moment, size)
        companion = moment.companion("bin", sha256, size)
        durable.write_file(folder / companion_of(moment.step), format_companion(companion))
        durable.finish(descriptor, temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    finally:
        os.close(descriptor)
    return Saved(moment.step, name, sha256, size, clock.seconds() - began, directly)


def make_way(folder: Path, path: Path, step: int) -> None:
    """Make sure that ``step`` may get a checkpoint at ``path``, and that it is its only one.

    An unsealed rest of an earlier life, in another format, is removed. Raises SealedError,
    OSError.
    """
    folder.mkdir(exist_ok=True)
    rests = [rest for form in FORMATS if (rest := folder / name_of(step, form)).exists()]
    if rests and (folder / seal_of(step)).exists():
        raise SealedError(f"cannot write {path}: that step is sealed already")
    for rest in rests:
        if rest != path:
            (durable.remove_folder if rest.is_dir() else durable.remove)(rest)


def refuse_without_room(folder: Path, path: Path, needed: int) -> None:
    """Raise OSError where fewer bytes than ``needed`` are free."""
    free = shutil.disk_usage(folder).free
    if free < needed:
        text = f"{needed} bytes are needed and {free} are free"
        raise OSError(errno.ENOSPC, text, str(path))


def _stream(descriptor: int, moment: Moment, size: int) -> direct.Streamed:
    if moment.image is not None:
        return direct.stream_image(descriptor, moment.image)
    return direct.stream(descriptor, _parts(moment), size)


def _parts(moment: Moment) -> Iterator[memoryview]:
    yield memoryview(pack_header(moment.step, moment.n_params))
    for tensor in moment.arrays():
        yield bytes_of(tensor.cpu())


def bytes_of(tensor: Tensor) -> memoryview:
    """The memory of a contiguous tensor on the CPU, writable."""
    flat: NDArray[np.float32] = tensor.contiguous().numpy().reshape(-1)
    return flat.data.cast("B")
