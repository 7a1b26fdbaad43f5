"""The shards of a checkpoint that lie in ``shard_roots``: which they are, and how they go with it.

Only an index says what belongs to a checkpoint, and only a temporary folder what belongs to a
write that died: a root may hold files of others.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from supervisor.sidecars.checkpoints.presence import index_of
from trainer.contract import durable
from trainer.contract.checkpoint_format import (
    name_of,
)
from trainer.contract.checkpoint_format.shard_index import (
    ShardFile,
)

Roots = Mapping[str, Path]
# Of a temporary folder: the checkpoint's name, and what is unique in it and in its shards' names.
_WRITING: Final = re.compile(r"\.(step_\d+\.sharded)\.([0-9a-f]{12})\.tmp")


def stem_in_roots(name: str) -> str:
    """What the names of the shards begin with that a write in the folder ``name`` puts in roots.

    Empty where that is no folder of a write under way, or of one that died.
    """
    found = _WRITING.fullmatch(name)
    return f"{found[1]}.{found[2]}." if found else ""


def outside(folder: Path) -> tuple[ShardFile, ...]:
    """What the index of a checkpoint's folder says lies in a root; nothing without a good one."""
    index = index_of(folder)
    if index is None:
        return ()
    # A folder that was copied to another step speaks of files that are not its own.
    own = f"{name_of(index.step, 'sharded')}."
    ours = own in f"{folder.name}."
    return tuple(one for one in index.shards if one.root and one.name.startswith(own) and ours)


def find(folder: Path, roots: Roots) -> list[Path]:
    """The same as paths. Raises OSError where a root is not known or not there now."""
    found = []
    for shard in outside(folder):
        place = roots.get(shard.root or "")
        if place is None or not place.is_dir():
            what = f"{shard.name} lies in the root {shard.root}"
            why = "shard_roots does not name it" if place is None else f"{place} is not there"
            raise OSError(errno.ENOENT, f"{what}, and {why}", str(folder))
        found.append(place / shard.name)
    return found


def remove(folder: Path, shards: list[Path]) -> None:
    """Remove a folder whose name nobody takes for anything, its shards first. Raises OSError."""
    for path in shards:
        path.unlink(missing_ok=True)
    durable.clear_away(folder)


def remove_unfinished(folder: Path, roots: Roots) -> None:
    """Remove from the roots what writers that died left there, by their folders in ``folder``.

    The caller knows that no writer is alive; the folders themselves stay. Raises OSError.
    """
    if not roots or not folder.is_dir():
        return
    names = os.listdir(folder)  # noqa: PTH208 - names only, beside thousands of seals
    begun = tuple(stem for name in names if (stem := stem_in_roots(name)))
    for place in roots.values() if begun else ():
        for name in os.listdir(place) if place.is_dir() else ():  # noqa: PTH208 - names only
            if name.removeprefix(".").startswith(begun):
                (place / name).unlink(missing_ok=True)
