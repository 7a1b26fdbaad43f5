"""Read one checkpoint back in bounded memory and print a verdict as one JSON line.

``python -m supervisor.sidecars.checkpoints.verify_child FOLDER NAME [--sha256 HEX]
[--n-params N] [--companion-required] [--companion HEX] [--digest-only] [--idle] [--progress]``.
Exits 0 whenever it could answer. With ``--progress``, lines with the bytes read so far go before.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import errno
import io
import json
import os
import signal
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
_PIECE: Final = 1 << 23  # bytes at a time where only the digest is asked for
_NICENESS: Final = 10  # the trainer comes first
_TELL: Final = 1 << 26  # bytes between two lines that say how far it is
_LAST: Final = 19  # and in the background everybody does
_CERTAIN: Final = (errno.ENOENT, errno.EISDIR, errno.ENOTDIR, errno.ELOOP)
_LEAST_BEST_EFFORT: Final = 7
_DIE_WITH_PARENT: Final = 1  # PR_SET_PDEATHSIG


class Expected(NamedTuple):
    """What the checkpoint is held against; empty and 0 hold nothing against it."""

    sha256: str = ""
    n_params: int = 0
    companion: bool = False
    companion_sha256: str = ""


class Digest(Protocol):
    """A running hash."""

    def update(self, data: memoryview, /) -> None:
        """Take in more bytes."""


class Manner(NamedTuple):
    """How it is read: the digest alone, or every number too; leaving no pages in memory; aloud."""

    digest_only: bool = False
    idle: bool = False
    progress: bool = False


def verify(path: Path, expected: Expected, manner: Manner = Manner()) -> dict[str, Any]:  # noqa: B008 - a plain value
    """The fields of a Verdict for the checkpoint at ``path``; nothing wrong with it raises."""
    found = {"step": step_of(path.name) or 0, "name": path.name, "sha256": "", "bytes": 0}
    found |= {"companion": "", "problem": ""}
    try:
        _check(path, found, expected, manner)
    except CheckpointFormatError as error:
        found["problem"] = str(error)
    except OSError as error:
        problem = f"cannot read {error.filename or path}: {error.strerror}"
        # What is not there, or is no file, is a fault of the checkpoint; all else may pass.
        certain = error.errno in _CERTAIN
        doubt = f"cannot tell whether {path.name} is good: "
        found["problem"] = problem if certain else doubt + problem
    return found


def _check(path: Path, found: dict[str, Any], expected: Expected, manner: Manner) -> None:
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
        if manner.digest_only:
            problem = None
            _bytes(file, digest, manner)
        else:
            problem = _numbers(file, header, digest, str(path))
        if file.read(1):
            raise CheckpointFormatError(str(path), "size", f"{size} bytes", "more, it grew")
    found["sha256"] = digest.hexdigest()
    if expected.sha256 not in ("", found["sha256"]):
        raise CheckpointFormatError(str(path), "sha256", expected.sha256, found["sha256"])
    if problem is not None:
        raise problem
    required = expected.companion or bool(expected.companion_sha256)
    found["companion"] = _companion(path, found, header, required=required)
    if expected.companion_sha256 not in ("", found["companion"]):
        raise CheckpointFormatError(
            str(path.with_name(companion_of(header.step))),
            "sha256",
            expected.companion_sha256,
            found["companion"],
        )


def _bytes(file: io.FileIO, digest: Digest, manner: Manner) -> None:
    """Hash the rest of the file."""
    buffer = memoryview(bytearray(_PIECE))
    done = file.tell()
    while read := file.readinto(buffer):
        digest.update(buffer[:read])
        done += read
        if manner.idle:
            os.posix_fadvise(file.fileno(), 0, done, os.POSIX_FADV_DONTNEED)
        if manner.progress and done // _TELL != (done - read) // _TELL:
            sys.stdout.write(f"{done}\n")
            sys.stdout.flush()


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


def _step_back(*, idle: bool) -> None:
    """Let others have the processor and the disk first; end with the parent, even while stopped."""
    # Imported here, so that reading in this process costs no more than it must.
    import psutil  # noqa: PLC0415 - see above

    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    os.nice(_LAST if idle else _NICENESS)
    with contextlib.suppress(OSError, psutil.Error):  # a sandbox may forbid it
        if idle:
            psutil.Process().ionice(psutil.IOPRIO_CLASS_IDLE)
        else:
            psutil.Process().ionice(psutil.IOPRIO_CLASS_BE, _LEAST_BEST_EFFORT)


def main(arguments: list[str]) -> int:
    """Print the verdict; 0."""
    parser = argparse.ArgumentParser(prog="verify_child", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("name")
    parser.add_argument("--sha256", default="")
    parser.add_argument("--n-params", type=int, default=0)
    parser.add_argument("--companion-required", action="store_true")
    parser.add_argument("--companion", default="")
    for flag in ("--digest-only", "--idle", "--progress"):
        parser.add_argument(flag, action="store_true")
    given = parser.parse_args(arguments)
    _step_back(idle=given.idle)
    expected = Expected(given.sha256, given.n_params, given.companion_required, given.companion)
    manner = Manner(given.digest_only, given.idle, given.progress)
    verdict = verify(given.folder / given.name, expected, manner)
    sys.stdout.write(json.dumps(verdict) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
