"""Build a run directory apart and put it in its place whole; copy large files into it verified.

Whoever dies on the way leaves a folder with a dot before its name, which the next try clears. The
run's own lock in it tells a try that lives from what is left of a dead one.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

from supervisor import clock
from supervisor.core.messages import Verdict
from supervisor.errors import StepkeeperError, UsageError
from supervisor.process import signals
from supervisor.process.locks import take
from supervisor.sidecars.checkpoints import SealRecord, write_seal
from supervisor.sidecars.checkpoints.presence import FOLDERS
from supervisor.sidecars.checkpoints.shards_elsewhere import outside
from supervisor.sidecars.checkpoints.verifying import read_back
from supervisor.sidecars.events import Events
from trainer.contract.checkpoint_format import form_of
from trainer.contract.durable import finish, publish, sync_folder, temporary_for

LOCK_SECONDS = 0.2
NO_LINE = "0" * 32  # the chain of a ledger without a line
_FICLONE = 0x40049409
_BLOCK = 1 << 24


def refuse_if_there(target: Path) -> None:
    """Raise UsageError unless ``target`` is free: not there, or an empty directory."""
    if target.is_dir() and not any(target.iterdir()):
        return
    if os.path.lexists(target):
        raise UsageError(f"cannot make a run in {target}: it is there already; give another name")


@contextlib.contextmanager
def building(target: Path) -> Iterator[Path]:
    """A folder to fill, which becomes ``target`` when nothing was raised.

    Raises UsageError where ``target`` is taken, LockHeldError while another one builds it, OSError.
    """
    refuse_if_there(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    place = target.with_name(f".{target.name}.making")
    lock = -1
    try:
        with _uninterrupted():
            place.mkdir(mode=0o750, exist_ok=True)
            lock = take(place / "run.lock", LOCK_SECONDS)
        for left in place.iterdir():
            if left.name != "run.lock":
                shutil.rmtree(left) if left.is_dir() else left.unlink()
        yield place
        _sync_folders(place)
        publish(place, target)
    except BaseException:
        if lock >= 0:
            shutil.rmtree(place, ignore_errors=True)
        raise
    finally:
        if lock >= 0:
            os.close(lock)


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ctrl-C waits, so that a folder never stands there without anybody to remove it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals.HANDLED)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _sync_folders(place: Path) -> None:
    for folder in sorted(path for path in place.rglob("*") if path.is_dir()):
        sync_folder(folder)
    sync_folder(place)


def folder(place: Path, name: str) -> Path:
    """A new folder in ``place``. Raises OSError."""
    path = place / name
    path.mkdir(mode=0o750, exist_ok=True)
    return path


def copy(
    source: Path,
    target: Path,
    length: int | None = None,
    tell: Callable[[int], None] = lambda _: None,
) -> None:
    """Copy a file durably: sharing its blocks where the file system can, never its inode.

    Or its first ``length`` bytes, which must be there. ``tell`` hears of the bytes copied.
    Raises OSError.
    """
    temporary = temporary_for(target)
    with source.open("rb", buffering=0) as old:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        new = os.open(temporary, flags, 0o640)
        try:
            if length is not None or not _shared(old.fileno(), new):
                _fill(old.fileno(), new, length, tell)
            finish(new, temporary, target)
        finally:
            os.close(new)


def _shared(old: int, new: int) -> bool:
    """Whether the new file has the old one's blocks now."""
    try:
        fcntl.ioctl(new, _FICLONE, old)
    except OSError:  # another file system, or one that shares nothing
        return False
    return True


def _fill(old: int, new: int, length: int | None, tell: Callable[[int], None]) -> None:
    at = 0
    while length is None or at < length:
        done = os.sendfile(new, old, at, _BLOCK if length is None else min(_BLOCK, length - at))
        if not done:
            break
        at += done
        tell(at)
    if length is not None and at < length:
        raise OSError(errno.ENODATA, f"it ends before byte {length}")


def copy_folder(source: Path, target: Path) -> None:
    """Copy a folder durably, each file as ``copy`` does; it appears whole. Raises OSError.

    Links are left out: they are no part of what they stand in.
    """
    temporary = temporary_for(target)
    temporary.mkdir(mode=0o750)
    for path in sorted(source.iterdir()):
        if not path.is_symlink():
            put = copy_folder if path.is_dir() else copy
            put(path, temporary / path.name)
    sync_folder(temporary)
    publish(temporary, target)


def copied(source: Path, folder: Path, sha256: str, *, companion: bool) -> Verdict:
    """Copy a checkpoint and read the copy back: it must have this digest and be good.

    Raises StepkeeperError where it is not, OSError.
    """
    if apart := outside(source):
        raise StepkeeperError(
            f"cannot copy {source}: {apart[0].name} lies in the root {apart[0].root} of "
            "shard_roots, which is its run's alone; take a checkpoint that is whole in its folder"
        )
    put = copy_folder if form_of(source.name) in FOLDERS else copy
    put(source, folder / source.name)
    verdict = read_back(folder, source.name, sha256, companion=companion)
    if verdict.problem:
        raise StepkeeperError(f"cannot use the copy of {source}: {verdict.problem}")
    return verdict


def name_run(events: Events, origin: str) -> str:
    """Give the new run its identity and its origin in its journal; returns the identity."""
    run = secrets.token_hex(8)
    events.append("run-created", {"run": run, "origin": origin}, clock.wall())
    return run


def seal(place: Path, events: Events, record: SealRecord) -> None:
    """Make the seal durable, and tell of it in the journal. Raises StepkeeperError, OSError."""
    digest = write_seal(place / "checkpoints", record)
    facts = {
        "attempt": record.attempt,
        "step": record.step,
        "sha256": record.bin.sha256,
        "seal": digest,
        "reason": record.reason,
        "head": f"{record.ledger.entries}:{record.ledger.chain}:{digest[:32]}",
    }
    events.append("sealed", facts, clock.wall())
