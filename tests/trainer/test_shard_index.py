"""``index.json`` is a promise: its golden form, and a reader that takes nothing on trust."""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from trainer.contract.checkpoint_format import (
    CheckpointFormatError,
)
from trainer.contract.checkpoint_format.shard_index import (
    ShardFile,
    ShardIndex,
    ShardPathError,
    format_shard_index,
    read_shard_index,
    shard_name,
)

GOLDEN = Path(__file__).parent / "golden/full_state_v2.sharded"
DATA = (GOLDEN / "index.json").read_bytes()
ELSEWHERE = ShardFile("step.0123456789ab.model.shard-001.pt", "disk1", 5, "b" * 64, ("x", "y"))


def test_the_golden_index_says_what_lies_beside_it() -> None:
    index = read_shard_index(DATA, "index.json")
    assert (index.payload, index.step, index.split) == ("stepkeeper.full-state/2", 2, "by_group")
    assert [shard.keys for shard in index.shards] == [("weight",), ("bias",)]
    for file in (index.meta, *index.shards):
        data = (GOLDEN / file.name).read_bytes()
        assert (file.root, file.bytes) == (None, len(data))
        assert file.sha256 == sha256(data).hexdigest()
    total = sum(path.stat().st_size for path in GOLDEN.iterdir())
    assert index.bytes == total - len(DATA)


def test_it_is_written_back_to_the_byte() -> None:
    assert format_shard_index(read_shard_index(DATA, "x")) == DATA


def test_a_shard_elsewhere_reads_back() -> None:
    index = read_shard_index(DATA, "x")
    wider = index._replace(shards=(index.shards[0], ELSEWHERE))
    assert read_shard_index(format_shard_index(wider), "x") == wider


def test_names_of_shards_are_numbered() -> None:
    assert [shard_name(number) for number in (0, 42, 999)] == [
        "model.shard-000.pt",
        "model.shard-042.pt",
        "model.shard-999.pt",
    ]


Spoil = Callable[[dict[str, Any]], object]
BAD: dict[str, tuple[Spoil, str]] = {
    "another schema": (lambda r: r.update(schema="x"), "schema: expected .*, found x"),
    "an unknown key": (lambda r: r.update(more=1), "keys: expected .*, found more"),
    "a missing key": (lambda r: r.pop("step"), "keys: expected .*, found step"),
    "a step of text": (lambda r: r.update(step="2"), "step: expected a whole number"),
    "true for a step": (lambda r: r.update(step=True), "step: expected a whole number"),
    "an unknown split": (lambda r: r.update(split="x"), "split: expected round_robin or"),
    "no shards": (lambda r: r.update(shards=[]), "shards: expected a list of 1 to 1000"),
    "a payload of a number": (lambda r: r.update(payload=2), "payload: expected a schema"),
    "a shard of text": (lambda r: r["shards"].__setitem__(0, "x"), r"shards\[0\]: expected an"),
    "an unknown key of a shard": (lambda r: r["shards"][0].update(path="x"), "found path"),
    "a key of a shard too few": (lambda r: r["shards"][0].pop("root"), "found root"),
    "a root of meta": (lambda r: r["meta"].update(root=None), "meta: expected .*, found root"),
    "bytes below 0": (lambda r: r["meta"].update(bytes=-1), r"meta\.bytes: expected a whole"),
    "a digest too short": (lambda r: r["meta"].update(sha256="ab"), "sha256: expected 64 hex"),
    "no keys": (lambda r: r["shards"][0].update(keys=[]), r"keys: expected a list of names"),
    "the same key twice": (
        lambda r: r["shards"][1].update(keys=["weight"]),
        "keys of shards: expected each once, found weight",
    ),
    "another name": (
        lambda r: r["shards"][1].update(name="model.shard-000.pt"),
        r"shards\[1\]\.name: expected model\.shard-001\.pt, found model\.shard-000\.pt",
    ),
    "the same file twice": (
        lambda r: [s.update(root="a", name="x.pt") for s in r["shards"]],
        "names of shards: expected each once",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_not_as_promised_is_refused(name: str) -> None:
    spoil, message = BAD[name]
    record = json.loads(DATA)
    spoil(record)
    with pytest.raises(CheckpointFormatError, match=f"cannot use index.json: .*{message}"):
        read_shard_index(json.dumps(record).encode(), "index.json")


@pytest.mark.parametrize(
    "data", [b"", b"[]", b'{"a":1,"a":2}', b'{"a":NaN}', DATA[:-9], b"\xff", b"[" * 99999]
)
def test_what_is_no_strict_object_is_refused(data: bytes) -> None:
    with pytest.raises(CheckpointFormatError, match="cannot use x: "):
        read_shard_index(data, "x")


OUT = ["../x.pt", "/x.pt", "a/x.pt", "..", ".", "x.pt/", "..\\x.pt", "x.pt\n", "-x.pt", "", "x.bin"]


@pytest.mark.parametrize("name", [*OUT, None, 3])
def test_no_name_leads_out_of_a_root(name: object) -> None:
    record = json.loads(DATA)
    record["shards"][0].update(root="disk1", name=name)
    with pytest.raises(ShardPathError, match=r"shards\[0\]\.name: expected a plain file name"):
        read_shard_index(json.dumps(record).encode(), "x")


@pytest.mark.parametrize("name", ["../x.pt", "/x.pt", "a/model.shard-000.pt", "..", "."])
def test_no_name_leads_out_of_the_folder(name: str) -> None:
    for place in ("meta", "shard"):
        record = json.loads(DATA)
        (record["meta"] if place == "meta" else record["shards"][0]).update(name=name)
        with pytest.raises(ShardPathError):
            read_shard_index(json.dumps(record).encode(), "x")


def test_an_index_that_could_not_be_read_back_is_not_written() -> None:
    index = read_shard_index(DATA, "x")
    bad = ShardIndex("x", 1, "by_size", index.meta, (ELSEWHERE._replace(name="../x.pt"),))
    with pytest.raises(ShardPathError):
        format_shard_index(bad)
