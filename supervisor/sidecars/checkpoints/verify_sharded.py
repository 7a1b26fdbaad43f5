"""Reads a ``.sharded`` folder back: its index, then each file that the index names.

Files are opened under the descriptor of their folder and no link is followed, so nothing outside
of the folder and the named roots is ever read.
"""

from __future__ import annotations

import errno
import io
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, NamedTuple

from supervisor.sidecars.checkpoints.torch_file import Tensor
from supervisor.sidecars.checkpoints.verify_companion import Expected, check_digest, read_beside
from supervisor.sidecars.checkpoints.verify_payload import choose, facts, model_of
from supervisor.sidecars.checkpoints.verify_pt import conclude
from supervisor.sidecars.checkpoints.verify_stream import Counter, Manner, Stream
from supervisor.sidecars.checkpoints.verify_torch import Examined, examine
from trainer.contract.checkpoint_format import (
    CheckpointFormatError,
)
from trainer.contract.checkpoint_format.shard_index import (
    INDEX_NAME,
    META_NAME,
    ShardFile,
    ShardIndex,
    read_shard_index,
)

_MOST_INDEX: Final = 1 << 28  # bytes


class _Place(NamedTuple):
    """A folder that files lie in, open."""

    path: Path
    descriptor: int


def check(path: Path, found: dict[str, Any], expected: Expected, manner: Manner) -> None:
    """Fill in what was ``found``. Raises CheckpointFormatError with the first fault, OSError."""
    counter = Counter(aloud=manner.progress)
    with ExitStack() as stack:
        here = stack.enter_context(_folder(path))
        data = _index_bytes(here)
        counter.add(len(data))
        found["sha256"] = sha256(data).hexdigest()
        check_digest(path / INDEX_NAME, found["sha256"], expected)
        index = read_shard_index(data, str(path / INDEX_NAME))
        found["bytes"] = len(data) + index.bytes
        places: dict[str | None, _Place] = {None: here}
        for name in sorted({shard.root for shard in index.shards if shard.root is not None}):
            places[name] = stack.enter_context(_root(path, name, dict(expected.roots)))
        _check_names(path, index, places)
        files = [
            _check_file(places[file.root], file, index, manner, counter)
            for file in (index.meta, *index.shards)
        ]
    if manner.digest_only:
        read_beside(path, found, expected)
        return
    _conclude(path, found, expected, index, [one for one in files if one is not None])


def _index_bytes(here: _Place) -> bytes:
    with _opened(here, INDEX_NAME) as file:
        size = os.fstat(file.fileno()).st_size
        if size > _MOST_INDEX:
            raise CheckpointFormatError(
                str(here.path / INDEX_NAME), "size", f"at most {_MOST_INDEX} bytes", size
            )
        return file.read(size + 1) or b""


def _check_names(path: Path, index: ShardIndex, places: Mapping[str | None, _Place]) -> None:
    """Refuse a folder that lacks a file of its index, or holds one that the index does not name.

    Where a root has none of its files, its disk is away, more likely than not: that is no fault.
    """
    files = (index.meta, *index.shards)
    there = {
        root: frozenset(os.listdir(place.descriptor))  # noqa: PTH208 - of a descriptor
        for root, place in places.items()
    }
    for root, place in places.items():
        if root is not None and there[root].isdisjoint(f.name for f in files if f.root == root):
            raise _away(root, place.path, "no shard of it is there")
    missing = sorted(f.name for f in files if f.name not in there[f.root])
    if missing:
        raise CheckpointFormatError(str(path), "files", "all of its index", f"no {_told(missing)}")
    known = {file.name for file in files if file.root is None} | {INDEX_NAME}
    extra = sorted(there[None] - known)
    if extra:
        raise CheckpointFormatError(
            str(path), "files", "those of its index", f"{_told(extra)} beside them"
        )


def _check_file(
    place: _Place, file: ShardFile, index: ShardIndex, manner: Manner, counter: Counter
) -> Examined | None:
    """Read one file and hold it against the index; None where only the digest was asked for."""
    path = str(place.path / file.name)
    with _opened(place, file.name) as opened:
        stream = Stream(opened, path, counter, idle=manner.idle)
        if stream.size != file.bytes:
            as_large = [one for one in (index.meta, *index.shards) if one.bytes == stream.size]
            digest = stream.finish() if as_large else ""
            swapped = [f"what belongs into {one.name}" for one in as_large if one.sha256 == digest]
            found = swapped[0] if swapped else f"{stream.size} bytes"
            raise CheckpointFormatError(path, "size", f"{file.bytes} bytes as in the index", found)
        examined = None if manner.digest_only else examine(stream, lambda tree: choose(tree, path))
        digest = examined.sha256 if examined is not None else stream.finish()
    if digest != file.sha256:
        others = {one.sha256: one.name for one in (index.meta, *index.shards)}
        told = f"what belongs into {others[digest]}" if digest in others else digest
        raise CheckpointFormatError(path, "sha256", f"{file.sha256} as in the index", told)
    if examined is not None and examined.problem is not None:
        raise examined.problem
    return examined


def _conclude(
    path: Path,
    found: dict[str, Any],
    expected: Expected,
    index: ShardIndex,
    files: list[Examined],
) -> None:
    """Put the trees together, as they have to fit."""
    meta, *shards = files
    said = facts(meta.tree, meta.newest, str(path / META_NAME))
    if said.schema != index.payload or said.step != index.step:
        expected_text = f"{index.payload} of step {index.step} as in the index"
        raise CheckpointFormatError(
            str(path / META_NAME), "schema", expected_text, f"{said.schema} of step {said.step}"
        )
    model: dict[str, Tensor] = {}
    for file, examined in zip(index.shards, shards, strict=True):
        part = model_of(examined.tree, file.name)
        listed = list(examined.tree["model"])
        if listed != list(file.keys):
            raise CheckpointFormatError(
                str(path / file.name), "keys", "those of the index", f"{len(listed)} others"
            )
        model |= part
    names = meta.tree["model"]
    keys = [key for shard in index.shards for key in shard.keys]
    if not isinstance(names, list) or len(names) != len(keys) or set(map(str, names)) != set(keys):
        raise CheckpointFormatError(
            str(path / META_NAME), "model", "the names of all shards", "others"
        )
    conclude(path, found, expected, said, model, files)


def _told(names: list[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""  # noqa: PLR2004 - a line's room
    return ", ".join(names[:3]) + more


@contextmanager
def _root(path: Path, name: str, roots: Mapping[str, str]) -> Iterator[_Place]:
    if name not in roots:
        known = ", ".join(sorted(roots)) or "none"
        raise CheckpointFormatError(
            str(path), f"the root {name} of a shard", f"one of shard_roots ({known})", "none"
        )
    with ExitStack() as stack:
        try:
            place = stack.enter_context(_folder(Path(roots[name])))
        except OSError as error:
            raise _away(name, Path(roots[name]), str(error.strerror)) from None
        yield place


def _away(name: str, path: Path, why: str) -> OSError:
    """An error that says nothing against the checkpoint."""
    return OSError(errno.ENODEV, f"{why}; mount the root {name} of its shards", str(path))


@contextmanager
def _folder(path: Path) -> Iterator[_Place]:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield _Place(path, descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _opened(place: _Place, name: str) -> Iterator[io.FileIO]:
    """A regular file of a folder. Raises CheckpointFormatError, OSError."""
    path = str(place.path / name)
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        descriptor = os.open(name, flags, dir_fd=place.descriptor)
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise CheckpointFormatError(path, "kind", "a regular file", "another")
    with io.FileIO(descriptor) as file:
        yield file
