"""Shards in roots go with their checkpoint, and nothing else in a root ever does."""

from __future__ import annotations

import os
import re
import threading
from hashlib import sha256
from itertools import pairwise
from pathlib import Path

import pytest

from supervisor.errors import StepkeeperError
from supervisor.perform import building
from supervisor.sidecars.checkpoints import (
    Catalogue,
    growing,
    scan,
    write_seal,
)
from supervisor.sidecars.checkpoints.holdings import delete, finish_deletions, holdings
from supervisor.sidecars.checkpoints.presence import measure
from supervisor.sidecars.checkpoints.seals import Bin
from supervisor.sidecars.checkpoints.shards_elsewhere import remove_unfinished
from supervisor.sidecars.checkpoints.superseding import supersede
from supervisor.sidecars.checkpoints.verify_child import verify
from supervisor.sidecars.checkpoints.verify_companion import Expected
from supervisor.sidecars.checkpoints.verify_stream import Manner
from tests.sidecars.sealing import record
from trainer.contract import durable
from trainer.contract.checkpoint_format import (
    name_of,
)
from trainer.contract.checkpoint_format.shard_index import (
    ShardFile,
    ShardIndex,
    format_shard_index,
    shard_name,
)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    for name in ("checkpoints", "fast", "slow"):
        (tmp_path / name).mkdir()
    return tmp_path


def roots(run: Path) -> dict[str, Path]:
    return {"fast": run / "fast", "slow": run / "slow"}


def spread(run: Path, step: int, stem: str = "") -> tuple[Path, list[Path]]:
    """A sealed checkpoint with a shard in each root; its folder, and the shards.

    ``stem`` is what their names begin with, where that is not the folder's name.
    """
    folder = run / "checkpoints" / name_of(step, "sharded")
    folder.mkdir()
    parts = [ShardFile("meta.pt", None, 4, sha256(b"meta").hexdigest())]
    (folder / "meta.pt").write_bytes(b"meta")
    shards = []
    for number, root in enumerate(roots(run)):
        data = f"{number} of {step}".encode()
        shards.append(run / root / f"{stem or folder.name}.{step:012x}.{shard_name(number)}")
        shards[-1].write_bytes(data)
        digest = sha256(data).hexdigest()
        parts.append(ShardFile(shards[-1].name, root, len(data), digest, (f"key {number}",)))
    index = ShardIndex("stepkeeper.full-state/2", step, "by_size", parts[0], tuple(parts[1:]))
    data = format_shard_index(index)
    (folder / "index.json").write_bytes(data)
    sealed = Bin(folder.name, sha256(data).hexdigest(), index.bytes + len(data))
    assert measure(folder) == sealed.bytes
    write_seal(run / "checkpoints", record(step)._replace(bin=sealed))
    return folder, shards


def test_shards_in_roots_go_with_their_checkpoint_and_others_stay(run: Path) -> None:
    _, going = spread(run, 100)
    kept, staying = spread(run, 200)
    strangers = [going[0].with_name(name) for name in ("notes.pt", f"{kept.name}.pt")]
    for path in strangers:
        path.write_bytes(b"another's")
    (held,) = (one for one in holdings(run / "checkpoints") if one.step == 100)
    free = delete(run / "checkpoints", held, roots(run))
    assert free is not None
    free()
    there = {path for root in roots(run).values() for path in root.iterdir()}
    assert there == {*staying, *strangers}
    assert kept.is_dir()


@pytest.mark.parametrize("gone", ["named", "there"])
def test_without_its_root_a_checkpoint_stays_whole(run: Path, gone: str) -> None:
    folder, shards = spread(run, 100)
    known = roots(run)
    if gone == "named":
        del known["slow"]
        why = "shard_roots does not name it"
    else:
        (run / "slow").rename(run / "unmounted")
        why = "is not there"
    (held,) = holdings(run / "checkpoints")
    with pytest.raises(OSError, match=why):
        delete(run / "checkpoints", held, known)
    assert folder.is_dir()
    assert shards[0].is_file()


def test_a_deletion_that_was_cut_short_takes_the_shards_at_the_next_start(run: Path) -> None:
    spread(run, 100)
    spread(run, 200)
    supersede(run / "checkpoints", 7, 100)
    for held in holdings(run / "checkpoints"):
        assert delete(run / "checkpoints", held, roots(run)) is not None
    for go_on in finish_deletions(run / "checkpoints", roots(run)):
        go_on()
    assert [path for root in roots(run).values() for path in root.iterdir()] == []
    assert list((run / "checkpoints").rglob("*.tmp")) == []


def test_a_copied_folder_of_another_step_takes_no_shards_with_it(run: Path) -> None:
    folder, shards = spread(run, 100)
    copied = folder.with_name(name_of(200, "sharded"))
    copied.mkdir()
    for path in folder.iterdir():
        (copied / path.name).write_bytes(path.read_bytes())
    copied.with_name("step_000200.json").write_bytes(b"{}")
    (held,) = (one for one in holdings(run / "checkpoints") if one.step == 200)
    free = delete(run / "checkpoints", held, roots(run))
    assert free is not None
    free()
    assert all(path.is_file() for path in shards)


def test_an_index_that_names_files_of_another_checkpoint_takes_none_of_them(run: Path) -> None:
    _, others = spread(run, 100, stem=name_of(700, "sharded"))
    (held,) = holdings(run / "checkpoints")
    free = delete(run / "checkpoints", held, roots(run))
    assert free is not None
    free()
    assert all(path.is_file() for path in others)


def test_what_a_writer_that_died_left_in_a_root_is_known_by_its_folder(run: Path) -> None:
    _, whole = spread(run, 100)
    temporary = durable.temporary_for(run / "checkpoints" / name_of(200, "sharded"))
    temporary.mkdir()
    once = temporary.name.split(".")[-2]
    left = run / "fast" / f"{name_of(200, 'sharded')}.{once}.{shard_name(0)}"
    half = durable.temporary_for(left.with_name(left.name.replace("-000", "-001")))
    strangers = run / "fast" / left.name.replace(once, "0" * 12)
    for path in (left, half, strangers):
        path.write_bytes(b"half")
    remove_unfinished(run / "checkpoints", roots(run))
    assert set((run / "fast").iterdir()) == {whole[0], strangers}
    assert temporary.is_dir()


def test_a_checkpoint_with_shards_elsewhere_is_not_copied_to_another_run(run: Path) -> None:
    folder, _ = spread(run, 100)
    (run / "new").mkdir()
    with pytest.raises(StepkeeperError, match="lies in the root fast of shard_roots"):
        building.copied(folder, run / "new", "", companion=False)
    assert list((run / "new").iterdir()) == []


def test_bytes_that_move_are_those_of_our_own_write_in_folder_and_root(tmp_path: Path) -> None:
    folder, root = tmp_path / "checkpoints", tmp_path / "disk"
    begun = folder / ".step_000010.sharded.0123456789ab.tmp"
    begun.mkdir(parents=True)
    root.mkdir()
    ours = root / ".step_000010.sharded.0123456789ab.model.shard-000.pt.ba9876543210.tmp"
    theirs = root / ".step_000010.sharded.aaaaaaaaaaaa.model.shard-000.pt.bbbbbbbbbbbb.tmp"
    seen = [growing.marks(folder, {"disk": root})]
    for path in (theirs, ours, begun / "meta.pt", folder / "step_000010.json"):
        path.write_bytes(b"x")
        seen.append(growing.marks(folder, {"disk": root}))
    moved = [before != after for before, after in pairwise(seen)]
    assert moved == [False, True, True, False]


def test_a_disk_that_is_away_says_nothing_against_a_checkpoint(run: Path) -> None:
    folder, (first, _) = spread(run, 10)
    away = tuple((name, str(path)) for name, path in roots(run).items())

    def problem() -> str:
        found = verify(folder, Expected(roots=away), Manner(digest_only=True))["problem"]
        return str(found)

    assert problem() == ""
    first.unlink()  # as an empty mount point shows
    assert problem().startswith("cannot tell whether step_000010.sharded is good: ")
    first.parent.rmdir()
    assert problem().startswith("cannot tell whether step_000010.sharded is good: ")
    assert problem().endswith("mount the root fast of its shards")


@pytest.mark.parametrize("what", ["pipe", "link", "huge", "deep"])
def test_whatever_stands_where_an_index_should_the_listing_goes_on(run: Path, what: str) -> None:
    folder, _ = spread(run, 10)
    index = folder / "index.json"
    text = index.read_text()
    index.unlink()
    if what == "pipe":
        os.mkfifo(index)
    elif what == "link":
        (run / "elsewhere.json").write_text(text)
        index.symlink_to(run / "elsewhere.json")
    elif what == "huge":  # more digits than Python prints, once they are added up
        index.write_text(re.sub(r'"bytes": \d+', f'"bytes": {"9" * 4300}', text))
    else:
        index.write_text(text)
        (folder / "/".join("abcdefghijklmnopqrst")).mkdir(parents=True)
    seen: list[Catalogue] = []
    thread = threading.Thread(target=lambda: seen.append(look(run)), daemon=True)
    thread.start()
    thread.join(10)
    assert [refused.step for refused in seen[0].refused] == [10]
    assert "size: expected" in seen[0].refused[0].reason


def look(run: Path) -> Catalogue:
    catalogue = scan(run / "checkpoints")
    assert catalogue.sealed == ()
    return catalogue
