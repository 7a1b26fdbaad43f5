"""The reference trainer with shards in roots, kept by the supervisor: nothing is left behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.audited import faults
from tests.support.command import command
from tests.support.daemon import Daemon
from tests.support.runs import Run, make_run
from trainer.contract.checkpoint_format import (
    name_of,
)
from trainer.contract.checkpoint_format.shard_index import (
    ShardFile,
    ShardIndex,
    format_shard_index,
    read_shard_index,
    shard_name,
)
from trainer.contract.durable import temporary_for

pytestmark = [pytest.mark.system, pytest.mark.timeout(120)]

SETTINGS = """[model]
width = 16
heads = 2
layers = 1
context = 12
[train]
steps = 4
batch = 2
device = 'cpu'
threads = 1
"""
ROOTS = 'format = "sharded"\nshards = 2\nshard_roots = { fast = "../fast", slow = "../slow" }\n'


def in_roots(folder: Path) -> set[str]:
    """The shards that a checkpoint has outside of its folder, as its index names them."""
    index = read_shard_index((folder / "index.json").read_bytes(), "index.json")
    return {f"{shard.root}/{shard.name}" for shard in index.shards}


def test_shards_in_roots_are_kept_and_deleted_with_their_checkpoints(tmp_path: Path) -> None:
    ours = ["{python}", "-m", "trainer"]
    run = make_run(tmp_path / "run", ours, every=1, keep_last=2, settings=SETTINGS)
    file = run.path / "run.toml"
    file.write_text(file.read_text().replace("[checkpoint]\n", f"[checkpoint]\n{ROOTS}"))
    for root in ("fast", "slow"):
        (tmp_path / root).mkdir()
        (tmp_path / root / "step_000001.sharded.notes.pt").write_bytes(b"another's")
    dead = temporary_for(run.path / "checkpoints" / name_of(9, "sharded"))
    dead.mkdir(parents=True)
    left = tmp_path / "fast" / f"{name_of(9, 'sharded')}.{dead.name.split('.')[-2]}.{shard_name(0)}"
    left.write_bytes(b"of a writer that died")
    waiting = _deleted_while_its_root_was_away(run)
    daemon = Daemon(run)
    try:
        assert daemon.start().wait(90) == 0, daemon.output()
    finally:
        daemon.finish()
    assert _left(run) == {name_of(3, "sharded"), name_of(4, "sharded"), waiting}
    folders = [run.path / "checkpoints" / name for name in _left(run) - {waiting}]
    wanted = {shard for folder in folders for shard in in_roots(folder)}
    strangers = {f"{root}/step_000001.sharded.notes.pt" for root in ("fast", "slow")}
    there = {f"{root}/{p.name}" for root in ("fast", "slow") for p in (tmp_path / root).iterdir()}
    assert there == wanted | strangers
    assert len(wanted) == 4
    rows = command("checkpoints", run.path, "--verify", "--json").facts()["checkpoints"]
    assert {row["step"]: row.get("verified") for row in rows if row["state"] == "sealed"} == {
        3: True,
        4: True,
    }
    assert faults(run) == []
    refused = command("fork", run.path, tmp_path / "new", "--step", 4)
    assert "of shard_roots, which is its run's alone" in refused.complaint()
    assert not (tmp_path / "new").exists()


def _deleted_while_its_root_was_away(run: Run) -> str:
    """The temporary name of a folder that alone knows of shards on a disk that may come back."""
    folder = temporary_for(run.path / "checkpoints" / f"deleted.{name_of(2, 'sharded')}")
    folder.mkdir()
    meta = ShardFile("meta.pt", None, 0, "0" * 64)
    shard = ShardFile(f"{name_of(2, 'sharded')}.{shard_name(0)}", "away", 0, "0" * 64, ("a",))
    index = ShardIndex("stepkeeper.full-state/2", 2, "by_size", meta, (shard,))
    (folder / "index.json").write_bytes(format_shard_index(index))
    return folder.name


def _left(run: Run) -> set[str]:
    return {path.name for path in (run.path / "checkpoints").iterdir() if path.is_dir()}
