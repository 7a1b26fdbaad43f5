"""The only code that renames or syncs: small durable writes and durable removals.

A file appears under its name whole or not at all: temporary name in the same folder, write,
fsync, rename, fsync of the folder. A failed sync is never tried again on the same descriptor,
because the kernel reports success the second time with the data gone; the file is discarded.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
from pathlib import Path

TEMPORARY = ".tmp"
_TAKEN = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR)
_OURS = re.compile(r"\..+\.[0-9a-f]{12}\.tmp")


def temporary_for(path: Path) -> Path:
    """A name beside ``path``, unique per try, that no reader takes for a finished file."""
    return path.with_name(f".{path.name}.{os.urandom(6).hex()}{TEMPORARY}")


def remove_temporaries(folder: Path, but: str = "") -> None:
    """Remove what writers that died left in ``folder``; only names of ours are touched.

    Those with the prefix ``but`` stay, as ``set_aside`` gives one. The caller knows that no writer
    is alive there. Raises OSError.
    """
    # Names only: beside thousands of checkpoints, paths would cost a restart 5 ms more.
    names = os.listdir(folder) if folder.is_dir() else []  # noqa: PTH208 - as said
    for name in names:
        if but and name.startswith(f".{but}"):
            continue
        if name.endswith(TEMPORARY) and _OURS.fullmatch(name):
            try:
                (folder / name).unlink(missing_ok=True)
            except IsADirectoryError:
                clear_away(folder / name)


def remove(path: Path) -> None:
    """Remove a file durably; one that is gone already is no fault. Raises OSError."""
    path.unlink(missing_ok=True)
    sync_folder(path.parent)


def remove_folder(folder: Path) -> None:
    """Take a folder away at once, durably, and then what was in it. Raises OSError."""
    aside = set_aside(folder, folder.parent)
    if aside is not None:
        clear_away(aside)


def set_aside(source: Path, folder: Path, prefix: str = "") -> Path | None:
    """Take a folder's name away, durably and at once, before what it holds is removed.

    Returns its temporary name in ``folder``, which has ``prefix`` behind its dot: for
    ``clear_away`` or, after a crash, for ``remove_temporaries``. None where it was gone already.
    Raises OSError.
    """
    aside = temporary_for(folder / f"{prefix}{source.name}")
    try:
        source.rename(aside)
    except FileNotFoundError:
        return None
    sync_folder(source.parent)
    if folder != source.parent:
        sync_folder(folder)
    return aside


def clear_away(folder: Path) -> None:
    """Remove a folder and all it holds, links themselves; who else does so is no fault.

    Not durable, and not atomic: for a folder whose name nobody takes for anything. Raises OSError.
    """
    with contextlib.suppress(FileNotFoundError):
        with os.scandir(folder) as found:
            entries = [(Path(entry.path), entry.is_dir(follow_symlinks=False)) for entry in found]
        for path, is_folder in entries:
            if is_folder:
                clear_away(path)
            else:
                path.unlink(missing_ok=True)
        folder.rmdir()


def sync_folder(folder: Path) -> None:
    """Make renames and removals in ``folder`` durable. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_all(descriptor: int, data: bytes | memoryview) -> None:
    """Write every byte, going on where a short write stopped. Raises OSError."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def write_file(path: Path, data: bytes, mode: int = 0o640) -> None:
    """Replace ``path`` by ``data``, durably and atomically. Raises OSError, leaving no rest."""
    _write(path, data, mode, durably=True)


def replace_file(path: Path, data: bytes, mode: int = 0o640) -> None:
    """Replace ``path`` by ``data``, atomically for every reader, but not across a power cut.

    For projections, which are written again from what is durable, where a sync would be in the
    way. A file that was not there before is made durable, so that it never comes to be missing.
    Raises OSError, leaving no rest.
    """
    _write(path, data, mode, durably=not path.exists())


def _write(path: Path, data: bytes, mode: int, *, durably: bool) -> None:
    temporary = temporary_for(path)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        try:
            write_all(descriptor, data)
            if durably:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        temporary.rename(path)
        if durably:
            sync_folder(path.parent)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def publish(temporary: Path, path: Path) -> None:
    """Rename a synced temporary file to its name and make that durable. Raises OSError."""
    temporary.rename(path)
    sync_folder(path.parent)


def finish(descriptor: int, temporary: Path, path: Path) -> None:
    """Sync what was written and give it its name. Raises OSError: then discard ``temporary``."""
    os.fsync(descriptor)
    publish(temporary, path)


def sync_file(path: Path) -> None:
    """Make a file's bytes durable. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_tree(folder: Path) -> None:
    """Make all that a folder holds durable, and its names, but not its own. Raises OSError."""
    with os.scandir(folder) as found:
        entries = list(found)
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            sync_tree(Path(entry.path))
        elif entry.is_file(follow_symlinks=False):
            sync_file(Path(entry.path))
    sync_folder(folder)


def move(source: Path, target: Path) -> None:
    """Move a file or a folder durably, never replacing one. Raises FileExistsError or OSError.

    Its bytes are made durable first: a projection was perhaps never synced, and what is put away
    is not written again. A file has both names for a moment; a folder cannot, and is renamed,
    which the system does only where nothing, or an empty folder, has the new name.
    """
    mode = source.lstat().st_mode
    if stat.S_ISDIR(mode):
        sync_tree(source)
        _rename_folder(source, target)
        sync_folder(target.parent)
    else:
        if stat.S_ISREG(mode):  # a pipe would be waited for, and a link leads elsewhere
            sync_file(source)
        os.link(source, target)
        sync_folder(target.parent)
        source.unlink()
    sync_folder(source.parent)


def _rename_folder(source: Path, target: Path) -> None:
    try:
        source.rename(target)
    except OSError as error:
        if error.errno in _TAKEN:
            raise FileExistsError(error.errno, "it is taken", str(target)) from None
        raise


class AppendFile:
    """A file that only grows: what a failed or short write left out goes first the next time.

    ``size`` counts the bytes given to ``append``, written or still owed. After a failed sync the
    file takes nothing more: what the disk holds is known only by opening it again.
    """

    def __init__(self, path: Path, mode: int = 0o640, *, create: bool = False) -> None:
        """Open to append. Raises OSError."""
        flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC
        new = create and not path.exists()
        self.descriptor = os.open(path, flags | (os.O_CREAT if create else 0), mode)
        self.size = os.fstat(self.descriptor).st_size
        self._path = path
        self._owed = b""
        self._lost = False
        if new:
            sync_folder(path.parent)

    def append(self, data: bytes) -> None:
        """Write all that is owed and then ``data``. Raises OSError; the rest is owed."""
        self.refuse_if_lost()
        self.size += len(data)
        self._owed += data
        while self._owed:
            self._owed = self._owed[os.write(self.descriptor, self._owed) :]

    def sync(self) -> None:
        """Make what is written durable. Raises OSError, and again at every later call."""
        self.append(b"")
        self.sync_written()

    def sync_written(self) -> None:
        """``sync`` without writing what is owed: safe beside an ``append`` of another thread."""
        self.refuse_if_lost()
        try:
            os.fdatasync(self.descriptor)
        except OSError:
            self._lost = True
            raise

    def settle(self, start: int) -> None:
        """Sync, then forget what memory holds from byte ``start`` on: reads ask the disk."""
        self.sync()
        # Whole pages only are forgotten: the one in which ``start`` lies is to be among them.
        first = start - start % os.sysconf("SC_PAGESIZE")
        os.posix_fadvise(self.descriptor, first, 0, os.POSIX_FADV_DONTNEED)

    @property
    def owes(self) -> bool:
        """Whether something given to ``append`` is not written."""
        return bool(self._owed)

    @property
    def lost(self) -> bool:
        """Whether a sync has failed."""
        return self._lost

    def refuse_if_lost(self) -> None:
        """Raise OSError if a sync has failed: a second one would succeed with the data gone."""
        if self._lost:
            raise OSError(errno.EIO, "an earlier sync failed; open it again", str(self._path))

    def close(self) -> None:
        """Give the descriptor back; what is owed stays unwritten."""
        os.close(self.descriptor)
