"""One file read once from its beginning to its end: hashed on the way, and counted aloud."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from hashlib import sha256
from typing import Final, NamedTuple

from trainer.contract.checkpoint_format import CheckpointFormatError

PIECE: Final = 1 << 22  # bytes at a time; a multiple of every number's size
_TELL: Final = 1 << 26  # bytes between two lines that say how far it is


class Manner(NamedTuple):
    """How it is read: the digest alone, or every number too; leaving no pages in memory; aloud."""

    digest_only: bool = False
    idle: bool = False
    progress: bool = False


class Counter:
    """Counts the bytes of all files of a checkpoint, and says so on stdout where that is wanted."""

    def __init__(self, *, aloud: bool) -> None:
        self._aloud = aloud
        self._done = 0

    def add(self, count: int) -> None:
        """So many more are read."""
        before, self._done = self._done, self._done + count
        if self._aloud and before // _TELL != self._done // _TELL:
            sys.stdout.write(f"{self._done}\n")
            sys.stdout.flush()


class Stream:
    """Reads an open file; whatever it reads goes into ``digest``. ``path`` is for messages."""

    def __init__(self, file: io.FileIO, path: str, counter: Counter, *, idle: bool) -> None:
        # Clean pages are dropped, so that what is read is what the disk holds.
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        self.path = path
        self.size = os.fstat(file.fileno()).st_size
        self.at = 0
        self.descriptor = file.fileno()
        self._file = file
        self._counter = counter
        self._idle = idle
        self._hash = sha256()
        self._buffer = memoryview(bytearray(min(PIECE, self.size)))

    def pieces(self, count: int) -> Iterator[memoryview]:
        """The next ``count`` bytes, at most PIECE at a time; a piece holds until the next one.

        Raises CheckpointFormatError where the file is shorter, OSError.
        """
        end = self.at + count
        if count and not self.at:
            self._file.seek(0)  # others may have read through the same descriptor
        while self.at < end:
            piece = self._buffer[: min(PIECE, end - self.at)]
            filled = 0
            while filled < len(piece):
                read = self._file.readinto(piece[filled:])
                if not read:
                    self._refuse(end, "less, it shrank")
                filled += read
            self._hash.update(piece)
            self.at += filled
            self._counter.add(filled)
            if self._idle:
                os.posix_fadvise(self.descriptor, 0, self.at, os.POSIX_FADV_DONTNEED)
            yield piece

    def skip_to(self, offset: int) -> None:
        """Read up to a byte. Raises as ``pieces``."""
        for _ in self.pieces(max(0, offset - self.at)):
            pass

    def finish(self) -> str:
        """Read the rest; the SHA-256 of the whole file. Raises as ``pieces``."""
        self.skip_to(self.size)
        if self._file.read(1):
            self._refuse(self.size, "more, it grew")
        return self._hash.hexdigest()

    def _refuse(self, expected: int, found: str) -> None:
        raise CheckpointFormatError(self.path, "size", f"{expected} bytes", found)
