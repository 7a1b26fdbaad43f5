"""Write a payload as a folder: shards beside each other, a small meta file, an index at last.

A shard holds its keys of the model and what the optimizer keeps for them, so the meta file stays
small. The folder is put together under a temporary name and renamed when all of it is durable: a
visible folder is complete.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, NamedTuple

from torch import Tensor

from trainer.contract import durable
from trainer.contract.checkpoint_format.shard_index import (
    INDEX_NAME,
    META_NAME,
    ShardFile,
    ShardIndex,
    format_shard_index,
    is_root_name,
    shard_name,
)
from trainer.full_state.errors import PathError
from trainer.full_state.schema import Payload
from trainer.full_state.splitting import Split, split_keys
from trainer.full_state.writing import Announce, Written, write_one_file

MOST_THREADS: Final = 8
Roots = Mapping[str, Path]


class _Place(NamedTuple):
    """Where a shard goes, and how the index names that."""

    path: Path
    root: str | None


def write_sharded(  # noqa: PLR0913 - independent choices, given by name
    folder: Path,
    payload: Payload,
    *,
    split: Split = "round_robin",
    shards: int | None = None,
    shard_roots: Roots | None = None,
    replace: bool = False,
    announce: Announce | None = None,
) -> Written:
    """Write ``folder``; returns the SHA-256 of its index and the bytes of all files.

    ``shards=None`` means four, or as many as there are keys or groups. With ``shard_roots``
    (name to folder, on other disks) the shards are dealt out to them, under names unique per try;
    only meta file and index lie in ``folder``. ``replace`` takes a folder that is there away
    first, if it holds an index: between the two there is none. ``announce`` is called before the
    folder gets its name, with what it will be. Raises StructureError, PathError, and OSError with
    nothing new visible.
    """
    folder = Path(folder)
    _refuse_what_is_there(folder, replace=replace)
    parts = split_keys(_sizes(payload), split, shards)
    temporary = durable.temporary_for(folder)
    places = _places(temporary, folder, len(parts), shard_roots or {})
    try:
        temporary.mkdir(mode=0o750)
        index = _write_files(temporary, payload, split, parts, places)
        data = format_shard_index(index)
        durable.write_file(temporary / INDEX_NAME, data)
        written = Written(sha256(data).hexdigest(), index.bytes + len(data))
        if announce is not None:
            announce(written)
        if replace and os.path.lexists(folder):
            durable.remove_folder(folder)
        durable.publish(temporary, folder)
    except BaseException:
        if temporary.exists():  # else the folder is visible, and what it names stays
            _discard(temporary, places)
        raise
    return written


def _refuse_what_is_there(folder: Path, *, replace: bool) -> None:
    """Only a folder of shards is ever replaced, for all that is in it goes."""
    if not os.path.lexists(folder):
        return
    if not replace:
        raise FileExistsError(errno.EEXIST, "a checkpoint is there already", str(folder))
    if folder.is_symlink() or not (folder / INDEX_NAME).is_file():
        raise PathError(
            f"cannot replace {folder}: it is no folder of shards, for there is no {INDEX_NAME} in "
            "it; move it away, or choose another name"
        )


def _discard(temporary: Path, places: list[_Place]) -> None:
    shutil.rmtree(temporary, ignore_errors=True)
    for place in places:
        with contextlib.suppress(OSError):
            place.path.unlink()


def _write_files(
    temporary: Path, payload: Payload, split: Split, parts: list[list[str]], places: list[_Place]
) -> ShardIndex:
    """Every file but the index, durable."""
    contents = _contents(payload, parts)
    with ThreadPoolExecutor(min(len(parts), MOST_THREADS)) as threads:
        futures = [
            threads.submit(write_one_file, place.path, content)
            for place, content in zip(places, contents, strict=True)
        ]
        written = [future.result() for future in futures]
    meta = write_one_file(temporary / META_NAME, _meta(payload))
    return ShardIndex(
        payload=payload["schema"],
        step=payload["train_state"]["step"],
        split=split,
        meta=ShardFile(META_NAME, None, meta.bytes, meta.sha256),
        shards=tuple(
            ShardFile(place.path.name, place.root, done.bytes, done.sha256, tuple(keys))
            for place, done, keys in zip(places, written, parts, strict=True)
        ),
    )


def _places(temporary: Path, folder: Path, count: int, roots: Roots) -> list[_Place]:
    if not roots:
        return [_Place(temporary / shard_name(number), None) for number in range(count)]
    for name, root in roots.items():
        if not is_root_name(name):
            raise PathError(f"cannot write {folder}: {name!r} cannot name a root of shards")
        if not root.is_dir():
            raise PathError(
                f"cannot write {folder}: the root {name} of shards is no folder: {root}"
            )
    stem = re.sub(r"[^A-Za-z0-9._-]", "_", folder.name).strip("._-")[:100] or "checkpoint"
    once = temporary.name.split(".")[-2]  # a write that dies leaves both, and is known by it
    dealt = [list(roots.items())[number % len(roots)] for number in range(count)]
    return [
        _Place(root / f"{stem}.{once}.{shard_name(number)}", name)
        for number, (name, root) in enumerate(dealt)
    ]


def _contents(payload: Payload, parts: list[list[str]]) -> list[dict[str, Any]]:
    """What each shard holds: its keys of the model, and the optimizer's state by its numbers."""
    state, owners = _optimizer_state(payload), _owners(payload)
    home = {key: number for number, keys in enumerate(parts) for key in keys}
    contents: list[dict[str, Any]] = [
        {
            "schema": payload["schema"],
            "shard": number,
            "model": {key: _compact(payload["model"][key]) for key in keys},
            "optimizer": {},
        }
        for number, keys in enumerate(parts)
    ]
    for at, entry in state.items():
        kept = {name: _compact(value) for name, value in entry.items()}
        contents[home.get(owners.get(at, ""), 0)]["optimizer"][at] = kept
    return contents


def _meta(payload: Payload) -> dict[str, Any]:
    """The payload with names where the shards have the tensors."""
    meta = {**payload, "model": list(payload["model"])}
    if state := _optimizer_state(payload):
        meta["optimizer"] = {**payload["optimizer"], "state": list(state)}
    return meta


def _optimizer_state(payload: Payload) -> dict[Any, dict[str, Any]]:
    """What the optimizer keeps per parameter, where it has that in torch's form."""
    state = (payload["optimizer"] or {}).get("state")
    if isinstance(state, dict) and all(isinstance(entry, dict) for entry in state.values()):
        return state
    return {}


def _owners(payload: Payload) -> dict[Any, str]:
    """The model's name for each of the optimizer's numbers."""
    groups = (payload["optimizer"] or {}).get("param_groups", [])
    names = (payload["structure"] or {}).get("parameters", [])
    return {
        at: name
        for group, named in zip(groups, names, strict=False)
        for at, name in zip(group["params"], named, strict=False)
    }


def _sizes(payload: Payload) -> dict[str, int]:
    """Bytes of each key of the model, with what the optimizer keeps for it."""
    sizes = {key: _bytes(value) for key, value in payload["model"].items()}
    owners = _owners(payload)
    for at, entry in _optimizer_state(payload).items():
        if owners.get(at) in sizes:
            sizes[owners[at]] += sum(_bytes(value) for value in entry.values())
    return sizes


def _bytes(value: object) -> int:
    return value.nbytes if isinstance(value, Tensor) else 0


def _compact(value: Any) -> Any:  # noqa: ANN401 - a tensor, or a number of the optimizer's
    """A view alone would take the whole of what it looks at into every shard."""
    if isinstance(value, Tensor) and value.untyped_storage().nbytes() > value.nbytes:
        return value.clone()
    return value
