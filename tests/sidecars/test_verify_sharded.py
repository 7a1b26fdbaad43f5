"""A folder of shards is whole or refused, with the name of the file that is not as it was."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from supervisor.sidecars.checkpoints.presence import measure
from supervisor.sidecars.checkpoints.verify_stream import Manner
from tests.sidecars.full_states import Case, own_payload, save, torch_payload

pytestmark = pytest.mark.torch

FIRST, SECOND = "model.shard-000.pt", "model.shard-001.pt"


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return save(tmp_path, "sharded", torch_payload())


def swap(folder: Path, one: str, other: str) -> None:
    a, b = (folder / one).read_bytes(), (folder / other).read_bytes()
    (folder / one).write_bytes(b)
    (folder / other).write_bytes(a)


@pytest.mark.parametrize("digest_only", [False, True])
@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        (lambda f: (f / SECOND).unlink(), f"files: expected all of its index, found no {SECOND}"),
        (lambda f: (f / "meta.pt").unlink(), "found no meta.pt"),
        (lambda f: (f / "index.json").unlink(), "index.json: No such file"),
        (lambda f: (f / "notes").write_text(""), "those of its index, found notes beside them"),
        (lambda f: (f / FIRST).write_bytes((f / FIRST).read_bytes()[:-1]), f"{FIRST}: size: exp"),
        (lambda f: (f / FIRST).write_bytes((f / FIRST).read_bytes() + b"x"), f"{FIRST}: size: exp"),
        (lambda f: flip(f / SECOND), f"{SECOND}: sha256: expected"),
        (lambda f: flip(f / "meta.pt"), "meta.pt: sha256: expected"),
        (lambda f: swap(f, FIRST, SECOND), f"what belongs into {SECOND}"),
        (lambda f: link(f / FIRST), f"{FIRST}: Too many levels of symbolic links"),
        (lambda f: folder_in_place(f / FIRST), f"{FIRST}: kind: expected a regular file"),
        (lambda f: (f / "index.json").write_text("{}"), "schema: expected stepkeeper.shard-index"),
    ],
    ids=range(12),
)
def test_a_file_that_is_not_as_it_was_is_named(
    case: Case,
    spoil: Callable[[Path], object],
    problem: str,
    digest_only: bool,  # noqa: FBT001 - a parameter
) -> None:
    spoil(case.path)
    found = case.verdict(Manner(digest_only=digest_only))["problem"]
    assert problem in found
    assert found.startswith(("cannot use ", "cannot read "))


def flip(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[200] ^= 1
    file.write_bytes(data)


def link(file: Path) -> None:
    file.rename(file.with_suffix(".elsewhere"))
    elsewhere = file.parent.parent / "elsewhere"
    file.with_suffix(".elsewhere").rename(elsewhere)
    file.symlink_to(elsewhere)


def folder_in_place(file: Path) -> None:
    size = file.stat().st_size
    file.unlink()
    file.mkdir()
    assert size


def changed_index(case: Case, change: Callable[[dict[str, Any]], object]) -> str:
    index = case.path / "index.json"
    record = json.loads(index.read_bytes())
    change(record)
    index.write_text(json.dumps(record))
    return case.problem()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda r: r["shards"][0].update(name="../x.pt"), "shards[0].name: expected"),
        (lambda r: r["shards"][0].update(root="/etc"), "shards[0].root: expected"),
        (lambda r: r["shards"][0].update(root="fast", name="x.pt"), "the root fast of a shard: "),
        (lambda r: r.update(step=99), "schema: expected stepkeeper.full-state/2 of step 99"),
        (lambda r: r["shards"][0]["keys"].reverse(), "keys: expected those of the index"),
        (lambda r: r["shards"][0]["keys"].pop(), "keys: expected those of the index"),
    ],
    ids=range(6),
)
def test_an_index_that_fits_nothing_is_refused(
    case: Case, change: Callable[[dict[str, Any]], object], problem: str
) -> None:
    assert problem in changed_index(case, change)


def test_shards_in_a_named_root_are_read_there(tmp_path: Path) -> None:
    (root := tmp_path / "disk").mkdir()
    case = save(tmp_path, "sharded", own_payload(), shard_roots={"fast": root})
    known = (("fast", str(root)),)
    assert case.problem(roots=known) == ""
    assert measure(case.path) == case.written.bytes == case.verdict(roots=known)["bytes"]
    assert "expected one of shard_roots (none), found none" in case.problem()
    (root / "somebody's").write_text("a root holds other things too")
    assert case.problem(roots=known) == ""
    next(iter(root.glob("*.pt"))).unlink()
    assert "found no step_000100.sharded." in case.problem(roots=known)
