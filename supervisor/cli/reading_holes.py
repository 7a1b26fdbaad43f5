"""Pass a log on whose middle may not be kept: around the hole, with a line that says so."""

from __future__ import annotations

import errno
import os
from typing import BinaryIO

_BLOCK = 1 << 16


def pass_on(descriptor: int, start: int, to: BinaryIO) -> int:
    """Copy what is kept from byte ``start`` on; returns where that ends. Raises OSError."""
    at = start
    while True:
        data_at = _next(descriptor, at, os.SEEK_DATA)
        if data_at is None:  # nothing but a hole, or nothing at all
            return at
        if data_at > at:
            to.write(f"\n==> {data_at - at} bytes are not kept <==\n".encode("ascii"))
            at = _after_line(descriptor, data_at)
        end = _next(descriptor, at, os.SEEK_HOLE)
        at = _copy(descriptor, at, end if end is not None else at, to)


def last_whole(descriptor: int) -> int:
    """The first line that is whole behind the last hole of the file; 0 without. Raises OSError."""
    at = 0
    while True:
        data_at = _next(descriptor, at, os.SEEK_DATA)
        if data_at is None:
            return at
        hole_at = _next(descriptor, data_at, os.SEEK_HOLE)
        if hole_at is None or hole_at >= os.fstat(descriptor).st_size:
            return _after_line(descriptor, data_at) if data_at else 0
        at = hole_at


def _next(descriptor: int, at: int, what: int) -> int | None:
    """Where the next data or hole is, or None behind the last one."""
    try:
        return os.lseek(descriptor, at, what)
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        return None


def _after_line(descriptor: int, at: int) -> int:
    """Behind the piece of a line that the hole left."""
    newline = os.pread(descriptor, _BLOCK, at).find(b"\n")
    return at + newline + 1


def _copy(descriptor: int, at: int, end: int, to: BinaryIO) -> int:
    while at < end and (data := os.pread(descriptor, min(_BLOCK, end - at), at)):
        to.write(data)
        at += len(data)
    return at
