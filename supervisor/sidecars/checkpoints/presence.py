"""What stands under a checkpoint's name: a file or folder, as its format asks, and its bytes."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from supervisor.sidecars.checkpoints import seals
from trainer.contract.checkpoint_format import (
    CheckpointFormatError,
    companion_of,
    form_of,
    n_params_of,
    read_companion,
    seal_of,
    step_of,
)

if TYPE_CHECKING:
    from trainer.contract.checkpoint_format.shard_index import ShardIndex

FOLDERS: Final = ("sharded",)  # formats of which a checkpoint is a folder
INDEX: Final = "index.json"  # in such a folder, with the digests of all else
_MOST_INDEX: Final = 1 << 26  # bytes: a hundred thousand names and more
_DEEPEST: Final = 8  # folders in each other: a checkpoint has none in its own


def kind_of(form: str) -> str:
    """What a checkpoint of that format is, in words."""
    return "a folder" if form in FOLDERS else "a regular file"


def measure(path: Path, form: str = "") -> int | None:
    """Bytes of the checkpoint at ``path``; None where nothing, or something of another kind, is.

    A folder has the bytes of all files in it, and of shards that its index says lie in a root;
    links count for nothing. ``form`` is given where the name does not tell it.
    """
    try:
        facts = path.lstat()
        if (form or form_of(path.name)) in FOLDERS:
            return _inside(path) + _in_roots(path) if stat.S_ISDIR(facts.st_mode) else None
    except OSError:
        return None
    return facts.st_size if stat.S_ISREG(facts.st_mode) else None


def _inside(folder: Path, depth: int = 0) -> int:
    """Bytes of the files in a folder. Raises OSError, also for folders in folders on and on."""
    if depth > _DEEPEST:
        raise OSError(errno.ELOOP, "folders in folders on and on", str(folder))
    total = 0
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                total += _inside(Path(entry.path), depth + 1)
            elif entry.is_file(follow_symlinks=False):
                total += entry.stat(follow_symlinks=False).st_size
    return total


def _in_roots(folder: Path) -> int:
    """Bytes of the shards that lie elsewhere, as the index has them; 0 without a good index."""
    index = index_of(folder)
    shards = index.shards if index is not None else ()
    return sum(shard.bytes for shard in shards if shard.root is not None)


def index_of(folder: Path) -> ShardIndex | None:
    """The index of a checkpoint's folder, or None where it has no good one of its own.

    Never waits, and follows no link: a trainer may have put anything there.
    """
    from trainer.contract.checkpoint_format.shard_index import (  # noqa: PLC0415 - of folders alone
        read_shard_index,
    )

    path = folder / INDEX
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    with open(descriptor, "rb", buffering=0) as file:  # noqa: PTH123 - of a descriptor
        try:
            facts = os.fstat(descriptor)
            if not stat.S_ISREG(facts.st_mode) or facts.st_size > _MOST_INDEX:
                return None
            return read_shard_index(file.read(_MOST_INDEX) or b"", str(path))
        except (OSError, CheckpointFormatError):
            return None


def names_by_step(names: Iterable[str]) -> dict[int, list[str]]:
    """The names of checkpoints among ``names`` by step: several where formats differ."""
    found: dict[int, list[str]] = {}
    for name in names:
        if (step := step_of(name)) is not None:
            found.setdefault(step, []).append(name)
    return found


def sealed_path(folder: Path, step: int) -> Path | None:
    """Where the checkpoint that the seal of ``step`` speaks of is; None without such a seal.

    It need not be there. Raises OSError.
    """
    try:
        return folder / seals.read(folder / seal_of(step)).bin.name
    except (FileNotFoundError, seals.SealError):
        return None


def parameters(folder: Path, seal: seals.SealRecord) -> int:
    """How many parameters a sealed checkpoint has; 0 where only a lost companion could tell."""
    if form_of(seal.bin.name) == "bin":
        return n_params_of(seal.bin.bytes)
    beside = folder / companion_of(seal.step)
    try:
        return read_companion(beside.read_bytes(), str(beside)).n_params
    except (OSError, CheckpointFormatError):
        return 0
