"""Read a sharded payload back: index, then meta file, then every shard in a thread of its own.

Names come from the index and are plain; files are opened under the descriptor of their folder,
and no link is followed, so nothing outside the folder and its named roots is ever read.
"""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from hashlib import sha256 as hashed
from pathlib import Path
from typing import Any

import torch

from trainer.contract.checkpoint_format import (
    CheckpointFormatError,
)
from trainer.contract.checkpoint_format.shard_index import (
    INDEX_NAME,
    ShardFile,
    ShardIndex,
    ShardPathError,
    read_shard_index,
)
from trainer.full_state.errors import CorruptError, PathError, SchemaError
from trainer.full_state.reading import digest_of, load_checked, opened
from trainer.full_state.schema import Payload, checked
from trainer.full_state.shard_writing import MOST_THREADS, Roots

_MOST_INDEX_BYTES = 1 << 28


def read_sharded(
    folder: Path,
    *,
    map_location: str | torch.device = "cpu",
    shard_roots: Roots | None = None,
    sha256: str | None = None,
) -> Payload:
    """The payload of a folder in the present schema, its tensors on ``map_location``.

    ``sha256`` is what the index must have, where it is known from elsewhere. Raises OSError,
    and CorruptError, PathError, UnsafeError, SchemaError or DeviceError that names the file.
    """
    folder = Path(folder)
    with ExitStack() as stack:
        here = stack.enter_context(_folder(folder))
        index = _index(folder, here, sha256)
        roots: dict[str | None, tuple[Path, int]] = {None: (folder, here)}
        for name in sorted({shard.root for shard in index.shards if shard.root is not None}):
            root = _root(folder, name, shard_roots or {})
            roots[name] = (root, stack.enter_context(_folder(root)))
        _refuse_missing_and_extra(folder, index, roots)
        belongs = {file.sha256: file.name for file in (index.meta, *index.shards)}

        def load(file: ShardFile) -> Any:  # noqa: ANN401 - what the file holds
            parent, descriptor = roots[file.root]
            return _load(parent, descriptor, file, belongs, map_location)

        meta = load(index.meta)
        with ThreadPoolExecutor(min(len(index.shards), MOST_THREADS)) as threads:
            futures = [threads.submit(load, file) for file in index.shards]
            contents = [future.result() for future in futures]
    return checked(_merged(folder, index, meta, contents), str(folder))


@contextmanager
def _folder(folder: Path) -> Iterator[int]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _index(folder: Path, here: int, sha256: str | None) -> ShardIndex:
    path = folder / INDEX_NAME
    try:
        with _opened(folder, here, INDEX_NAME) as descriptor:
            size = os.fstat(descriptor).st_size
            if size > _MOST_INDEX_BYTES:
                raise CorruptError(f"cannot load {path}: {size} bytes are too many for an index")
            data = os.pread(descriptor, size, 0)
        found = hashed(data).hexdigest()
        if sha256 is not None and found != sha256:
            raise CorruptError(f"cannot load {path}: SHA-256: expected {sha256}, found {found}")
        return read_shard_index(data, str(path))
    except ShardPathError as error:
        raise PathError(str(error)) from None
    except CheckpointFormatError as error:
        raise SchemaError(str(error)) from None


def _root(folder: Path, name: str, roots: Roots) -> Path:
    if name not in roots:
        known = ", ".join(sorted(roots)) or "none"
        raise PathError(
            f"cannot load {folder}: a shard lies in the root {name}, which is not among "
            f"shard_roots ({known})"
        )
    return roots[name]


def _refuse_missing_and_extra(
    folder: Path, index: ShardIndex, roots: Mapping[str | None, tuple[Path, int]]
) -> None:
    files = (index.meta, *index.shards)
    there = {
        root: set(os.listdir(descriptor))  # noqa: PTH208 - of a descriptor
        for root, (_, descriptor) in roots.items()
    }
    missing = [str(roots[f.root][0] / f.name) for f in files if f.name not in there[f.root]]
    if missing:
        raise CorruptError(f"cannot load {folder}: missing: {', '.join(missing)}")
    wanted = {file.name for file in files if file.root is None} | {INDEX_NAME}
    if extra := sorted(there[None] - wanted):
        raise CorruptError(
            f"cannot load {folder}: the index does not know of {', '.join(extra)}; move it away "
            "if it does not belong there"
        )


def _load(
    parent: Path,
    folder: int,
    file: ShardFile,
    belongs: Mapping[str, str],
    map_location: str | torch.device,
) -> Any:  # noqa: ANN401 - what the file holds
    path = str(parent / file.name)
    with _opened(parent, folder, file.name) as descriptor:
        size = os.fstat(descriptor).st_size
        fault = f"expected {file.bytes} bytes, found {size}"
        if size == file.bytes:
            try:
                return load_checked(descriptor, path, map_location, file.sha256)[0]
            except CorruptError as error:
                fault = str(error)
        owner = belongs.get(digest_of(descriptor), file.name)
        if owner != file.name:
            raise CorruptError(f"cannot load {path}: it holds what belongs into {owner}")
        raise CorruptError(fault if fault.startswith("cannot") else f"cannot load {path}: {fault}")


@contextmanager
def _opened(parent: Path, folder: int, name: str) -> Iterator[int]:
    path = parent / name
    try:
        with opened(Path(name), folder) as descriptor:
            yield descriptor
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise PathError(f"cannot load {path}: it is a link, and none is followed") from None
        if error.errno == errno.ENOENT:
            raise CorruptError(f"cannot load {parent}: missing: {path}") from None
        raise


def _merged(folder: Path, index: ShardIndex, meta: object, contents: list[Any]) -> Payload:
    """One payload again, keys in the model's order. Raises SchemaError, CorruptError."""
    if not isinstance(meta, dict) or meta.get("schema") != index.payload:
        raise SchemaError(f"cannot load {folder}: meta.pt is not of the schema {index.payload}")
    model: dict[str, Any] = {}
    state: dict[Any, Any] = {}
    for file, content in zip(index.shards, contents, strict=True):
        keys = {"schema", "shard", "model", "optimizer"}
        if not isinstance(content, dict) or set(content) != keys:
            raise SchemaError(f"cannot load {folder}: {file.name} is no shard")
        if list(content["model"]) != list(file.keys):
            raise CorruptError(f"cannot load {folder}: {file.name} has not the keys of the index")
        model |= content["model"]
        state |= content["optimizer"]
    _same(folder, "model", meta.get("model"), model)
    payload = {**meta, "model": {key: model[key] for key in meta["model"]}}
    optimizer = meta.get("optimizer")
    if isinstance(optimizer, dict) and isinstance(optimizer.get("state"), list):
        _same(folder, "optimizer", optimizer["state"], state)
        payload["optimizer"] = {**optimizer, "state": {at: state[at] for at in optimizer["state"]}}
    elif state:
        _same(folder, "optimizer", [], state)
    return payload


def _same(folder: Path, what: str, listed: object, found: Mapping[Any, Any]) -> None:
    names = listed if isinstance(listed, list) else []
    if Counter(names) != Counter(list(found)):
        wrong = sorted(map(str, set(names) ^ set(found)))
        raise CorruptError(
            f"cannot load {folder}: meta.pt and shards differ in the {what}: {', '.join(wrong)}"
        )
