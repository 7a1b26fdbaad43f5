"""Write a payload as one file: hashed while it is written, durable before it has its name.

The file ends with a ZIP comment that holds the SHA-256 of all bytes before it, so a single file
says by itself whether it is whole; readers of ZIP and torch pass over it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any, Final, NamedTuple, cast

import torch

from trainer.contract import durable
from trainer.full_state.errors import FullStateError, PayloadError
from trainer.full_state.plain import strict_json
from trainer.full_state.schema import Payload

COMMENT: Final = b"stepkeeper sha256 "
DIGEST_LENGTH: Final = 64
END: Final = b"PK\x05\x06"  # the end-of-archive record, the last thing in a ZIP
END_LENGTH: Final = 22
_WORTH_A_THREAD: Final = 1 << 20


class Written(NamedTuple):
    """What is durable now: SHA-256 and size of a file; of a folder, its index's and all bytes."""

    sha256: str
    bytes: int


Announce = Callable[[Written], None]


def atomic_save(payload: dict[str, Any], path: Path) -> Written:
    """Replace ``path`` by ``payload``, whole or not at all, whenever the process dies.

    Raises PayloadError for more than tensors and plain containers, and OSError with nothing new
    visible.
    """
    return write_one_file(path, payload)


def atomic_write_json(record: dict[str, Any], path: Path) -> None:
    """Replace ``path`` by strict JSON.

    A number that is not finite becomes null, and ``nonfinite`` says which under its place
    (``{"losses[3]": "nan"}``). Scalars of tensors and of numpy become numbers. Raises
    PayloadError for anything else, OSError.
    """
    nonfinite: dict[str, str] = {}
    content = strict_json(record, "", nonfinite)
    if not isinstance(content, dict) or "nonfinite" in content:
        raise PayloadError(f"cannot write {path}: an object without the key nonfinite is needed")
    if nonfinite:
        content["nonfinite"] = nonfinite
    text = json.dumps(content, allow_nan=False, indent=1)
    durable.write_file(Path(path), text.encode("ascii") + b"\n")


def write_one_file(path: Path, payload: Payload, announce: Announce | None = None) -> Written:
    """Write, hash, sync and rename. Raises OSError with nothing new visible; also others.

    ``announce`` is called before the file gets its name, with what it will be.

    The temporary file stands in the same folder under a name unique per try, so two writers do
    not meet; the last one to finish has the name.
    """
    path = Path(path)
    temporary = durable.temporary_for(path)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o640)
    try:
        written = _stream(descriptor, payload)
        if announce is not None:
            announce(written)
        durable.finish(descriptor, temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    finally:
        os.close(descriptor)
    return written


def _stream(descriptor: int, payload: Payload) -> Written:
    with ThreadPoolExecutor(1) as beside:
        file = _HashedFile(descriptor, beside)
        torch.save(payload, cast("IO[bytes]", file))  # it writes and flushes, no more
        return file.close()


class _HashedFile:
    """What ``torch.save`` writes to: each large piece is hashed while it is written.

    torch turns an error of ``write`` into one of its own, so the first is kept, the rest of the
    bytes goes nowhere, and ``close`` raises it. The end of the archive is held back, since the
    comment's length stands in it.
    """

    def __init__(self, descriptor: int, beside: ThreadPoolExecutor) -> None:
        self._descriptor = descriptor
        self._beside = beside
        self._digest = hashlib.sha256()
        self._size = 0
        self._held = b""
        self._error: BaseException | None = None

    def write(self, data: bytes | memoryview) -> int:
        """Take the next bytes, all of them."""
        view = memoryview(data).cast("B")
        if self._error is None:
            try:
                self._take(view)
            except BaseException as error:  # noqa: BLE001 - raised by close, as said above
                self._error = error
        return len(view)

    def flush(self) -> None:
        """Nothing waits but the end, which ``close`` writes."""

    def close(self) -> Written:
        """Write the end with the comment. Raises what writing raised."""
        if self._error is not None:
            raise self._error
        if not self._held.startswith(END) or self._held[-2:] != b"\0\0":
            raise FullStateError(
                f"cannot save with torch {torch.__version__}: its files end otherwise"
            )
        length = len(COMMENT) + DIGEST_LENGTH
        self._put(memoryview(self._held[:-2] + length.to_bytes(2, "little") + COMMENT))
        self._put(memoryview(self._digest.hexdigest().encode("ascii")))
        return Written(self._digest.hexdigest(), self._size)

    def _take(self, view: memoryview) -> None:
        if len(view) < END_LENGTH:
            data = self._held + bytes(view)
            self._held = data[-END_LENGTH:]
            self._put(memoryview(data[:-END_LENGTH]))
            return
        self._put(memoryview(self._held))
        self._held = bytes(view[-END_LENGTH:])
        self._put(view[:-END_LENGTH])

    def _put(self, view: memoryview) -> None:
        self._size += len(view)
        if len(view) < _WORTH_A_THREAD:
            self._digest.update(view)
            durable.write_all(self._descriptor, view)
            return
        hashed = self._beside.submit(self._digest.update, view)
        try:
            durable.write_all(self._descriptor, view)
        finally:
            hashed.result()
