"""The index of a sharded checkpoint: which files it consists of, where they lie, their digests.

A folder ``step_NNNNNN.sharded`` holds ``index.json``, ``meta.pt`` and ``model.shard-000.pt``
onwards. A shard may lie in a root instead, a folder that the settings give a name; the index holds
that name and a plain file name, never a path.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any, Final, NamedTuple

from trainer.contract.checkpoint_format.layout import CheckpointFormatError
from trainer.contract.checkpoint_format.strict_object import strict_object

SHARD_INDEX_SCHEMA: Final = "stepkeeper.shard-index/1"
INDEX_NAME: Final = "index.json"
META_NAME: Final = "meta.pt"
SPLITS: Final = ("round_robin", "by_group", "by_size")
MOST_SHARDS: Final = 1000
_MOST: Final = 2**53 - 1  # of what is counted; a sum of such numbers is still one to be printed
_KEYS: Final = ("schema", "payload", "step", "split", "meta", "shards")
_DIGEST: Final = re.compile("[0-9a-f]{64}")
_ROOT: Final = re.compile("[a-z][a-z0-9_-]{0,31}")
_IN_ROOT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}\.pt", re.ASCII)


class ShardPathError(CheckpointFormatError):
    """A name in the index that leads out of the folder and its named roots."""


class ShardFile(NamedTuple):
    """One file: its name in the folder, or in the root of that name; size, digest, keys in it."""

    name: str
    root: str | None
    bytes: int
    sha256: str
    keys: tuple[str, ...] = ()


class ShardIndex(NamedTuple):
    """``index.json``, field by field; ``payload`` is the schema of what the files hold."""

    payload: str
    step: int
    split: str
    meta: ShardFile
    shards: tuple[ShardFile, ...]

    @property
    def bytes(self) -> int:
        """Bytes of all files but the index."""
        return sum(file.bytes for file in (self.meta, *self.shards))


def shard_name(number: int) -> str:
    """``model.shard-000.pt``."""
    return f"model.shard-{number:03d}.pt"


def is_root_name(name: str) -> bool:
    """Whether ``name`` can name a root: lower-case letters, digits, ``_`` and ``-``."""
    return _ROOT.fullmatch(name) is not None


def format_shard_index(index: ShardIndex) -> bytes:
    """The file's content. Raises CheckpointFormatError for what would not be read back."""
    record = {
        "schema": SHARD_INDEX_SCHEMA,
        "payload": index.payload,
        "step": index.step,
        "split": index.split,
        "meta": {k: v for k, v in index.meta._asdict().items() if k not in ("root", "keys")},
        "shards": [{**shard._asdict(), "keys": list(shard.keys)} for shard in index.shards],
    }
    data = json.dumps(record, allow_nan=False, indent=1).encode("ascii") + b"\n"
    read_shard_index(data, "the index of shards")
    return data


def read_shard_index(data: bytes, path: str) -> ShardIndex:
    """Parse and check an index. Raises CheckpointFormatError, ShardPathError."""
    record = strict_object(data, path)
    schema = record.get("schema")
    if schema != SHARD_INDEX_SCHEMA:
        raise CheckpointFormatError(path, "schema", SHARD_INDEX_SCHEMA, schema)
    _exactly(record, _KEYS, path, "keys")
    if not isinstance(record["payload"], str):
        raise CheckpointFormatError(path, "payload", "a schema", record["payload"])
    _whole(record["step"], path, "step")
    if record["split"] not in SPLITS:
        raise CheckpointFormatError(path, "split", " or ".join(SPLITS), record["split"])
    shards = record["shards"]
    if not isinstance(shards, list) or not 0 < len(shards) <= MOST_SHARDS:
        raise CheckpointFormatError(path, "shards", f"a list of 1 to {MOST_SHARDS}", type(shards))
    index = ShardIndex(
        record["payload"],
        record["step"],
        record["split"],
        _meta(record["meta"], path),
        tuple(_shard(shard, number, path) for number, shard in enumerate(shards)),
    )
    _each_once(index, path)
    return index


def _meta(record: object, path: str) -> ShardFile:
    file = _file(record, ("name", "bytes", "sha256"), path, "meta")
    if file["name"] != META_NAME:
        _refuse_name(path, "meta.name", META_NAME, file["name"])
    return ShardFile(META_NAME, None, file["bytes"], file["sha256"])


def _shard(record: object, number: int, path: str) -> ShardFile:
    what = f"shards[{number}]"
    file = _file(record, ShardFile._fields, path, what)
    name, root, keys = file["name"], file["root"], file["keys"]
    if root is None:
        if name != shard_name(number):
            _refuse_name(path, f"{what}.name", shard_name(number), name)
    elif not (isinstance(root, str) and is_root_name(root)):
        raise ShardPathError(path, f"{what}.root", "the name of a root, or null", root)
    elif not (isinstance(name, str) and _IN_ROOT.fullmatch(name)):
        raise ShardPathError(path, f"{what}.name", "a plain file name", name)
    if not (isinstance(keys, list) and keys and all(isinstance(key, str) for key in keys)):
        raise CheckpointFormatError(path, f"{what}.keys", "a list of names", keys)
    return ShardFile(name, root, file["bytes"], file["sha256"], tuple(keys))


def _file(record: object, fields: tuple[str, ...], path: str, what: str) -> dict[str, Any]:
    if not isinstance(record, dict):
        raise CheckpointFormatError(path, what, "an object", record)
    _exactly(record, fields, path, what)
    _whole(record["bytes"], path, f"{what}.bytes")
    digest = record["sha256"]
    if not (isinstance(digest, str) and _DIGEST.fullmatch(digest)):
        raise CheckpointFormatError(path, f"{what}.sha256", "64 hex digits", digest)
    return record


def _refuse_name(path: str, what: str, expected: str, found: object) -> None:
    leads_out = isinstance(found, str) and ("/" in found or found in (".", ".."))
    kind = ShardPathError if leads_out else CheckpointFormatError
    raise kind(path, what, expected, found)


def _exactly(record: dict[str, Any], keys: tuple[str, ...], path: str, what: str) -> None:
    if set(record) != set(keys):
        wrong = ", ".join(sorted(set(record) ^ set(keys)))
        raise CheckpointFormatError(path, what, ", ".join(keys), wrong)


def _whole(value: object, path: str, what: str) -> None:
    if type(value) is not int or not 0 <= value <= _MOST:
        raise CheckpointFormatError(path, what, f"a whole number of 0 to {_MOST}", value)


def _each_once(index: ShardIndex, path: str) -> None:
    places = [(shard.root, shard.name) for shard in index.shards]
    keys = [key for shard in index.shards for key in shard.keys]
    for what, values in (("names of shards", places), ("keys of shards", keys)):
        twice = sorted(str(value) for value, count in Counter(values).items() if count > 1)
        if twice:
            raise CheckpointFormatError(path, what, "each once", ", ".join(twice))
