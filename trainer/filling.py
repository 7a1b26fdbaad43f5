"""Read the arrays of a file into place, each byte once, and take its digest beside that.

Reads of many megabytes go straight into the arrays, as fast as a plain read of the file. The digest
takes longer: it is taken of the arrays themselves, piece by piece as they come, and whoever can go
on with something that changes none of them waits for it later.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from io import FileIO

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trainer.contract.checkpoint_format import CheckpointFormatError

_AT_ONCE = 64 << 20
_PIECES = 512  # of one read; the kernel takes 1024


def fill(file: FileIO, head: bytes, arrays: Iterable[Tensor]) -> Future[str]:
    """Read float32 arrays behind ``head``; returns the SHA-256 of it and them, which is to come.

    Until that is there, arrays on the CPU must not change. Raises OSError, or
    CheckpointFormatError where the file is too short.
    """
    digest = hashlib.sha256(head)
    beside = ThreadPoolExecutor(1, "digest")
    at = len(head)
    try:
        for pieces, copies in _batches(arrays):
            at = _read(file, at, pieces)
            taken = [beside.submit(digest.update, piece) for piece in pieces]
            for host, tensor in copies:
                tensor.copy_(host)
            if copies:  # what was read for another device is not piled up
                wait(taken)
        return beside.submit(digest.hexdigest)
    finally:
        beside.shutdown(wait=False)


Copies = list[tuple[Tensor, Tensor]]


def _batches(arrays: Iterable[Tensor]) -> Iterator[tuple[list[memoryview], Copies]]:
    """The memory to read into, about 64 MiB at a time, and what is copied to a device then."""
    pieces: list[memoryview] = []
    copies: Copies = []
    length = 0
    for tensor in arrays:
        host = tensor if tensor.device.type == "cpu" else torch.empty(tensor.shape)
        if host is not tensor:
            copies.append((host, tensor))
        flat: NDArray[np.float32] = host.view(-1).numpy()
        rest = flat.data.cast("B")
        while rest:
            piece = rest[: _AT_ONCE - length]
            pieces.append(piece)
            rest = rest[len(piece) :]
            length += len(piece)
            if length == _AT_ONCE or len(pieces) == _PIECES:
                # A copy goes out with the last piece of its array.
                yield pieces, [] if rest else copies
                pieces, length, copies = [], 0, copies if rest else []
    yield pieces, copies


def _read(file: FileIO, at: int, pieces: list[memoryview]) -> int:
    """Fill ``pieces`` from byte ``at`` on; returns the byte behind them."""
    rest = list(pieces)
    while rest:
        count = os.preadv(file.fileno(), rest, at)
        if not count:
            raise CheckpointFormatError(str(file.name), "size", "as at the start", "shorter")
        at += count
        while rest and count >= len(rest[0]):
            count -= len(rest.pop(0))
        if rest:
            rest[0] = rest[0][count:]
    return at
