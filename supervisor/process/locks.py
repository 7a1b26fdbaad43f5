"""Take and probe the kernel locks (flock on descriptors) that prove supervisor and trainer alive.

A lock belongs to the open file, not to a process: every process that inherited the descriptor
holds it, and the last of them to end or close it lets it go. So nothing here ever unlocks; a lock
is let go by closing the descriptor.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from supervisor import clock
from supervisor.errors import LockHeldError, RefusedError
from supervisor.process.descriptors import keep

_BETWEEN = 0.02
TRY_SECONDS = 2.0  # what a taker outlives: a dying holder, a reader that looks


def take(
    path: Path, seconds: float = TRY_SECONDS, wait: Callable[[float], None] = clock.pause
) -> int:
    """Take the lock at ``path`` (0600, created if absent) and return its descriptor.

    Tries for ``seconds``, calling ``wait`` between tries, so that a dying holder or a reader's
    probe is outlived. The descriptor is not inheritable; closing the last copy of it releases the
    lock. Raises LockHeldError, which names the holders, or RefusedError for a file that cannot be
    a lock.
    """
    # Imported here: filelock costs 30 ms that a command which only reads should not pay.
    from filelock import lock_descriptor  # noqa: PLC0415 - import time, see above

    deadline = clock.monotonic() + seconds
    while True:
        descriptor = _open(path)
        try:
            if lock_descriptor(descriptor, blocking=False) and _is_still(path, descriptor):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
        if clock.monotonic() >= deadline:
            raise LockHeldError(_refusal(path))
        wait(_BETWEEN)


def take_over(path: Path, descriptor: int) -> bool:
    """Whether an inherited descriptor is the lock at ``path``; then it is held, and not inherited.

    A description that holds the lock is given it again, so the answer is proof and not a guess.
    A descriptor that is something else is left as it is.
    """
    try:
        if not _is_still(path, descriptor):
            return False
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        keep(descriptor)
    except OSError:  # not open, or somebody else's
        return False
    return True


def held(path: Path) -> bool:
    """Whether anyone holds the lock at ``path``; False where the file is absent.

    The question is put to the kernel as a shared lock that is let go at once: only that sees
    holders in other containers, and copies whose first owner has died (/proc/locks shows neither
    of them inside a container). Probes do not see one another, and a taker that meets one
    tries again. Raises OSError where the file cannot be read.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def holders(path: Path) -> list[int]:
    """The pids of every visible process that holds the lock at ``path``, by its descriptors.

    Takes a walk over /proc, so it is for error messages, not for polling.
    """
    try:
        wanted = path.stat()
    except OSError:
        return []
    with os.scandir("/proc") as entries:
        processes = [entry for entry in entries if entry.name.isdigit()]
    return sorted(
        int(process.name)
        for process in processes
        if any(os.path.samestat(facts, wanted) for _, facts in _locked(process.path))
    )


def holds(pid: int, name: str) -> bool:
    """Whether a process holds the lock on some file of that name."""
    return any(os.path.basename(path) == name for path, _ in _locked(f"/proc/{pid}"))  # noqa: PTH119 - text


def _locked(process: str) -> Iterator[tuple[str, os.stat_result]]:
    """Path and facts of every file that a process holds locked."""
    try:
        descriptors = os.listdir(f"{process}/fd")  # noqa: PTH208 - names only
    except OSError:
        return
    for number in descriptors:
        link = f"{process}/fd/{number}"
        with contextlib.suppress(OSError):
            # Having the file open is not enough: the description must carry the lock.
            if b"FLOCK  ADVISORY  WRITE" in Path(f"{process}/fdinfo/{number}").read_bytes():
                yield os.readlink(link), os.stat(link)  # noqa: PTH115, PTH116 - follows the descriptor


def _open(path: Path) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW
    try:
        return os.open(path, flags, 0o600)
    except OSError as error:
        hint = "" if error.errno == errno.EROFS else "; it must be a file of this run's owner"
        raise RefusedError(f"cannot lock {path}: {error.strerror}{hint}") from None


def _is_still(path: Path, descriptor: int) -> bool:
    """Whether the locked file is the one under the name now; a removed one protects nothing."""
    try:
        named = path.lstat()
    except FileNotFoundError:
        return False
    return os.path.samestat(named, os.fstat(descriptor))


def _refusal(path: Path) -> str:
    pids = [pid for pid in holders(path) if pid != os.getpid()]
    if pids:
        who = f"pid {', '.join(map(str, pids))}"
    else:
        who = "a process that cannot be seen from here (another user, container or machine)"
    return f"cannot take {path}: it is held by {who}; stop that first, or wait for it to end"
