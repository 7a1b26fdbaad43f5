"""Finds the weights in the open files of a checkpoint, whatever its format, as views of the files.

Nothing is copied into memory but a tensor whose numbers do not lie in order, and nothing is
unpickled. Bits are taken as they are: numpy knows neither bfloat16 nor the 8-bit floats.
"""

from __future__ import annotations

import io
import math
import mmap
import os
from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from supervisor.sidecars.checkpoints import torch_file
from supervisor.sidecars.checkpoints.torch_file import ITEM_BYTES, Tensor
from trainer.contract.checkpoint_format import (
    HEADER_BYTES,
    CheckpointFormatError,
    form_of,
    read_companion,
    read_header,
)
from trainer.contract.checkpoint_format.shard_index import (
    INDEX_NAME,
    ShardFile,
    read_shard_index,
)

if TYPE_CHECKING:
    import numpy as np

    Bits = np.ndarray[Any, np.dtype[np.void]]

UNNAMED: Final = "weights"  # the one tensor of a checkpoint that does not name its parameters
_PIECE: Final = 1 << 23
Files = dict[tuple[str | None, str], io.FileIO]  # by root and name


class Weight(NamedTuple):
    """A tensor: torch's name of its dtype, its shape, and its numbers as so many opaque bytes."""

    dtype: str
    shape: tuple[int, ...]
    bits: Bits


class Sought(NamedTuple):
    """A checkpoint: its name, its digest, and its companion's text where it has one."""

    name: str
    sha256: str
    companion: str | None


def find(files: Files, sought: Sought, tell: Callable[[int], None]) -> dict[str, Weight]:
    """The model's tensors by name, of files whose digests are compared first.

    ``files`` holds the one file under the checkpoint's own name, or those of a folder, the index
    among them. ``tell`` hears of the bytes read, one piece after another. Raises
    CheckpointFormatError, OSError.
    """
    match form_of(sought.name):
        case "sharded":
            return dict(_of_shards(files, sought, tell))
        case "pt":
            file = files[None, sought.name]
            _hold_against(file, sought.name, sought.sha256, tell)
            return dict(_of_torch(file, sought.name))
        case _:
            file = files[None, sought.name]
            _hold_against(file, sought.name, sought.sha256, tell)
            return dict(_of_regions(file, sought))


def digest_of(file: io.FileIO, tell: Callable[[int], None]) -> str:
    """SHA-256 of a whole file, in hex. Raises OSError."""
    digest = sha256()
    buffer = memoryview(bytearray(_PIECE))
    file.seek(0)
    while read := file.readinto(buffer):
        digest.update(buffer[:read])
        tell(read)
    return digest.hexdigest()


def _hold_against(file: io.FileIO, name: str, expected: str, tell: Callable[[int], None]) -> None:
    found = digest_of(file, tell)
    if found != expected:
        raise CheckpointFormatError(name, "sha256 as sealed", expected, found)


def _of_regions(file: io.FileIO, sought: Sought) -> Iterator[tuple[str, Weight]]:
    """The first of a ``.bin``'s three arrays, cut up as its companion says."""
    head = os.pread(file.fileno(), HEADER_BYTES, 0)
    count = read_header(head, os.fstat(file.fileno()).st_size, sought.name).n_params
    parameters: tuple[tuple[str, tuple[int, ...]], ...] = ((UNNAMED, (count,)),)
    if sought.companion is not None:
        known = read_companion(sought.companion.encode("ascii"), f"the companion of {sought.name}")
        if known.n_params != count:
            raise CheckpointFormatError(sought.name, "n_params", known.n_params, count)
        parameters = known.parameters
    mapped, at = _mapped(file), HEADER_BYTES
    for name, shape in parameters:
        yield name, Weight("float32", shape, _bits(mapped, at, shape, "float32"))
        at += 4 * math.prod(shape)


def _of_torch(file: io.FileIO, path: str) -> Iterator[tuple[str, Weight]]:
    """The tensors of the model in a payload or a shard; what else is in it is not looked at."""
    tree = torch_file.read(file.fileno(), path).tree
    model = tree.get("model") if isinstance(tree, dict) else None
    if not isinstance(model, dict):
        raise CheckpointFormatError(path, "model", "tensors by name", type(model).__name__)
    mapped = _mapped(file)
    for name, value in model.items():
        if isinstance(value, Tensor):
            strides = tuple(step * ITEM_BYTES[value.dtype] for step in value.stride)
            bits = _bits(mapped, value.offset, value.shape, value.dtype, strides)
            yield str(name), Weight(value.dtype, value.shape, bits)


def _of_shards(
    files: Files, sought: Sought, tell: Callable[[int], None]
) -> Iterator[tuple[str, Weight]]:
    """Those of every shard; the index vouches for each, and the seal for the index."""
    index = files[None, INDEX_NAME]
    _hold_against(index, f"{sought.name}/{INDEX_NAME}", sought.sha256, tell)
    index.seek(0)
    for shard in read_shard_index(index.read() or b"", sought.name).shards:
        yield from _of_shard(files[shard.root, shard.name], shard, tell)


def _of_shard(
    file: io.FileIO, shard: ShardFile, tell: Callable[[int], None]
) -> Iterator[tuple[str, Weight]]:
    _hold_against(file, shard.name, shard.sha256, tell)
    found = dict(_of_torch(file, shard.name))
    missing = sorted(set(shard.keys) - set(found))
    if missing:
        raise CheckpointFormatError(shard.name, "keys", "tensors as in the index", missing[0])
    yield from found.items()


def _mapped(file: io.FileIO) -> mmap.mmap:
    return mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)


def _bits(
    mapped: mmap.mmap,
    offset: int,
    shape: tuple[int, ...],
    dtype: str,
    strides: tuple[int, ...] | None = None,
) -> Bits:
    """A tensor's numbers in order: a view where they lie so, else a copy."""
    # Imported here, so that only a process that looks at weights loads it.
    import numpy as np  # noqa: PLC0415 - see above

    if not math.prod(shape):
        return np.empty(shape, f"V{ITEM_BYTES[dtype]}")
    view: Bits = np.ndarray(shape, f"V{ITEM_BYTES[dtype]}", mapped, offset, strides)
    return np.ascontiguousarray(view).reshape(shape)
