"""Bound ``output.log`` while the trainer appends to it: of a file too large the middle is taken.

The first and the last part stay, and so do all offsets: the trainer notices nothing.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

_KEEP_SIZE, _PUNCH_HOLE = 0x01, 0x02
_BLOCK = 4096


def trim(path: Path, most: int) -> int:
    """Keep about ``most`` bytes at most, a quarter of them from the beginning; bytes freed.

    Raises OSError: EOPNOTSUPP where the file system cannot do that.
    """
    facts = path.stat()
    if facts.st_blocks * 512 <= most:
        return 0
    # Half of it is kept, so that this is not to be done again with each line.
    start = most // 4 // _BLOCK * _BLOCK
    end = (facts.st_size - most // 4) // _BLOCK * _BLOCK
    if end <= start:
        return 0
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        _punch(descriptor, start, end - start)
        return facts.st_blocks * 512 - os.fstat(descriptor).st_blocks * 512
    finally:
        os.close(descriptor)


def _punch(descriptor: int, start: int, count: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    mode = ctypes.c_int(_KEEP_SIZE | _PUNCH_HOLE)
    if libc.fallocate(descriptor, mode, ctypes.c_int64(start), ctypes.c_int64(count)):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
