"""Where a tensor of a torch.save file lies in it, worked out from the words that describe it."""

from __future__ import annotations

import math
from typing import Any, Final, NamedTuple

from supervisor.sidecars.checkpoints.torch_zip import Entry
from trainer.contract.checkpoint_format import CheckpointFormatError

_MOST_DIMENSIONS: Final = 64
UNTYPED: Final = "torch.storage.UntypedStorage"

# The names of dtypes, bytes of an element, and the class of storage that implies one.
ITEM_BYTES: Final = {
    "bool": 1,
    "uint8": 1,
    "int8": 1,
    "uint16": 2,
    "int16": 2,
    "uint32": 4,
    "int32": 4,
    "uint64": 8,
    "int64": 8,
    "float8_e4m3fn": 1,
    "float8_e4m3fnuz": 1,
    "float8_e5m2": 1,
    "float8_e5m2fnuz": 1,
    "float8_e8m0fnu": 1,
    "float16": 2,
    "bfloat16": 2,
    "float32": 4,
    "float64": 8,
    "complex32": 4,
    "complex64": 8,
    "complex128": 16,
}
STORAGES: Final = {
    "torch.BoolStorage": "bool",
    "torch.ByteStorage": "uint8",
    "torch.CharStorage": "int8",
    "torch.ShortStorage": "int16",
    "torch.IntStorage": "int32",
    "torch.LongStorage": "int64",
    "torch.HalfStorage": "float16",
    "torch.BFloat16Storage": "bfloat16",
    "torch.FloatStorage": "float32",
    "torch.DoubleStorage": "float64",
    "torch.ComplexFloatStorage": "complex64",
    "torch.ComplexDoubleStorage": "complex128",
}


class Storage(NamedTuple):
    """The memory of one or more tensors: its entry, and its dtype (empty: bytes of any)."""

    entry: Entry
    dtype: str


class Tensor(NamedTuple):
    """A tensor by its place: nothing of its content is read.

    ``shape`` and ``stride`` count elements. ``entry`` names the storage, ``offset`` is the byte
    *in the file* of the first element, ``bytes`` reach from there to the end of the last one; 0
    where the tensor has no element.
    """

    dtype: str
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    entry: str
    offset: int
    bytes: int

    @property
    def elements(self) -> int:
        """The number of its elements."""
        return math.prod(self.shape)

    @property
    def dense(self) -> bool:
        """Whether its bytes are its elements, each once, with nothing between."""
        return self.bytes == self.elements * ITEM_BYTES[self.dtype] and self._in_some_order()

    def _in_some_order(self) -> bool:
        expected = 1
        axes = sorted(zip(self.stride, self.shape, strict=True))
        for step, size in axes if self.elements else ():
            if size != 1 and step != expected:
                return False
            expected *= size
        return True


def storage(words: Any, entries: dict[str, Entry], path: str) -> Storage:  # noqa: ANN401 - from a file
    """The storage that a persistent id describes. Raises CheckpointFormatError."""
    match words:
        case ("storage", str(kind), str(key), str(), int(count)) if type(count) is int:
            dtype = STORAGES.get(kind, "")
        case _:
            raise CheckpointFormatError(path, "a storage", "its description", "something else")
    if not dtype and kind != UNTYPED:
        raise CheckpointFormatError(path, "a storage", "a known class", kind[:80])
    entry = entries.get(f"data/{key}")
    if entry is None:
        raise CheckpointFormatError(path, "storage", f"an entry data/{key[:80]}", "none")
    expected = count * (ITEM_BYTES[dtype] if dtype else 1)
    if entry.bytes != expected:
        raise CheckpointFormatError(
            path, f"size of {entry.name}", f"{expected} bytes", f"{entry.bytes} bytes"
        )
    return Storage(entry, dtype)


def tensor(where: Storage, place: tuple[Any, Any, Any], dtype: str, path: str) -> Tensor:
    """The tensor at ``place`` (first element, sizes, strides) of a storage.

    ``dtype`` is empty where the storage has one. Raises CheckpointFormatError for a place that is
    none, or that leaves the storage.
    """
    first, shape, stride = place
    dtype = dtype or where.dtype
    if dtype not in ITEM_BYTES or not (_whole((first,)) and _whole(shape) and _whole(stride)):
        raise CheckpointFormatError(path, "a tensor", "dtype, offset, sizes, strides", "none")
    if len(shape) != len(stride):
        raise CheckpointFormatError(path, "a tensor", "a stride for each size", "another number")
    item = ITEM_BYTES[dtype]
    extent = 0
    if 0 not in shape:
        extent = 1 + sum((size - 1) * step for size, step in zip(shape, stride, strict=True))
        if (first + extent) * item > where.entry.bytes:
            raise CheckpointFormatError(
                path, f"a tensor in {where.entry.name}", "inside of its storage", "beyond its end"
            )
    return Tensor(
        dtype, shape, stride, where.entry.name, where.entry.offset + first * item, extent * item
    )


def _whole(numbers: Any) -> bool:  # noqa: ANN401 - from a file
    """Whether they are a tuple of a few whole numbers of 0 or more that fit 64 bits."""
    return (
        isinstance(numbers, tuple)
        and len(numbers) <= _MOST_DIMENSIONS
        and all(type(number) is int and 0 <= number < 1 << 63 for number in numbers)
    )
