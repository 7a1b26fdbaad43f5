"""Small file systems that really fill: a tmpfs, or an ext4 on a loop device; always unmounted."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

BLOCK = 4096
MIB = 1 << 20


class Volume:
    """A mounted file system at ``path``; ``fill`` takes all its room, ``free`` gives it back."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._filling = path / "filling"

    def fill(self, leave: int = 0) -> None:
        """Take all room but ``leave`` bytes, even where others take some meanwhile."""
        with self._filling.open("ab") as file:
            piece = MIB
            while piece >= BLOCK:
                room = self.room() - leave
                try:
                    os.posix_fallocate(file.fileno(), file.tell(), min(piece, max(room, 1)))
                except OSError:
                    piece //= 2
                file.seek(0, os.SEEK_END)
                if room <= 0:
                    return

    def fill_inodes(self) -> None:
        """Take every inode."""
        self._filling.mkdir()
        for number in range(1 << 20):
            try:
                (self._filling / str(number)).touch()
            except OSError:
                return

    def free(self) -> None:
        """Give back what ``fill`` or ``fill_inodes`` took."""
        if self._filling.is_dir():
            for file in self._filling.iterdir():
                file.unlink()
            self._filling.rmdir()
        self._filling.unlink(missing_ok=True)

    def room(self) -> int:
        """Free bytes."""
        facts = os.statvfs(self.path)
        return facts.f_bfree * facts.f_frsize


def _do(*command: str | Path) -> str:
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )
    if done.returncode:
        raise OSError(f"{' '.join(map(str, command))}: {done.stderr.strip()}")
    return done.stdout.strip()


def _or_skip(what: str, *command: str | Path) -> None:
    try:
        _do(*command)
    except OSError as error:
        pytest.skip(f"needs {what}: {error}")


@contextmanager
def tmpfs(path: Path, size: int, inodes: int = 0) -> Iterator[Volume]:
    """A tmpfs of ``size`` bytes at ``path``, unmounted afterwards; skips where that may not be."""
    path.mkdir()
    options = f"size={size},mode=755" + (f",nr_inodes={inodes}" if inodes else "")
    _or_skip("root, to mount a tmpfs", "mount", "-t", "tmpfs", "-o", options, "tmpfs", path)
    try:
        yield Volume(path)
    finally:
        _unmount(path)


@contextmanager
def ext4(path: Path, image: Path, size: int, *features: str) -> Iterator[Volume]:
    """An ext4 made in the file ``image``, at ``path``; skips where that may not be."""
    path.mkdir()
    with image.open("wb") as file:
        file.truncate(size)
    options = ("-q", "-F", "-b", str(BLOCK), "-m", "0", "-E", "nodiscard,lazy_itable_init=0")
    _or_skip("mkfs.ext4", "mkfs.ext4", *options, *features, image)
    with ExitStack() as undo:
        try:
            device = _do("losetup", "--show", "-f", image)
        except OSError as error:
            pytest.skip(f"needs root and a loop device: {error}")
        undo.callback(_do, "losetup", "-d", device)
        _or_skip("root, to mount an ext4", "mount", "-o", "errors=remount-ro", device, path)
        undo.callback(_unmount, path)
        yield Volume(path)


@contextmanager
def read_only(path: Path) -> Iterator[None]:
    """Nothing can be made or opened for writing below ``path``; what is open stays writable."""
    _or_skip("root, to mount", "mount", "--bind", path, path)
    try:
        _do("mount", "-o", "remount,bind,ro", path)
        yield
    finally:
        _unmount(path)


def _unmount(path: Path) -> None:
    try:
        _do("umount", path)
    except OSError:  # a process that a failed test left: out of the way at once, gone with it
        _do("umount", "--lazy", path)
