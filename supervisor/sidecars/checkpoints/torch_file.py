"""The structure of a torch.save file, read without torch and without executing anything.

A torch.save file is a zip container that holds one pickle and, each as a stored entry, the memory
of the tensors. ``pickletools`` is the standard library's disassembler: it splits a pickle into
opcodes and never carries one out, while to *un*pickle is what is banned here, since it calls what
the file names. The opcodes go to the closed interpreter of ``torch_words``, which knows containers,
numbers, text and tensors; whatever else a file asks for is refused by name.
"""

from __future__ import annotations

import pickletools
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from supervisor.sidecars.checkpoints.torch_opcodes import Interpreter
from supervisor.sidecars.checkpoints.torch_tensor import ITEM_BYTES, Tensor
from supervisor.sidecars.checkpoints.torch_zip import Entry, content, entries
from trainer.contract.checkpoint_format import CheckpointFormatError

__all__ = ["ITEM_BYTES", "Tensor", "TorchFile", "read", "tensors"]

MOST_STRUCTURE: Final = 1 << 26  # bytes of the pickle: what is not a tensor
MOST_OPCODES: Final = 1 << 23  # a list of five million losses
_SHORT: Final = 64  # bytes of an entry that holds a word
# What the disassembler raises for bytes that are no pickle.
_ODD: Final = (ValueError, OverflowError, AssertionError, IndexError)


class TorchFile(NamedTuple):
    """``tree`` is what torch.save was given, a Tensor in place of each tensor; ``entries`` by name.

    Containers that were shared are shared, so a tree may be a graph; walk it with ``tensors``.
    """

    tree: Any
    entries: dict[str, Entry]


def read(descriptor: int, path: str) -> TorchFile:
    """Read the structure of an open file; no tensor's content is read.

    Takes memory for the structure alone, at most some hundred MB whatever the file says. Raises
    CheckpointFormatError for anything that torch.save of plain values and tensors does not write,
    OSError.
    """
    found = entries(descriptor, path)
    structure = found.get("data.pkl")
    if structure is None:
        raise CheckpointFormatError(path, "content", "a torch.save file", "a zip without data.pkl")
    order = found.get("byteorder")
    if order is not None and (said := content(descriptor, order, path, _SHORT)) != b"little":
        raise CheckpointFormatError(path, "byteorder", "little", said.decode("ascii", "replace"))
    data = content(descriptor, structure, path, MOST_STRUCTURE)
    return TorchFile(_interpret(data, found, path), found)


def _interpret(data: bytes, found: dict[str, Entry], path: str) -> Any:  # noqa: ANN401 - any plain value
    interpreter = Interpreter(found, path)
    opcodes = pickletools.genops(data)
    for count in range(MOST_OPCODES):
        try:
            opcode, argument, at = next(opcodes)
        except (*_ODD, StopIteration) as error:
            raise CheckpointFormatError(path, "data.pkl", "a pickle", error) from None
        if opcode.name == "STOP":
            if at is None or at + 1 != len(data):
                raise CheckpointFormatError(path, "data.pkl", "its end", f"{len(data)} bytes, more")
            return interpreter.result()
        interpreter.take(opcode.name, argument, count)
    raise CheckpointFormatError(path, "data.pkl", f"at most {MOST_OPCODES} opcodes", "more")


def tensors(tree: Any, name: str = "") -> Iterator[tuple[str, Tensor]]:  # noqa: ANN401 - any plain value
    """Every tensor below ``tree`` with its dotted name, each container entered once."""
    seen: set[int] = set()
    left: list[tuple[tuple[Any, ...], Any]] = [((), tree)]
    while left:
        place, value = left.pop()
        if isinstance(value, Tensor):
            yield ".".join([name, *map(str, _keys(place))]).lstrip("."), value
        elif isinstance(value, dict | list | tuple) and id(value) not in seen:
            seen.add(id(value))
            inside = value.items() if isinstance(value, dict) else enumerate(value)
            left.extend([((place, key), item) for key, item in reversed(list(inside))])


def _keys(place: tuple[Any, ...]) -> list[Any]:
    """The keys on the way to a place, which is a pair of the place above it and a key."""
    keys = []
    while place:
        place, key = place
        keys.append(key)
    return keys[::-1]
