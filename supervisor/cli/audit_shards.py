"""Whether the files of a checkpoint that is a folder are those that its index speaks of."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Final

from trainer.contract.checkpoint_format import (
    CheckpointFormatError,
)
from trainer.contract.checkpoint_format.shard_index import (
    INDEX_NAME,
    ShardFile,
    read_shard_index,
)

_BLOCK: Final = 1 << 20


def ahead(tell: Callable[[int], None], before: int, count: int) -> None:
    """So many bytes are read, ``before`` of them of other files."""
    tell(before + count)


def shard_faults(
    folder: Path, roots: Mapping[str, Path], tell: Callable[[int], None]
) -> Iterator[tuple[Path, str]]:
    """Each file that is missing, extra, or another one; ``tell`` receives the bytes read so far.

    Nothing comes of a folder that was deleted meanwhile. Raises OSError.
    """
    path = folder / INDEX_NAME
    try:
        index = read_shard_index(path.read_bytes(), str(path))
    except FileNotFoundError:
        return
    except CheckpointFormatError as error:
        yield path, str(error)
        return
    done = 0
    for file in (index.meta, *index.shards):
        if what := _fault(folder, file, roots, partial(ahead, tell, done)):
            yield folder / file.name, what
        done += file.bytes
    known = {file.name for file in (index.meta, *index.shards)} | {INDEX_NAME}
    with contextlib.suppress(FileNotFoundError):
        for name in sorted(set(os.listdir(folder)) - known):  # noqa: PTH208 - names only
            yield folder / name, "the index does not know of it"


def _fault(
    folder: Path, file: ShardFile, roots: Mapping[str, Path], tell: Callable[[int], None]
) -> str:
    place = folder if file.root is None else roots.get(file.root)
    if place is None:
        return f"it is in the root {file.root}, which shard_roots does not name"
    seen, size = sha256(), 0
    try:
        with (place / file.name).open("rb", buffering=0) as opened:
            while block := opened.read(_BLOCK):
                seen.update(block)
                size += len(block)
                tell(size)
    except FileNotFoundError:
        return "it is missing" if folder.is_dir() else ""
    if size != file.bytes:
        return f"it holds {size} bytes, the index says {file.bytes}"
    if seen.hexdigest() != file.sha256:
        return f"its digest is {seen.hexdigest()[:32]}, the index says {file.sha256[:32]}"
    return ""
