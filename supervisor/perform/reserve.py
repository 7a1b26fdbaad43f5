"""``reserve``: ballast in the run directory, given back first when the disk is full.

The ledger's lines, orders, intent and a stop's records then have room.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

NAME = "reserve"
SHARE = 50  # of a file system, at most one part in so many
_ZEROS = bytes(1 << 16)
_UNSUPPORTED = (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS)


class Reserve:
    """The ballast of one run; ``most`` is its size in bytes on a large disk.

    Its state is the file itself, so any thread may give it back.
    """

    def __init__(self, run: Path, most: int) -> None:
        self._run = run
        self._path = run / NAME
        self._most = most

    @property
    def wanted(self) -> int:
        """Its full size on this file system, in bytes. Raises OSError."""
        facts = os.statvfs(self._run)
        return min(self._most, facts.f_blocks * facts.f_frsize // SHARE)

    @property
    def held(self) -> int:
        """Bytes that it keeps from others now."""
        try:
            facts = self._path.stat()
        except OSError:
            return 0
        return min(facts.st_size, facts.st_blocks * 512)

    def give_back(self) -> bool:
        """Let others have the room; whether there was any. Raises OSError."""
        try:
            self._path.unlink()
        except FileNotFoundError:
            return False
        return True

    def grow(self, most: int) -> bool:
        """Take up to ``most`` bytes more, as real blocks; whether it is whole.

        Raises OSError where there is no room, and keeps none then.
        """
        wanted, held = self.wanted, self.held
        if held >= wanted:
            return True
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
        descriptor = os.open(self._path, flags, 0o640)
        try:
            _allocate(descriptor, held, min(most, wanted - held))
        except OSError:
            self._path.unlink(missing_ok=True)
            raise
        finally:
            os.close(descriptor)
        return self.held >= wanted


def _allocate(descriptor: int, start: int, count: int) -> None:
    try:
        os.posix_fallocate(descriptor, start, count)
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise
        for at in range(start, start + count, len(_ZEROS)):
            os.pwrite(descriptor, _ZEROS[: start + count - at], at)
