"""The calls that a torch.save file of plain values and tensors asks for, and what they come to.

A file names them; here each is a row in a table, and nothing is imported or called by its name.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final, Protocol

from supervisor.sidecars.checkpoints.torch_tensor import ITEM_BYTES, STORAGES, UNTYPED, Tensor

_DTYPES: Final = {f"torch.{name}": name for name in ITEM_BYTES}
_DEVICE_PARTS: Final = 2  # kind and index


class Name(str):
    """A dotted name that the file mentions: a word, never the thing."""

    __slots__ = ()


class Maker(Protocol):
    """What a call may ask of the interpreter; each raises CheckpointFormatError."""

    def copy(self, count: int) -> None:
        """Count what is copied."""

    def check_keys(self, keys: list[Any]) -> None:
        """See that each can be a key in bounded time."""

    def tensor(self, where: Any, place: tuple[Any, Any, Any], dtype: str = "") -> Tensor:  # noqa: ANN401 - from a file
        """A tensor in a storage."""


# Each call takes the interpreter and the arguments, and gives NotImplemented for arguments of
# another form. None copies what it need not: a file may ask for the same value again and again.


def _empty(make: Callable[[], Any]) -> Callable[[Maker, tuple[Any, ...]], Any]:
    return lambda _, arguments: NotImplemented if arguments else make()


def _same(kind: type) -> Callable[[Maker, tuple[Any, ...]], Any]:
    def same(_: Maker, arguments: tuple[Any, ...]) -> Any:  # noqa: ANN401 - any plain value
        return arguments[0] if tuple(map(type, arguments)) == (kind,) else NotImplemented

    return same


def _set(interpreter: Maker, arguments: tuple[Any, ...]) -> Any:  # noqa: ANN401 - as above
    match arguments:
        case ([*items],):
            interpreter.copy(len(items))
            interpreter.check_keys(items)
            return set(items)
        case _:
            return NotImplemented


def _complex(_: Maker, arguments: tuple[Any, ...]) -> Any:  # noqa: ANN401 - as above
    match arguments:
        case (float(real), float(imaginary)):
            return complex(real, imaginary)
        case _:
            return NotImplemented


def _bytes(interpreter: Maker, arguments: tuple[Any, ...]) -> Any:  # noqa: ANN401 - as above
    match arguments:
        case (str(text), "latin1" | "latin-1") if type(text) is str:
            interpreter.copy(len(text))
            try:
                return text.encode("latin-1")
            except UnicodeEncodeError:
                return NotImplemented
        case (bytes() as data,):
            return data
        case _:
            return NotImplemented


def _device(_: Maker, arguments: tuple[Any, ...]) -> Any:  # noqa: ANN401 - as above
    match arguments:
        case (str(kind), *index) if len(arguments) <= _DEVICE_PARTS and all(
            type(number) is int for number in index
        ):
            return Name(":".join([kind, *map(str, index)]))
        case _:
            return NotImplemented


def _tensor(interpreter: Maker, arguments: tuple[Any, ...]) -> Any:  # noqa: ANN401 - as above
    match arguments:
        case (where, first, shape, stride, bool(), OrderedDict()):
            return interpreter.tensor(where, (first, shape, stride))
        case _:
            return NotImplemented


def _tensor_of_dtype(interpreter: Maker, arguments: tuple[Any, ...]) -> Any:  # noqa: ANN401 - as above
    match arguments:
        case (where, first, shape, stride, bool(), OrderedDict(), Name(dtype)):
            return interpreter.tensor(where, (first, shape, stride), _DTYPES.get(dtype, "none"))
        case _:
            return NotImplemented


def _parameter(_: Maker, arguments: tuple[Any, ...]) -> Any:  # noqa: ANN401 - as above
    match arguments:
        case (Tensor() as value, bool(), OrderedDict()):
            return value
        case _:
            return NotImplemented


def _with_attributes(interpreter: Maker, arguments: tuple[Any, ...]) -> Any:  # noqa: ANN401 - as above
    match arguments:
        case (Name() as name, Name("torch.Tensor"), tuple() as inner, dict()) if name in _TENSORS:
            return _TENSORS[name](interpreter, inner)
        case _:
            return NotImplemented


_Call = Callable[[Maker, tuple[Any, ...]], Any]
_TENSORS: Final[dict[str, _Call]] = {
    "torch._utils._rebuild_tensor_v2": _tensor,
    "torch._utils._rebuild_tensor_v3": _tensor_of_dtype,
}
CALLS: Final[dict[str, _Call]] = {
    **_TENSORS,
    "torch._utils._rebuild_parameter": _parameter,
    "torch._tensor._rebuild_from_type_v2": _with_attributes,
    "torch.Size": _same(tuple),
    "torch.device": _device,
    "collections.OrderedDict": _empty(OrderedDict),
    "collections.Counter": _same(dict),
    "_codecs.encode": _bytes,
    "__builtin__.bytearray": _bytes,
    "__builtin__.set": _set,
    "__builtin__.complex": _complex,
}
WORDS: Final = frozenset({*CALLS, *STORAGES, *_DTYPES, UNTYPED, "torch.Tensor"})
