"""Compare the numbers of two checkpoints and print what differs as one JSON line.

``python -m supervisor.sidecars.checkpoints.compare_child ONE OTHER``, files or folders of the same
format. Exits 0 whenever it could compare them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from supervisor.sidecars.checkpoints import torch_file
from trainer.contract.checkpoint_format import HEADER_BYTES, form_of, read_header

_CHUNK: Final = 1 << 24  # bytes at a time, a multiple of every element's
_NUMBERS: Final = {"float32": "<f4", "float64": "<f8", "float16": "<f2"}
_MOMENTS: Final = {"exp_avg": "m", "exp_avg_sq": "v"}


class Array(NamedTuple):
    """Numbers in a file: what they are part of, their own name, place, and dtype."""

    what: str
    name: str
    path: Path
    offset: int
    bytes: int
    dtype: str


def compare(one: Path, other: Path) -> list[dict[str, Any]]:
    """For each kind of array: whether all bits are equal, and the largest deviation of two numbers.

    The deviation is null where the numbers are of a kind that only bits are compared of. Raises
    CheckpointFormatError, OSError, and ValueError for models of different structure.
    """
    first, second = list(_arrays(one)), list(_arrays(other))
    shapes = [[(a.what, a.name, a.bytes, a.dtype) for a in arrays] for arrays in (first, second)]
    if shapes[0] != shapes[1]:
        raise ValueError(f"{one} and {other} hold other arrays, or of other sizes")
    found: dict[str, dict[str, Any]] = {}
    for a, b in zip(first, second, strict=True):
        equal, largest = _pair(a, b)
        so_far = found.setdefault(a.what, {"what": a.what, "equal": True, "deviation": 0.0})
        so_far["equal"] = so_far["equal"] and equal
        known = so_far["deviation"] is not None and largest is not None
        so_far["deviation"] = max(so_far["deviation"], largest) if known else None
    return list(found.values())


def _arrays(checkpoint: Path) -> Iterator[Array]:
    form = form_of(checkpoint.name)
    if form == "bin":
        with checkpoint.open("rb") as file:
            head = file.read(HEADER_BYTES)
        count = read_header(head, checkpoint.stat().st_size, str(checkpoint)).n_params
        for at, name in enumerate(("weights", "m", "v")):
            place = HEADER_BYTES + 4 * count * at
            yield Array(name, name, checkpoint, place, 4 * count, "float32")
        return
    files = [checkpoint] if form == "pt" else sorted(checkpoint.glob("*.pt"))
    for path in files:
        with path.open("rb") as file:
            tree = torch_file.read(file.fileno(), str(path)).tree
        for name, tensor in torch_file.tensors(tree):
            yield Array(_kind(name), name, path, tensor.offset, tensor.bytes, tensor.dtype)


def _kind(name: str) -> str:
    """``m`` and ``v`` where an optimizer of torch names them so; else the part of the payload."""
    first, _, rest = name.partition(".")
    if first == "optimizer":
        return _MOMENTS.get(rest.rpartition(".")[2], first)
    return first if first in ("rng", "scheduler", "train_state") else "weights"


def _pair(a: Array, b: Array) -> tuple[bool, float | None]:
    # Imported here, so that only a process that compares numbers loads it.
    import numpy as np  # noqa: PLC0415 - see above

    kind = _NUMBERS.get(a.dtype)
    equal, largest = True, 0.0 if kind else None
    with a.path.open("rb") as one, b.path.open("rb") as other:
        one.seek(a.offset)
        other.seek(b.offset)
        for start in range(0, a.bytes, _CHUNK):
            size = min(_CHUNK, a.bytes - start)
            x, y = one.read(size), other.read(size)
            if x == y:
                continue
            equal = False
            if kind and largest is not None:
                apart = np.frombuffer(x, kind).astype("f8") - np.frombuffer(y, kind)
                largest = max(largest, float(abs(apart).max()))
    return equal, largest


def main(arguments: list[str]) -> int:
    """Print the comparison; 0, or 2 and one line on stderr."""
    one, other = map(Path, arguments)
    try:
        found = compare(one, other)
    except (OSError, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.write(json.dumps(found) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
