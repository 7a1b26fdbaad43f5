"""Write the weights of one checkpoint as safetensors, read them back and print one JSON line.

``python -m supervisor.sidecars.checkpoints.weights_child`` with a task as JSON on standard input:
``files`` (root, name and a path to the bytes of each), ``name``, ``sha256`` and ``companion`` (its
text, or null) of the checkpoint, ``target`` and ``metadata``. Lines of digits before the last one
are bytes done so far. Exits 0 whenever it could answer; the answer is the fields of ``Written``.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any, Final, NamedTuple

from supervisor.sidecars.checkpoints.weight_sources import (
    Files,
    Sought,
    Weight,
    digest_of,
    find,
)
from trainer.contract.checkpoint_format import CheckpointFormatError
from trainer.contract.durable import finish, temporary_for

_DIE_WITH_PARENT: Final = 1  # PR_SET_PDEATHSIG
_LENGTH_BYTES: Final = 8  # at the start of a safetensors file: how long its header is


class Written(NamedTuple):
    """What stands at the target, or why nothing does: ``dtypes`` counts tensors of each."""

    sha256: str = ""
    bytes: int = 0
    numbers: int = 0
    dtypes: dict[str, int] = {}  # noqa: RUF012 - never changed
    problem: str = ""

    @property
    def tensors(self) -> int:
        """How many tensors there are."""
        return sum(self.dtypes.values())


class _Done:
    """Counts bytes, and says so."""

    def __init__(self) -> None:
        self._bytes = 0

    def add(self, more: int) -> None:
        self._bytes += more
        sys.stdout.write(f"{self._bytes}\n")
        sys.stdout.flush()


def write(task: dict[str, Any]) -> Written:
    """Carry out the task; nothing wrong with the checkpoint or the disk raises."""
    try:
        return _write(task)
    except CheckpointFormatError as error:
        return Written(problem=str(error))
    except OSError as error:
        where = error.filename or task["target"]
        return Written(problem=f"cannot write {where}: {error.strerror or error}")


def _write(task: dict[str, Any]) -> Written:
    done = _Done()
    target = Path(task["target"])
    sought = Sought(task["name"], task["sha256"], task["companion"])
    with contextlib.ExitStack() as stack:
        files: Files = {
            (root, name): stack.enter_context(Path(path).open("rb", buffering=0))
            for root, name, path in task["files"]
        }
        weights = find(files, sought, done.add)
        if not weights:
            raise CheckpointFormatError(sought.name, "model", "tensors", "none")
        _save(weights, target, task["metadata"])
        digest, size = _read_back(weights, target, done)
    dtypes: dict[str, int] = {}
    for weight in weights.values():
        dtypes[weight.dtype] = dtypes.get(weight.dtype, 0) + 1
    numbers = sum(weight.bits.size for weight in weights.values())
    return Written(digest, size, numbers, dtypes)


def _save(weights: dict[str, Weight], target: Path, metadata: dict[str, str]) -> None:
    """Write the file durably, straight from the checkpoint's pages."""
    # Imported here, so that only a process that writes weights loads it.
    from safetensors import SafetensorError, TensorSpec, serialize_file  # noqa: PLC0415 - see above

    temporary = temporary_for(target)
    specs: dict[str, TensorSpec] = {}
    try:
        for name, (dtype, shape, bits) in weights.items():
            place, length = bits.ctypes.data, bits.nbytes
            try:
                specs[name] = TensorSpec(dtype=dtype, shape=shape, data_ptr=place, data_len=length)
            except SafetensorError:
                expected = "a dtype that safetensors knows"
                raise CheckpointFormatError(target.name, name, expected, dtype) from None
        try:
            serialize_file(specs, temporary, metadata)
        except SafetensorError as error:
            raise OSError(0, str(error), str(target)) from None
        with temporary.open("rb") as made:
            finish(made.fileno(), temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def _read_back(weights: dict[str, Weight], target: Path, done: _Done) -> tuple[str, int]:
    """Digest and size of what the disk holds, every tensor compared bit for bit."""
    import numpy as np  # noqa: PLC0415 - likewise
    from safetensors import safe_open  # noqa: PLC0415 - likewise

    with target.open("rb", buffering=0) as file:
        # Clean pages are dropped, so that what is read is what the disk holds.
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        size = os.fstat(file.fileno()).st_size
        digest = digest_of(file, done.add)
    with safe_open(target, framework="np") as made:  # the library's own reader takes it
        names = set(made.keys())
    if names != set(weights):
        raise CheckpointFormatError(target.name, "names", sorted(weights), sorted(names))
    whole = np.memmap(target, "u1", "r")
    head = int.from_bytes(whole[:_LENGTH_BYTES].tobytes(), "little")
    begin = _LENGTH_BYTES + head
    places = json.loads(whole[_LENGTH_BYTES:begin].tobytes())
    for name, weight in weights.items():
        first, last = places[name]["data_offsets"]
        found = whole[begin + first : begin + last]
        if places[name]["shape"] != list(weight.shape) or not np.array_equal(
            found, weight.bits.reshape(-1).view("u1")
        ):
            raise CheckpointFormatError(target.name, name, "the checkpoint's bits", "others")
    return digest, size


def main() -> int:
    """Print the answer; 0."""
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    answer = write(json.load(sys.stdin))
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.write(json.dumps(answer._asdict()) + "\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
