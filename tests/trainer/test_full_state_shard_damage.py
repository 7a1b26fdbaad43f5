"""A folder of shards that is not as it was written is refused by name, and leads nowhere else."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.trainer.full_states import Script
from trainer.full_state import (
    CorruptError,
    FullStateError,
    PathError,
    SchemaError,
    UnsafeError,
    read_sharded,
)

Damage = Callable[[Path], object]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The state of a script behind three steps, in three shards."""
    script = Script(1)
    script.train(3)
    script.save(tmp_path / "step.sharded", shards=3)
    return tmp_path / "step.sharded"


FIRST, SECOND = "model.shard-000.pt", "model.shard-001.pt"


def flip(folder: Path, name: str) -> None:
    """Change one bit in the middle."""
    data = bytearray((folder / name).read_bytes())
    data[len(data) // 2] ^= 1
    (folder / name).write_bytes(data)


def swap(folder: Path, one: str, two: str) -> None:
    """Each has the other's name."""
    (folder / one).rename(folder / "x")
    (folder / two).rename(folder / one)
    (folder / "x").rename(folder / two)


def link(folder: Path, name: str, *, hidden: str = "elsewhere") -> None:
    """A link to the very same bytes outside of the folder."""
    shutil.move(folder / name, folder.parent / hidden)
    (folder / name).symlink_to(folder.parent / hidden)


def edit(change: Callable[[dict[str, Any]], object]) -> Damage:
    """Change the index."""

    def damage(folder: Path) -> None:
        record = json.loads((folder / "index.json").read_bytes())
        change(record)
        (folder / "index.json").write_text(json.dumps(record))

    return damage


def cut(folder: Path, name: str) -> None:
    """Leave the last byte out."""
    (folder / name).write_bytes((folder / name).read_bytes()[:-1])


def make_fifo(folder: Path) -> None:
    """Something that a reader would wait at for ever."""
    (folder / FIRST).unlink()
    os.mkfifo(folder / FIRST)


DAMAGES: dict[str, tuple[Damage, type[FullStateError], str]] = {
    "a flipped bit": (lambda f: flip(f, FIRST), CorruptError, f"{FIRST}: SHA-256: expected"),
    "a flipped bit in meta": (lambda f: flip(f, "meta.pt"), CorruptError, "meta.pt: SHA-256"),
    "a truncated shard": (lambda f: cut(f, SECOND), CorruptError, f"{SECOND}: expected .* bytes"),
    "an empty shard": (lambda f: (f / FIRST).write_bytes(b""), CorruptError, "bytes, found 0"),
    "a missing shard": (lambda f: (f / SECOND).unlink(), CorruptError, f"missing: .*/{SECOND}"),
    "a missing meta": (lambda f: (f / "meta.pt").unlink(), CorruptError, "missing: .*/meta.pt"),
    "a missing index": (lambda f: (f / "index.json").unlink(), CorruptError, "missing: .*index"),
    "an extra shard": (
        lambda f: shutil.copy(f / FIRST, f / "model.shard-003.pt"),
        CorruptError,
        "the index does not know of model.shard-003.pt",
    ),
    "swapped shards": (
        lambda f: swap(f, FIRST, SECOND),
        CorruptError,
        f"{FIRST}: it holds what belongs into {SECOND}",
    ),
    "a shard that is a link": (lambda f: link(f, FIRST), PathError, f"{FIRST}: it is a link"),
    "a meta that is a link": (lambda f: link(f, "meta.pt"), PathError, "meta.pt: it is a link"),
    "an index that is a link": (
        lambda f: link(f, "index.json"),
        PathError,
        "index.json: it is a link",
    ),
    "a shard that is a pipe": (make_fifo, PathError, f"{FIRST}: it is no file"),
    "a path above": (
        edit(lambda r: r["shards"][0].update(name="../made.pt")),
        PathError,
        r"shards\[0\]\.name: expected model\.shard-000\.pt, found \.\./made\.pt",
    ),
    "an absolute path": (
        edit(lambda r: r["meta"].update(name="/etc/passwd")),
        PathError,
        r"meta\.name: expected meta\.pt, found /etc/passwd",
    ),
    "a path in a root": (
        edit(lambda r: r["shards"][0].update(root="one", name="../x.pt")),
        PathError,
        r"shards\[0\]\.name: expected a plain file name, found \.\./x\.pt",
    ),
    "a root that is a path": (
        edit(lambda r: r["shards"][0].update(root="../one")),
        PathError,
        r"shards\[0\]\.root: expected the name of a root",
    ),
    "an unknown root": (
        edit(lambda r: r["shards"][0].update(root="one")),
        PathError,
        r"root one, which is not among shard_roots \(none\)",
    ),
    "a newer index": (
        edit(lambda r: r.update(schema="stepkeeper.shard-index/2")),
        SchemaError,
        "schema: expected stepkeeper.shard-index/1, found stepkeeper.shard-index/2",
    ),
    "another schema of the payload": (
        edit(lambda r: r.update(payload="stepkeeper.full-state/3")),
        SchemaError,
        "meta.pt is not of the schema stepkeeper.full-state/3",
    ),
    "keys that the shard has not": (
        edit(lambda r: r["shards"][0]["keys"].reverse()),
        CorruptError,
        f"{FIRST} has not the keys of the index",
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_is_named_and_nothing_is_loaded(folder: Path, name: str) -> None:
    damage, kind, message = DAMAGES[name]
    damage(folder)
    with pytest.raises(kind, match=message) as caught:
        read_sharded(folder)
    assert str(caught.value).startswith("cannot ")
    assert "\n" not in str(caught.value)


def test_the_index_is_held_against_a_digest_from_elsewhere(folder: Path) -> None:
    with pytest.raises(CorruptError, match=f"index.json: SHA-256: expected {'0' * 64}"):
        read_sharded(folder, sha256="0" * 64)


def _replace(folder: Path, number: int, content: object) -> None:
    """Another writer's shard, with an index that vouches for it."""
    name = f"model.shard-{number:03d}.pt"
    torch.save(content, folder / name)
    data = (folder / name).read_bytes()
    change = {"bytes": len(data), "sha256": sha256(data).hexdigest()}
    edit(lambda record: record["shards"][number].update(change))(folder)


class Marker:
    """Its unpickling would create a folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
        return os.mkdir, (str(self.path),)


def test_a_shard_that_would_run_code_runs_nothing(folder: Path) -> None:
    _replace(folder, 0, {"model": Marker(folder.parent / "ran")})
    with pytest.raises(UnsafeError, match=rf"{FIRST}: it asks for posix\.mkdir, and only"):
        read_sharded(folder)
    assert not (folder.parent / "ran").exists()


def test_a_state_of_the_optimizer_that_no_shard_has_is_named(folder: Path) -> None:
    """Meta file and shards of two checkpoints do not make one."""
    whole = torch.load(folder / FIRST, weights_only=True)  # noqa: TID251 - to spoil it
    at = next(iter(whole["optimizer"]))
    del whole["optimizer"][at]
    _replace(folder, 0, whole)
    with pytest.raises(CorruptError, match=f"meta.pt and shards differ in the optimizer: {at}"):
        read_sharded(folder)


def test_a_meta_file_that_lists_other_keys_is_named(folder: Path) -> None:
    meta = torch.load(folder / "meta.pt", weights_only=True)  # noqa: TID251 - to spoil it
    meta["model"].append("more")
    torch.save(meta, folder / "meta.pt")
    data = (folder / "meta.pt").read_bytes()
    change = {"bytes": len(data), "sha256": sha256(data).hexdigest()}
    edit(lambda record: record["meta"].update(change))(folder)
    with pytest.raises(CorruptError, match=r"meta.pt and shards differ in the model: more"):
        read_sharded(folder)


def test_something_that_is_no_shard_is_refused(folder: Path) -> None:
    _replace(folder, 0, {"model": {}})
    with pytest.raises(SchemaError, match=f"{FIRST} is no shard"):
        read_sharded(folder)
