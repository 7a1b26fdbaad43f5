"""The five regions of a ``.bin``, its names and its size.

Little-endian: ``int32 step, int32 n_params, float32 weights[n], float32 m[n], float32 v[n]``,
so 8 + 12 n bytes. Parameters stand in the model's own order.
"""

from __future__ import annotations

import re
import struct
from typing import Final, NamedTuple

MOST_PARAMETERS: Final = 2**31 - 1
_MOST_STEPS: Final = 2**31 - 1
_HEADER: Final = struct.Struct("<ii")
HEADER_BYTES: Final = _HEADER.size
_BESIDE: Final = 1 << 20
FORMATS: Final = ("bin", "pt", "sharded")
_NAME: Final = re.compile(r"step_(\d{6}|[1-9]\d{6,9})\.(bin|pt|sharded)", re.ASCII)


class CheckpointFormatError(ValueError):
    """A checkpoint that is not as it should be; has ``path``, ``expected`` and ``found``."""

    def __init__(self, path: str, what: str, expected: object, found: object) -> None:
        super().__init__(f"cannot use {path}: {what}: expected {expected}, found {found}")
        self.path = path
        self.expected = expected
        self.found = found


class Header(NamedTuple):
    """The first eight bytes: steps done, and parameters in each of the three arrays."""

    step: int
    n_params: int


def name_of(step: int, form: str = "bin") -> str:
    """``step_000100.bin``: six digits, more when needed. Raises CheckpointFormatError.

    ``form`` is one of ``FORMATS``: one file of five regions, one file of torch, or a folder.
    """
    if form not in FORMATS:
        raise CheckpointFormatError(
            f"a checkpoint of step {step}", "format", " or ".join(FORMATS), form
        )
    if not 0 <= step <= _MOST_STEPS:
        raise CheckpointFormatError(
            f"a checkpoint of step {step}", "step", f"0 to {_MOST_STEPS}", step
        )
    return f"step_{step:06d}.{form}"


def companion_of(step: int) -> str:
    """The name of the companion of that step's checkpoint."""
    return name_of(step).removesuffix(".bin") + ".json"


def seal_of(step: int) -> str:
    """The name of the seal of that step's checkpoint."""
    return name_of(step).removesuffix(".bin") + ".seal.json"


def step_of(name: str) -> int | None:
    """The step in a checkpoint's name, whatever its format, or None where that is no such name."""
    match = _NAME.fullmatch(name)
    step = int(match[1]) if match else None
    return step if step is not None and step <= _MOST_STEPS else None


def form_of(name: str) -> str:
    """The format that a checkpoint's name tells, or an empty text where that is no such name."""
    return name.rpartition(".")[2] if step_of(name) is not None else ""


def size_of(n_params: int) -> int:
    """Bytes of a ``.bin`` with that many parameters. Raises CheckpointFormatError."""
    if not 0 < n_params <= MOST_PARAMETERS:
        raise CheckpointFormatError(
            f"a .bin of {n_params} parameters",
            'n_params is an int32; a larger model needs the sharded format, format = "sharded"',
            f"1 to {MOST_PARAMETERS}",
            n_params,
        )
    return HEADER_BYTES + 12 * n_params


def room_for(n_params: int, newest: int = 0) -> int:
    """Bytes that must be free before one is begun, whatever its format.

    Its own, of which ``newest`` says how many the one before had, its companion's, and some for
    others.
    """
    return max(HEADER_BYTES + 12 * n_params, newest) + _BESIDE


def n_params_of(size: int) -> int:
    """Parameters of a ``.bin`` of so many bytes, as ``size_of`` gives them."""
    return (size - HEADER_BYTES) // 12


def pack_header(step: int, n_params: int) -> bytes:
    """The first eight bytes. Raises CheckpointFormatError for numbers that do not fit."""
    name_of(step)
    size_of(n_params)
    return _HEADER.pack(step, n_params)


def read_header(head: bytes, size: int, path: str) -> Header:
    """Read the header from the file's first bytes, and hold it against name and size.

    ``size`` is the whole file's, in bytes. Raises CheckpointFormatError with the first fault.
    """
    named = step_of(path.rpartition("/")[2])
    if named is None or form_of(path.rpartition("/")[2]) != "bin":
        raise CheckpointFormatError(path, "name", "step_NNNNNN.bin", path.rpartition("/")[2])
    if size < HEADER_BYTES or len(head) < HEADER_BYTES:
        raise CheckpointFormatError(path, "size", f"at least {HEADER_BYTES} bytes", f"{size} bytes")
    step, n_params = _HEADER.unpack_from(head)
    if n_params <= 0:
        raise CheckpointFormatError(path, "n_params in the header", "1 or more", n_params)
    if step != named:
        raise CheckpointFormatError(path, "step in the header", f"{named} as in the name", step)
    if size != size_of(n_params):
        raise CheckpointFormatError(
            path, f"size for {n_params} parameters", f"{size_of(n_params)} bytes", f"{size} bytes"
        )
    return Header(step, n_params)
