"""A folder of shards is complete or not there, wherever its files lie."""

from __future__ import annotations

import errno
import signal
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

import pytest
import torch

from tests.support.crash_fs import CrashFs, Killed, crash_fs
from tests.support.runs import ROOT
from tests.support.waiting import wait_until
from tests.trainer.full_state_golden import V2
from tests.trainer.full_states import Script, same
from trainer.contract import durable
from trainer.contract.checkpoint_format.shard_index import (
    read_shard_index,
)
from trainer.full_state import (
    PathError,
    Payload,
    StructureError,
    read_one_file,
    read_sharded,
    split_keys,
    write_sharded,
)
from trainer.full_state.splitting import Split


@pytest.fixture
def payload(tmp_path: Path) -> Payload:
    """Of a script behind three steps: 11 keys of the model, 6 states of the optimizer."""
    script = Script(1)
    script.train(3)
    script.save(tmp_path / "made.pt")
    return read_one_file(tmp_path / "made.pt")


@pytest.fixture
def folder(payload: Payload, tmp_path: Path) -> Path:
    """The same payload in three shards."""
    write_sharded(tmp_path / "step.sharded", payload, shards=3)
    return tmp_path / "step.sharded"


@pytest.fixture
def roots(tmp_path: Path) -> dict[str, Path]:
    """Two disks."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    return {"one": tmp_path / "one", "two": tmp_path / "two"}


# Splits.

SIZES = {"a.weight": 100, "a.bias": 5, "b.weight": 60, "b.bias": 5, "scale": 50, "c.weight": 40}


def test_round_robin_deals_the_keys_out() -> None:
    assert split_keys(SIZES, "round_robin", 2) == [
        ["a.weight", "b.weight", "scale"],
        ["a.bias", "b.bias", "c.weight"],
    ]


def test_by_group_keeps_weights_biases_and_the_rest_apart() -> None:
    weights = ["a.weight", "b.weight", "c.weight"]
    assert split_keys(SIZES, "by_group", None) == [weights, ["a.bias", "b.bias"], ["scale"]]
    assert split_keys(SIZES, "by_group", 4) == [
        ["a.weight"],
        ["b.weight", "c.weight"],
        ["a.bias", "b.bias"],
        ["scale"],
    ]
    assert split_keys({"weight": 1, "bias": 1}, "by_group", None) == [["weight"], ["bias"]]
    with pytest.raises(StructureError, match="by group into 2 shards: there are 3 groups"):
        split_keys(SIZES, "by_group", 2)


def test_a_split_that_there_is_not_is_refused() -> None:
    with pytest.raises(StructureError, match="cannot split by 'bysize': choose round_robin"):
        split_keys({"a": 1}, cast("Any", "bysize"), None)


def test_by_size_balances_the_bytes() -> None:
    parts = split_keys(SIZES, "by_size", 2)
    assert sorted(sum(SIZES[key] for key in part) for part in parts) == [120, 140]
    assert sorted(key for part in parts for key in part) == sorted(SIZES)
    assert split_keys(dict.fromkeys("abc", 0), "by_size", 3) == [["a"], ["b"], ["c"]]


@pytest.mark.parametrize("shards", [0, 7])
def test_shards_that_could_not_be_filled_are_refused(shards: int) -> None:
    with pytest.raises(StructureError, match=f"6 keys into {shards} shards: choose 1 to 6"):
        split_keys(SIZES, "round_robin", shards)


@pytest.mark.parametrize("split", ["round_robin", "by_group", "by_size"])
@pytest.mark.parametrize("shards", [None, 5])
def test_every_split_reads_back_to_the_bit(
    payload: Payload, tmp_path: Path, split: Split, shards: int | None
) -> None:
    written = write_sharded(tmp_path / "x.sharded", payload, split=split, shards=shards)
    assert same(read_sharded(tmp_path / "x.sharded"), payload)
    files = list((tmp_path / "x.sharded").iterdir())
    assert written.bytes == sum(path.stat().st_size for path in files)
    index = (tmp_path / "x.sharded/index.json").read_bytes()
    assert written.sha256 == sha256(index).hexdigest()
    read_sharded(tmp_path / "x.sharded", sha256=written.sha256)


def test_the_moments_lie_beside_their_weights_so_the_meta_file_is_small(
    payload: Payload, tmp_path: Path
) -> None:
    payload["model"]["first.weight"] = torch.zeros(1 << 18)
    state = payload["optimizer"]["state"][0]
    state["exp_avg"] = state["exp_avg_sq"] = torch.zeros(1 << 18)
    state["exp_avg_sq"] = torch.ones(1 << 18)
    write_sharded(tmp_path / "x.sharded", payload, split="by_size", shards=2)
    sizes = {path.name: path.stat().st_size for path in (tmp_path / "x.sharded").iterdir()}
    assert sizes["meta.pt"] < 1 << 16
    assert max(sizes.values()) > 3 << 20
    for number in range(2):
        path = tmp_path / f"x.sharded/model.shard-{number:03d}.pt"
        shard = torch.load(path, weights_only=True)  # noqa: TID251 - one file of several
        names = payload["structure"]["parameters"][0]
        assert {names[at] for at in shard["optimizer"]} == set(shard["model"]) & set(names)
    assert same(read_sharded(tmp_path / "x.sharded"), payload)


def test_a_view_does_not_take_what_it_looks_at_into_its_shard(
    payload: Payload, tmp_path: Path
) -> None:
    payload["model"]["last.bias"] = torch.zeros(1 << 20)[5:6]
    assert write_sharded(tmp_path / "x.sharded", payload).bytes < 1 << 17


# Writing.


def test_killed_at_any_write_or_sync_no_folder_or_a_whole_one_is_visible(
    payload: Payload, tmp_path: Path
) -> None:
    counting = CrashFs()
    with crash_fs(counting):
        write_sharded(tmp_path / "count", payload, shards=1)
    seen = set()
    for at in range(1, counting.calls + 1, 7):
        folder = tmp_path / f"{at}.sharded"
        with crash_fs(CrashFs(at=at)), pytest.raises(Killed):
            write_sharded(folder, payload, shards=1)
        seen.add(folder.exists())
    assert seen == {False}
    last = tmp_path / "last.sharded"
    with crash_fs(CrashFs(at=counting.calls)), pytest.raises(Killed):
        write_sharded(last, payload, shards=1)
    assert same(read_sharded(last), payload)


def test_a_full_disk_leaves_nothing_behind(
    payload: Payload, tmp_path: Path, roots: dict[str, Path]
) -> None:
    counting = CrashFs()
    with crash_fs(counting):
        write_sharded(tmp_path / "count", payload, shards=2, shard_roots=roots)
    before = sorted(tmp_path.rglob("*"))
    for at in (40, counting.calls - 4):  # in a shard, and in the index when all shards stand
        plan = CrashFs(at=at, error=errno.ENOSPC, times=1000)
        with crash_fs(plan), pytest.raises(OSError, match="No space left") as caught:
            write_sharded(tmp_path / "x.sharded", payload, shards=2, shard_roots=roots)
        assert caught.value.errno == errno.ENOSPC
        assert sorted(tmp_path.rglob("*")) == before


def test_a_sync_that_fails_behind_the_rename_leaves_a_visible_folder_complete(
    payload: Payload, tmp_path: Path, roots: dict[str, Path]
) -> None:
    counting = CrashFs()
    with crash_fs(counting):
        write_sharded(tmp_path / "count", payload, shards=2, shard_roots=roots)
    plan = CrashFs(at=counting.calls, error=errno.EIO)
    with crash_fs(plan), pytest.raises(OSError, match="Errno 5"):
        write_sharded(tmp_path / "x.sharded", payload, shards=2, shard_roots=roots)
    assert same(read_sharded(tmp_path / "x.sharded", shard_roots=roots), payload)


def test_a_folder_that_is_there_is_not_written_over_unless_asked(
    payload: Payload, folder: Path
) -> None:
    before = read_sharded(folder)
    payload["extra"] = {"note": "new"}
    with pytest.raises(FileExistsError, match="a checkpoint is there already"):
        write_sharded(folder, payload)
    assert same(read_sharded(folder), before)
    write_sharded(folder, payload, replace=True)
    assert same(read_sharded(folder), payload)
    assert sorted(p.name for p in folder.parent.iterdir()) == ["made.pt", "step.sharded"]


WRITER = """
import sys
from pathlib import Path
from typing import Any, cast
import torch
from trainer.full_state import read_one_file, write_sharded
payload = read_one_file(Path(sys.argv[1]))
for number in range(10_000):
    payload["model"] = {str(k): torch.full((1 << 17,), number) for k in range(4)}
    payload["train_state"]["step"] = number
    write_sharded(Path(sys.argv[2]) / f"step_{number:06d}.sharded", payload)
"""


def test_what_is_no_folder_of_shards_is_never_replaced(payload: Payload, tmp_path: Path) -> None:
    file, own = tmp_path / "state.pt", tmp_path / "own"
    file.write_bytes(b"mine")
    own.mkdir()
    (own / "thesis.txt").write_text("mine")
    for path in (file, own):
        with pytest.raises(PathError, match=r"is no folder of shards, for there is no index\.json"):
            write_sharded(path, payload, replace=True)
    assert file.read_bytes() == b"mine"
    assert (own / "thesis.txt").read_text() == "mine"
    assert {path.name for path in tmp_path.iterdir()} == {"made.pt", "state.pt", "own"}


def test_a_writer_that_is_killed_leaves_whole_folders_alone(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", WRITER, V2, tmp_path], cwd=ROOT)

    def amid_the_third() -> bool:
        names = {path.name for path in tmp_path.iterdir()}
        return "step_000001.sharded" in names and any(name.endswith(".tmp") for name in names)

    try:
        wait_until(amid_the_third, "a third save under way", 30)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait(10)
    durable.remove_temporaries(tmp_path)
    visible = sorted(tmp_path.iterdir())
    assert len(visible) >= 2
    for number, folder in enumerate(visible):
        found = read_sharded(folder)
        assert found["train_state"]["step"] == number
        assert all(torch.equal(v, torch.full((1 << 17,), number)) for v in found["model"].values())


# Roots.


def test_shards_may_lie_in_named_roots(
    payload: Payload, tmp_path: Path, roots: dict[str, Path]
) -> None:
    folder = tmp_path / "step.sharded"
    written = write_sharded(folder, payload, shards=3, shard_roots=roots)
    assert sorted(path.name for path in folder.iterdir()) == ["index.json", "meta.pt"]
    index = read_shard_index((folder / "index.json").read_bytes(), "x")
    assert [shard.root for shard in index.shards] == ["one", "two", "one"]
    files = [*folder.iterdir(), *roots["one"].iterdir(), *roots["two"].iterdir()]
    assert written.bytes == sum(path.stat().st_size for path in files)
    assert same(read_sharded(folder, shard_roots=roots), payload)
    moved = tmp_path / "elsewhere"
    roots["two"].rename(moved)
    assert same(read_sharded(folder, shard_roots={**roots, "two": moved}), payload)
    with pytest.raises(PathError, match=r"root two, which is not among shard_roots \(one\)"):
        read_sharded(folder, shard_roots={"one": roots["one"]})


def test_two_tries_do_not_meet_in_a_root(
    payload: Payload, tmp_path: Path, roots: dict[str, Path]
) -> None:
    for name in ("a/step.sharded", "b/step.sharded"):
        (tmp_path / name).parent.mkdir()
        payload["extra"] = {"name": name}
        write_sharded(tmp_path / name, payload, shards=2, shard_roots=roots)
    for name in ("a/step.sharded", "b/step.sharded"):
        assert read_sharded(tmp_path / name, shard_roots=roots)["extra"] == {"name": name}


@pytest.mark.parametrize("name", ["One", "../one", "", "o/ne"])
def test_a_root_has_a_plain_name(payload: Payload, tmp_path: Path, name: str) -> None:
    with pytest.raises(PathError, match="cannot name a root of shards"):
        write_sharded(tmp_path / "x.sharded", payload, shard_roots={name: tmp_path})
    assert not (tmp_path / "x.sharded").exists()


def test_a_root_that_is_no_folder_is_named(payload: Payload, tmp_path: Path) -> None:
    with pytest.raises(PathError, match=r"the root one of shards is no folder: .*/nowhere"):
        write_sharded(tmp_path / "x.sharded", payload, shard_roots={"one": tmp_path / "nowhere"})
