"""Read a payload back: the one place of the project that calls ``torch.load``.

Weights-only always, so a file can hold tensors and plain containers and nothing else. The digest
is computed beside the loading and decides before anything is handed out.
"""

from __future__ import annotations

import hashlib
import os
import pickle  # noqa: TID251 - for the name of its error alone
import re
import stat
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import torch

from trainer.full_state.errors import CorruptError, DeviceError, PathError, UnsafeError
from trainer.full_state.schema import Payload, checked
from trainer.full_state.writing import COMMENT, DIGEST_LENGTH, END, END_LENGTH, Written

_CHUNK: Final = 1 << 22
_MAGIC: Final = b"PK\x03\x04"
_FORBIDDEN: Final = re.compile(r"(?:GLOBAL|class|function) ([\w.]+)")


def read_one_file(
    path: Path, *, map_location: str | torch.device = "cpu", sha256: str | None = None
) -> Payload:
    """The payload of one file in the present schema, its tensors on ``map_location``.

    ``sha256`` is what the whole file must have, where it is known from elsewhere; the file's own
    comment is held against it in any case, and a file without one is checked by its CRCs.
    Raises OSError, CorruptError, UnsafeError, SchemaError, DeviceError.
    """
    with opened(path) as descriptor:
        payload, _ = load_checked(descriptor, str(path), map_location, sha256)
    return checked(payload, str(path))


@contextmanager
def opened(path: Path, folder: int | None = None) -> Iterator[int]:
    """A descriptor of a regular file; under a ``folder`` descriptor no link is followed.

    Raises OSError, PathError.
    """
    flags = (
        os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | (os.O_NOFOLLOW if folder is not None else 0)
    )
    descriptor = os.open(path, flags, dir_fd=folder)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise PathError(f"cannot load {path}: it is no file")
        yield descriptor
    finally:
        os.close(descriptor)


def load_checked(
    descriptor: int, name: str, map_location: str | torch.device, sha256: str | None
) -> tuple[Any, Written]:
    """What a file holds, and its digest and size. Raises as ``read_one_file`` does."""
    _refuse_absent(map_location, name)
    if os.pread(descriptor, len(_MAGIC), 0) != _MAGIC:
        raise CorruptError(f"cannot load {name}: it is no file of torch.save's present form")
    with ThreadPoolExecutor(1) as beside:
        hashing = beside.submit(_digests, descriptor)
        try:
            content = _load(descriptor, name, map_location)
        except (UnsafeError, CorruptError) as error:
            _compare(hashing.result(), descriptor, name, sha256)  # says more, where it says no
            raise error from None
        found = hashing.result()
    _compare(found, descriptor, name, sha256)
    return content, Written(found[0], os.fstat(descriptor).st_size)


def digest_of(descriptor: int) -> str:
    """SHA-256 of a file, as hex."""
    return _digests(descriptor)[0]


def _load(descriptor: int, name: str, map_location: str | torch.device) -> Any:  # noqa: ANN401 - any
    try:
        return torch.load(  # noqa: TID251 - this module is the one that calls it
            f"/proc/self/fd/{descriptor}", map_location=map_location, weights_only=True
        )
    except pickle.UnpicklingError as error:
        named = _FORBIDDEN.search(str(error))
        what = named[1] if named else "something that is not known"
        raise UnsafeError(
            f"cannot load {name}: it asks for {what}, and only tensors and plain containers are "
            "loaded; nothing of it was run"
        ) from None
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - a damaged file makes it raise anything
        text = " ".join(str(error).split())[:200]
        raise CorruptError(f"cannot load {name}: {type(error).__name__}: {text}") from None


def _digests(descriptor: int) -> tuple[str, str]:
    """SHA-256 of the whole file, and of all but the digest at its end."""
    size = os.fstat(descriptor).st_size
    border = max(size - DIGEST_LENGTH, 0)
    digest, before, offset = hashlib.sha256(), "", 0
    while offset < size:
        end = border if offset < border else size
        data = os.pread(descriptor, min(_CHUNK, end - offset), offset)
        if not data:
            break
        digest.update(data)
        offset += len(data)
        before = digest.hexdigest() if offset == border else before
    return digest.hexdigest(), before


def _compare(found: tuple[str, str], descriptor: int, name: str, sha256: str | None) -> None:
    """Raise CorruptError where the bytes are not those that were written."""
    whole, before = found
    if sha256 is not None and whole != sha256:
        raise CorruptError(f"cannot load {name}: SHA-256: expected {sha256}, found {whole}")
    length = len(COMMENT) + DIGEST_LENGTH
    size = os.fstat(descriptor).st_size
    end = os.pread(descriptor, length, max(size - length, 0))
    if end.startswith(COMMENT):
        noted = end[len(COMMENT) :].decode("ascii", "replace")
        if noted != before:
            raise CorruptError(
                f"cannot load {name}: its bytes have the SHA-256 {before}, its end says {noted}"
            )
    elif sha256 is None:
        _compare_checksums(descriptor, name)


def _compare_checksums(descriptor: int, name: str) -> None:
    """A file of another writer has no digest of its own, but a CRC for each of its parts."""
    end = os.pread(descriptor, END_LENGTH, max(os.fstat(descriptor).st_size - END_LENGTH, 0))
    if not end.startswith(END):
        raise CorruptError(f"cannot load {name}: it does not end where its archive ends")
    try:
        with os.fdopen(os.dup(descriptor), "rb") as file, zipfile.ZipFile(file) as archive:
            bad = archive.testzip()
    except (zipfile.BadZipFile, NotImplementedError, OSError, EOFError, ValueError) as error:
        raise CorruptError(f"cannot load {name}: {error}") from None
    if bad is not None:
        raise CorruptError(f"cannot load {name}: {bad} is not as it was written")


def _refuse_absent(map_location: str | torch.device, name: str) -> None:
    kind = torch.device(map_location).type
    if kind == "cuda" and not torch.cuda.is_available():
        raise DeviceError(f"cannot load {name} to {map_location}: there is no such device here")
