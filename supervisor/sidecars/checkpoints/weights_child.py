"""Write the weights of one checkpoint as safetensors, read them back and print one JSON line.

``python -m supervisor.sidecars.checkpoints.weights_child`` with a task as JSON on standard input:
``source`` (a path to the checkpoint's bytes), ``name``, ``sha256``, ``companion`` (its text, or
null), ``target`` and ``metadata``. Lines of digits before the last one are bytes done so far.
Exits 0 whenever it could answer; the answer is the fields of ``Written``.
"""

from __future__ import annotations

import contextlib
import ctypes
import io
import json
import math
import os
import signal
import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from trainer.contract.checkpoint_format import (
    HEADER_BYTES,
    CheckpointFormatError,
    Header,
    read_companion,
    read_header,
)
from trainer.contract.durable import finish, temporary_for

if TYPE_CHECKING:
    import numpy as np

    Tensors = dict[str, np.ndarray[Any, np.dtype[np.float32]]]

UNNAMED: Final = "weights"  # the one tensor of a checkpoint that does not name its parameters
_PIECE: Final = 1 << 23
_DIE_WITH_PARENT: Final = 1  # PR_SET_PDEATHSIG


class Written(NamedTuple):
    """What stands at the target, or why nothing does. ``equal`` counts the tensors compared."""

    sha256: str = ""
    bytes: int = 0
    n_params: int = 0
    equal: int = 0
    problem: str = ""


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
    # Imported here, so that only a process that writes weights loads them.
    from safetensors import SafetensorError  # noqa: PLC0415 - see above
    from safetensors.numpy import save_file  # noqa: PLC0415 - see above

    target, temporary = Path(task["target"]), temporary_for(Path(task["target"]))
    try:
        with Path(task["source"]).open("rb", buffering=0) as file:
            header = _header(file, task["name"])
            _hold_against(file, task["name"], task["sha256"])
            tensors = _tensors(file, header, task["companion"], task["name"])
            try:
                save_file(tensors, temporary, metadata=task["metadata"])
            except SafetensorError as error:
                raise OSError(0, str(error), str(target)) from None
            with temporary.open("rb", buffering=0) as made:
                finish(made.fileno(), temporary, target)
            done = os.fstat(file.fileno()).st_size
            return _read_back(target, tensors, done)._replace(n_params=header.n_params)
    finally:
        temporary.unlink(missing_ok=True)


def _header(file: io.FileIO, name: str) -> Header:
    return read_header(file.read(HEADER_BYTES), os.fstat(file.fileno()).st_size, name)


def _hold_against(file: io.FileIO, name: str, expected: str) -> None:
    """The metadata name this digest, so it must be that of what is read."""
    file.seek(0)
    found = _digest(file, 0)
    if found != expected:
        raise CheckpointFormatError(name, "sha256 as sealed", expected, found)


def _digest(file: io.FileIO, done: int) -> str:
    """Hash a file; ``done`` bytes were behind us before."""
    digest = sha256()
    buffer = memoryview(bytearray(_PIECE))
    while read := file.readinto(buffer):
        digest.update(buffer[:read])
        done += read
        _tell(done)
    return digest.hexdigest()


def _tensors(file: io.FileIO, header: Header, companion: str | None, name: str) -> Tensors:
    """The weights by name, as views of the file: nothing is copied into memory."""
    import numpy as np  # noqa: PLC0415 - as above

    weights = np.memmap(file, "<f4", "r", HEADER_BYTES, (header.n_params,))
    tensors: Tensors = {}
    at = 0
    for parameter, shape in _parameters(header, companion, name):
        size = math.prod(shape)
        tensors[parameter] = weights[at : at + size].reshape(shape)
        at += size
    return tensors


def _parameters(
    header: Header, companion: str | None, name: str
) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Names and shapes in the order of the array; their sizes add up to it."""
    if companion is None:
        yield UNNAMED, (header.n_params,)
        return
    known = read_companion(companion.encode("ascii"), f"the companion of {name}")
    if known.n_params != header.n_params:
        raise CheckpointFormatError(name, "n_params", known.n_params, header.n_params)
    yield from known.parameters


def _read_back(target: Path, tensors: Tensors, done: int) -> Written:
    """Hash what the disk holds and compare every number, bit for bit, with the checkpoint's."""
    import numpy as np  # noqa: PLC0415 - as above
    from safetensors import safe_open  # noqa: PLC0415 - as above

    with target.open("rb", buffering=0) as file:
        # Clean pages are dropped, so that what is read is what the disk holds.
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        size = os.fstat(file.fileno()).st_size
        digest = _digest(file, done)
    with safe_open(target, framework="np") as made:
        names = set(made.keys())
        if names != set(tensors):
            raise CheckpointFormatError(target.name, "names", sorted(tensors), sorted(names))
        for name, wanted in tensors.items():
            found = made.get_tensor(name)
            if found.dtype != wanted.dtype or not np.array_equal(
                found.view(np.uint32), wanted.view(np.uint32)
            ):
                raise CheckpointFormatError(target.name, name, "the checkpoint's bits", "others")
    return Written(digest, size, equal=len(tensors))


def _tell(done: int) -> None:
    sys.stdout.write(f"{done}\n")
    sys.stdout.flush()


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
