"""Stream arrays into a file past the page cache, and hash them beside it.

Writing through the page cache copies every byte once more in the kernel, and its write-back takes
the processors from training. O_DIRECT takes them hardly at all, but wants memory, file position
and length in whole blocks: so the bytes come from page-aligned memory, and the last part of a
block goes through the cache. Where a file system refuses it, everything does.

What is long here holds no interpreter lock: writes, digests and copies of megabytes.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import mmap
import os
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from trainer.contract import durable

BLOCK = 4096
_SLOT = 8 << 20
_SLOTS = 3
_AT_ONCE = 64 << 20
_SMALL = 1 << 20  # not worth a thread


class Streamed(NamedTuple):
    """``direct`` says whether the page cache was passed by, as far as that was tried."""

    sha256: str
    direct: bool


def aligned_memory(size: int) -> memoryview:
    """``size`` writable bytes, zero, that begin at a page; given back with the last view of it."""
    memory = mmap.mmap(-1, max(size, 1), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_HUGEPAGE)
    return memoryview(memory)[:size]


def stream(descriptor: int, parts: Iterable[memoryview], size: int) -> Streamed:
    """Write ``parts``, ``size`` bytes in all, one behind another. Raises OSError.

    They are copied once on their way, so each of them may lie anywhere, be of any length, and be
    made only when it is its turn. The file is empty.
    """
    if size <= _SMALL:
        return stream_image(descriptor, memoryview(b"".join(parts)))
    writer = _Writer(descriptor)
    digest = hashlib.sha256()
    ring = [aligned_memory(_SLOT) for _ in range(_SLOTS)]
    hashed: list[Future[None] | None] = [None] * _SLOTS
    with ThreadPoolExecutor(1, "digest") as beside:
        for number, length in enumerate(_filled(ring, hashed, parts)):
            slot = ring[number % _SLOTS][:length]
            hashed[number % _SLOTS] = beside.submit(digest.update, slot)
            writer.write(slot)
    return Streamed(digest.hexdigest(), writer.direct)


def stream_image(descriptor: int, image: memoryview) -> Streamed:
    """Write the whole file as it lies in memory, copying nothing. Raises OSError.

    Page-aligned memory goes past the page cache.
    """
    digest = hashlib.sha256()
    if len(image) <= _SMALL:
        durable.write_all(descriptor, image)
        digest.update(image)
        return Streamed(digest.hexdigest(), direct=True)
    writer = _Writer(descriptor)
    with ThreadPoolExecutor(1, "digest") as beside:
        done = beside.submit(digest.update, image)
        for start in range(0, len(image), _AT_ONCE):
            writer.write(image[start : start + _AT_ONCE])
        done.result()
    return Streamed(digest.hexdigest(), writer.direct)


def _filled(
    ring: list[memoryview], hashed: list[Future[None] | None], parts: Iterable[memoryview]
) -> Iterator[int]:
    """Fill one slot after another, each when its digest is done; yields how far it is filled."""
    number, at = 0, 0
    for part in parts:
        source = np.frombuffer(part, np.uint8)
        while source.size:
            waited = hashed[number % _SLOTS] if at == 0 else None
            if waited is not None:
                waited.result()
            length = min(source.size, _SLOT - at)
            np.copyto(
                np.frombuffer(ring[number % _SLOTS], np.uint8)[at : at + length], source[:length]
            )
            source = source[length:]
            at += length
            if at == _SLOT:
                yield at
                number, at = number + 1, 0
    if at:
        yield at


class _Writer:
    """Writes on end; ``direct`` until the file system refuses, or the last part of a block."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._on = self._turn(on=True)
        self.direct = self._on

    def write(self, data: memoryview) -> None:
        """Write every byte. Raises OSError."""
        while data:
            whole = len(data) - len(data) % BLOCK
            if self._on and not whole:
                self._turn(on=False)
            try:
                done = os.write(self._descriptor, data[:whole] if self._on else data)
            except OSError as error:
                if not self._on or error.errno != errno.EINVAL:
                    raise
                self.direct = self._turn(on=False)
                continue
            data = data[done:]

    def _turn(self, *, on: bool) -> bool:
        """Turn O_DIRECT on or off; returns whether it is on now."""
        flags = fcntl.fcntl(self._descriptor, fcntl.F_GETFL)
        try:
            fcntl.fcntl(
                self._descriptor, fcntl.F_SETFL, flags | os.O_DIRECT if on else flags & ~os.O_DIRECT
            )
        except OSError:
            on = False
        self._on = on
        return on
