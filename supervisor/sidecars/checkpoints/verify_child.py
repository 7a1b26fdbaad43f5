"""Read one checkpoint back in bounded memory and print a verdict as one JSON line.

``python -m supervisor.sidecars.checkpoints.verify_child FOLDER NAME [--sha256 HEX]
[--n-params N] [--companion-required]``. Exits 0 whenever it could answer.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from trainer.contract.checkpoint_format import (
    HEADER_BYTES,
    CheckpointFormatError,
    Header,
    companion_of,
    read_companion,
    read_header,
    step_of,
)

if TYPE_CHECKING:
    import numpy as np

_CHUNK: Final = 1 << 20  # numbers at a time
_NICENESS: Final = 10  # the trainer comes first


class Expected(NamedTuple):
    """What the checkpoint is held against; empty and 0 hold nothing against it."""

    sha256: str = ""
    n_params: int = 0
    companion: bool = False


class Digest(Protocol):
    """A running hash."""

    def update(self, data: memoryview, /) -> None:
        """Take in more bytes."""


def verify(path: Path, expected: Expected) -> dict[str, Any]:
    """The fields of a Verdict for the checkpoint at ``path``; nothing wrong with it raises."""
    found = {"step": step_of(path.name) or 0, "name": path.name, "sha256": "", "bytes": 0}
    found |= {"companion": "", "problem": ""}
    try:
        _check(path, found, expected)
    except CheckpointFormatError as error:
        found["problem"] = str(error)
    except OSError as error:
        found["problem"] = f"cannot read {error.filename or path}: {error.strerror}"
    return found


def _check(path: Path, found: dict[str, Any], expected: Expected) -> None:
    with path.open("rb", buffering=0) as file:
        # Clean pages are dropped, so that what is read is what the disk holds.
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        size = os.fstat(file.fileno()).st_size
        found["bytes"] = size
        head = file.read(HEADER_BYTES)
        header = read_header(head, size, str(path))
        if expected.n_params not in (0, header.n_params):
            raise CheckpointFormatError(str(path), "n_params", expected.n_params, header.n_params)
        digest = sha256(head)
        problem = _numbers(file, header, digest, str(path))
        if file.read(1):
            raise CheckpointFormatError(str(path), "size", f"{size} bytes", "more, it grew")
    found["sha256"] = digest.hexdigest()
    if expected.sha256 not in ("", found["sha256"]):
        raise CheckpointFormatError(str(path), "sha256", expected.sha256, found["sha256"])
    if problem is not None:
        raise problem
    found["companion"] = _companion(path, found, header, required=expected.companion)


def _numbers(
    file: io.FileIO, header: Header, digest: Digest, path: str
) -> CheckpointFormatError | None:
    """Hash the three arrays and look at every number; the first fault, told after the digest."""
    problem = None
    for array in ("weights", "m", "v"):
        nonzero = False
        for start, numbers in _chunks(file, header.n_params, digest, path):
            nonzero = nonzero or bool(numbers.any())
            problem = problem or _fault(array, start, numbers, path)
        if header.step > 0 and array != "weights" and not nonzero:
            problem = problem or CheckpointFormatError(
                path, array, f"numbers other than zero after step {header.step}", "only zeros"
            )
    return problem


def _chunks(
    file: io.FileIO, count: int, digest: Digest, path: str
) -> Iterator[tuple[int, np.ndarray[Any, np.dtype[np.float32]]]]:
    # Imported here, so that only a process that reads a checkpoint back loads it.
    import numpy as np  # noqa: PLC0415 - see above

    buffer = np.empty(min(count, _CHUNK), "<f4")
    for start in range(0, count, _CHUNK):
        numbers = buffer[: min(_CHUNK, count - start)]
        view = numbers.data.cast("B")
        filled = 0
        while filled < len(view):
            read = file.readinto(view[filled:])
            if not read:
                raise CheckpointFormatError(path, "size", "as in the header", "less, it shrank")
            filled += read
        digest.update(view)
        yield start, numbers


def _fault(
    array: str, start: int, numbers: np.ndarray[Any, np.dtype[np.float32]], path: str
) -> CheckpointFormatError | None:
    sound = abs(numbers) < float("inf")  # false for what is not a number, too
    if not sound.all():
        at = int(sound.argmin())
        return CheckpointFormatError(
            path, f"{array}[{start + at}]", "a finite number", float(numbers[at])
        )
    if array == "v" and float(numbers.min()) < 0:
        at = int(numbers.argmin())
        return CheckpointFormatError(path, f"v[{start + at}]", "0 or more", float(numbers[at]))
    return None


def _companion(path: Path, found: dict[str, Any], header: Header, *, required: bool) -> str:
    """The companion's digest, or empty where there is none and none is needed."""
    beside = path.with_name(companion_of(header.step))
    try:
        data = beside.read_bytes()
    except FileNotFoundError:
        if required:
            raise CheckpointFormatError(str(path), "companion", beside.name, "none") from None
        return ""
    companion = read_companion(data, str(beside))
    for key, wanted in (
        ("step", header.step),
        ("n_params", header.n_params),
        ("sha256", found["sha256"]),
        ("bytes", found["bytes"]),
    ):
        if getattr(companion, key) != wanted:
            raise CheckpointFormatError(str(beside), key, wanted, getattr(companion, key))
    return sha256(data).hexdigest()


def main(arguments: list[str]) -> int:
    """Print the verdict; 0."""
    parser = argparse.ArgumentParser(prog="verify_child", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("name")
    parser.add_argument("--sha256", default="")
    parser.add_argument("--n-params", type=int, default=0)
    parser.add_argument("--companion-required", action="store_true")
    given = parser.parse_args(arguments)
    os.nice(_NICENESS)
    expected = Expected(given.sha256, given.n_params, given.companion_required)
    verdict = verify(given.folder / given.name, expected)
    sys.stdout.write(json.dumps(verdict) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
