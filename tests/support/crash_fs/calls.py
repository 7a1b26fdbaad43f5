"""A file layer that dies at the n-th write or sync, tears that write, fails it, or cuts the power.

It stands between ``os`` and the code under test, in this process; the bytes land in real files.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

_WRITE, _FSYNC = os.write, os.fsync


class Killed(BaseException):  # no handler for errors may stop it
    """The process would be gone now."""


@dataclass
class CrashFs:
    """What happened at write and sync calls, and what shall happen at call ``at`` (from 1).

    A write leaves ``keep`` bytes behind first. With ``error`` the call raises OSError with that
    number, ``times`` times, and the process lives on; else it dies. ``short`` cuts every write to
    so many bytes. ``synced`` holds the size of each file when it was last made durable.
    """

    at: int = 0
    keep: int = 0
    error: int = 0
    times: int = 1
    short: int = 0
    calls: int = 0
    trace: list[str] = field(default_factory=list)
    synced: dict[int, int] = field(default_factory=dict)

    def durable(self, path: Path) -> int:
        """How many bytes of the file would survive a power cut."""
        return self.synced.get(path.stat().st_ino, 0)

    def write(self, descriptor: int, data: bytes) -> int:
        """Stands for os.write."""
        if self._due("write"):
            if self.keep:
                done = _WRITE(descriptor, data[: self.keep])
                if self.error:
                    self.at, self.keep = self.at + 1, 0  # short now, refused next time
                    return done
            self._strike("write")
        return _WRITE(descriptor, data[: self.short] if self.short else data)

    def fsync(self, descriptor: int) -> None:
        """Stands for os.fsync."""
        self._sync("fsync", descriptor)

    def fdatasync(self, descriptor: int) -> None:
        """Stands for os.fdatasync."""
        self._sync("fdatasync", descriptor)

    def _sync(self, name: str, descriptor: int) -> None:
        if self._due(name):
            self._strike(name)
        _FSYNC(descriptor)
        state = os.fstat(descriptor)
        self.synced[state.st_ino] = state.st_size

    def _due(self, name: str) -> bool:
        self.calls += 1
        self.trace.append(name)
        return bool(self.at) and self.at <= self.calls < self.at + self.times

    def _strike(self, name: str) -> None:
        if self.error:
            raise OSError(self.error, os.strerror(self.error))
        raise Killed(name)


@contextmanager
def crash_fs(plan: CrashFs) -> Iterator[CrashFs]:
    """Put the layer in place; the functions are back afterwards, whatever happened."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("write", "fsync", "fdatasync"):
            patch.setattr(os, name, getattr(plan, name))
        yield plan
