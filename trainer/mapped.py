"""Copy the arrays of a file into place from mapped memory, once, and take its digest beside that.

Each window is read in before it is touched, so that a disk that fails is an error here and no
signal that ends the process; the next one is on its way meanwhile. The digest takes longer than
the copies: whoever can go on with something that changes nothing waits for it later.
"""

from __future__ import annotations

import errno
import hashlib
import mmap
import os
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from io import FileIO

import numpy as np
import torch
from torch import Tensor

_WINDOW = 16 << 20
_POPULATE_READ = 22  # of madvise, since Linux 5.14; the standard library has no name for it yet


def fill(file: FileIO, start: int, arrays: Iterable[Tensor]) -> Future[str]:
    """Copy float32 arrays from byte ``start`` on; returns the SHA-256 of the whole file to come.

    ``start`` and the file's size are multiples of 4, and the arrays fit. Raises OSError.
    """
    size = os.fstat(file.fileno()).st_size
    region = mmap.mmap(
        file.fileno(), size, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE
    )
    whole = memoryview(region)
    digest = hashlib.sha256()
    beside = ThreadPoolExecutor(1, "digest")
    windows = _windows(file.fileno(), region, size)
    read = 0
    at = start
    try:
        for tensor in arrays:
            flat = tensor.view(-1)
            while flat.numel():
                if at >= read:
                    window = next(windows)
                    read = window.stop
                    beside.submit(digest.update, whole[window])
                count = min(flat.numel(), (read - at) // 4)
                _copy(whole[at : at + 4 * count], flat[:count])
                flat = flat[count:]
                at += 4 * count
        for window in windows:
            beside.submit(digest.update, whole[window])
        return beside.submit(digest.hexdigest)
    finally:
        beside.shutdown(wait=False)


def _windows(descriptor: int, region: mmap.mmap, size: int) -> Iterator[slice]:
    """Read one window after another into memory; yields each when it is there."""
    for begin in range(0, size, _WINDOW):
        length = min(_WINDOW, size - begin)
        os.posix_fadvise(descriptor, begin + length, _WINDOW, os.POSIX_FADV_WILLNEED)
        try:
            region.madvise(_POPULATE_READ, begin, length)
        except OSError as error:
            if error.errno == errno.EFAULT:  # so it says that the disk failed
                raise OSError(errno.EIO, os.strerror(errno.EIO)) from None
            if error.errno != errno.EINVAL:
                raise
        yield slice(begin, begin + length)


def _copy(source: memoryview, target: Tensor) -> None:
    if target.device.type == "cpu":
        # One thread's copy, without the interpreter lock.
        np.copyto(target.numpy(), np.frombuffer(source, np.float32))
    else:
        target.copy_(torch.frombuffer(source, dtype=torch.float32))
