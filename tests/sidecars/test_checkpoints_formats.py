"""Checkpoints of three formats, files and folders, are told, kept, moved and deleted alike."""

from __future__ import annotations

from pathlib import Path

import pytest

from supervisor.core.retention import Held
from supervisor.sidecars.checkpoints import (
    Refused,
    Unsealed,
    reject,
    scan,
    seals,
    write_seal,
)
from supervisor.sidecars.checkpoints.holdings import delete, finish_deletions, holdings
from supervisor.sidecars.checkpoints.presence import measure, parameters, sealed_path
from supervisor.sidecars.checkpoints.superseding import supersede
from tests.sidecars.sealing import bytes_in, checkpoint, lineage, record, snapshot
from trainer.contract import durable
from trainer.contract.checkpoint_format import FORMATS, companion_of, name_of, seal_of

OTHERS = FORMATS[1:]
every_format = pytest.mark.parametrize("form", FORMATS)


def mixed(folder: Path) -> dict[int, str]:
    """A lineage that changes its format twice; the seals' digests."""
    digests = lineage(folder, 100)
    digests |= lineage(folder, 200, previous=digests[100], form="pt")
    digests |= lineage(folder, 300, previous=digests[200], form="sharded")
    return digests | lineage(folder, 400, previous=digests[300])


def test_a_run_may_change_its_format_and_keeps_one_lineage(tmp_path: Path) -> None:
    mixed(tmp_path)
    catalogue = scan(tmp_path)
    names = [name_of(400), name_of(300, "sharded"), name_of(200, "pt"), name_of(100)]
    assert [seal.bin.name for seal in catalogue.sealed] == names
    assert catalogue.refused == catalogue.unsealed == catalogue.gaps == ()
    assert catalogue.present == (400, 300, 200, 100)
    assert sealed_path(tmp_path, 300) == tmp_path / name_of(300, "sharded")
    assert sealed_path(tmp_path, 500) is None
    assert [held.good for held in holdings(tmp_path)] == [True] * 4
    assert {held.step: held.bytes for held in holdings(tmp_path)} == {
        400: bytes_in(400),
        300: bytes_in(300, "sharded"),
        200: bytes_in(200, "pt"),
        100: bytes_in(100),
    }


def test_a_folder_has_the_bytes_of_all_its_files_and_of_no_link(tmp_path: Path) -> None:
    folder = tmp_path / name_of(100, "sharded")
    (folder / "deeper").mkdir(parents=True)
    (folder / "meta.pt").write_bytes(b"12345")
    (folder / "deeper/model.shard-000.pt").write_bytes(b"123")
    (tmp_path / "elsewhere").write_bytes(b"1234567")
    (folder / "link.pt").symlink_to(tmp_path / "elsewhere")
    assert measure(folder) == 8
    linked = tmp_path / name_of(200, "sharded")
    linked.symlink_to(folder)
    assert measure(linked) is None


@pytest.mark.parametrize("form", OTHERS)
def test_what_is_of_another_kind_than_its_format_is_told(tmp_path: Path, form: str) -> None:
    place = tmp_path / name_of(100, form)
    if form == "pt":
        place.mkdir()
    else:
        place.write_bytes(b"no folder")
    (tmp_path / f"step_7.{form}").write_bytes(b"")
    kind = "a regular file" if form == "pt" else "a folder"
    assert scan(tmp_path).unsealed == ()
    assert scan(tmp_path).refused == (
        Refused(100, place.name, f"kind: expected {kind}, found another"),
        Refused(0, f"step_7.{form}", f"name: expected step_NNNNNN.{form}, found another form"),
    )
    write_seal(tmp_path, record(100, form=form))
    (refused,) = (one for one in scan(tmp_path).refused if one.step)
    assert refused.reason.endswith(f"as sealed, found not {kind}")


@pytest.mark.parametrize("form", OTHERS)
def test_a_changed_size_and_a_lost_companion_are_refused(tmp_path: Path, form: str) -> None:
    lineage(tmp_path, 100, form=form)
    place = tmp_path / name_of(100, form)
    with (place / "meta.pt" if form == "sharded" else place).open("ab") as file:
        file.write(b"!")
    size = bytes_in(100, form)
    wanted = f"size: expected {size} bytes as sealed, found {size + 1} bytes"
    assert scan(tmp_path).refused == (Refused(100, place.name, wanted),)
    assert [held.good for held in holdings(tmp_path)] == [False]


def test_of_two_formats_of_a_step_the_sealed_one_counts_and_the_other_is_told(
    tmp_path: Path,
) -> None:
    lineage(tmp_path, 100, 200, form="pt")
    for other in (name_of(100), name_of(200)):
        (tmp_path / other).write_bytes(b"a stranger")
    checkpoint(tmp_path, 200, form="sharded")
    (tmp_path / name_of(100, "pt")).unlink()
    catalogue = scan(tmp_path)
    assert [seal.bin.name for seal in catalogue.sealed] == [name_of(200, "pt")]
    assert [seal.step for seal in catalogue.retired] == [100]
    assert catalogue.refused == (
        Refused(200, name_of(200, "sharded"), f"format: expected {name_of(200, 'pt')} as sealed"),
        Refused(200, name_of(200), f"format: expected {name_of(200, 'pt')} as sealed"),
        Refused(100, name_of(100), f"format: expected {name_of(100, 'pt')} as sealed"),
    )
    assert [held.name for held in holdings(tmp_path)] == [name_of(200, "pt")]


def test_of_two_formats_that_nobody_sealed_none_is_chosen_and_none_deleted(tmp_path: Path) -> None:
    lineage(tmp_path, 100)
    checkpoint(tmp_path, 200, beside=True)
    checkpoint(tmp_path, 200, form="sharded")
    checkpoint(tmp_path, 300, form="pt", beside=True)
    catalogue = scan(tmp_path)
    assert catalogue.unsealed == (Unsealed(300, name_of(300, "pt")),)
    reason = (
        f"format: expected one of {name_of(200)} and {name_of(200, 'sharded')}, and none is sealed"
    )
    assert catalogue.refused == (
        Refused(200, name_of(200, "sharded"), reason),
        Refused(200, name_of(200), reason),
    )
    assert {held.name for held in holdings(tmp_path)} == {name_of(100), name_of(300, "pt")}


def test_only_steps_with_several_make_a_start_read_older_seals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lineage(tmp_path, *range(100, 1100, 100))
    checkpoint(tmp_path, 200, form="pt")
    opened: list[str] = []
    read = seals.read

    def watch(path: Path) -> seals.SealRecord:
        opened.append(path.name)
        return read(path)

    monkeypatch.setattr("supervisor.sidecars.checkpoints.seals.read", watch)
    told = scan(tmp_path).passed_over(3)
    assert [refused.name for refused in told] == [name_of(200, "pt")]
    assert opened == [seal_of(step) for step in (1000, 900, 800, 200)]


@every_format
def test_everything_above_the_resume_point_is_moved_whole(tmp_path: Path, form: str) -> None:
    digests = lineage(tmp_path, 100, 200, form=form)
    checkpoint(tmp_path, 300, form=form, beside=True)
    before = snapshot(tmp_path)
    assert supersede(tmp_path, 7, 100) == (300, 200)
    assert [seal.step for seal in scan(tmp_path).sealed] == [100]
    away = tmp_path / "superseded/attempt-000007"
    moved = {name: data for name, data in before.items() if "000100" not in name}
    assert snapshot(away) == moved
    held = {one.step: one for one in holdings(tmp_path) if one.left}
    assert held[200].seal == digests[200]
    assert held[200].bytes == bytes_in(200, form)
    # The same steps again, of another life: nothing that lies there is replaced.
    checkpoint(tmp_path, 300, form=form)
    supersede(tmp_path, 7, 100)
    assert {name: data for name, data in snapshot(away).items() if ".2" not in name} == moved
    numbered = f"superseded/attempt-000007/{name_of(300, form)}.2"
    (second,) = (one for one in holdings(tmp_path) if one.name == numbered)
    assert second.bytes == bytes_in(300, form)
    _deleted(tmp_path, second)
    assert snapshot(away) == moved


def test_a_folder_is_never_moved_onto_anything(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    (source / "part").write_bytes(b"mine")
    target.write_bytes(b"a file")
    with pytest.raises(FileExistsError):
        durable.move(source, target)
    target.unlink()
    target.mkdir()
    (target / "part").write_bytes(b"another's")
    with pytest.raises(FileExistsError):
        durable.move(source, target)
    assert snapshot(tmp_path) == {"source/part": b"mine", "target/part": b"another's"}
    (target / "part").unlink()
    durable.move(source, target)
    assert snapshot(tmp_path) == {"target/part": b"mine"}


def _deleted(folder: Path, held: Held) -> None:
    free = delete(folder, held, {})
    assert free is not None
    free()
    assert delete(folder, held, {}) is None


@every_format
def test_a_deletion_takes_the_checkpoint_and_leaves_seal_and_companion(
    tmp_path: Path, form: str
) -> None:
    lineage(tmp_path, 100, 200, form=form)
    (tmp_path / companion_of(100)).write_bytes(b"kept")
    (held,) = (one for one in holdings(tmp_path) if one.step == 100)
    _deleted(tmp_path, held)
    left = {seal_of(100), companion_of(100), seal_of(200), name_of(200, form)}
    assert {path.name for path in tmp_path.iterdir()} == left
    assert [seal.step for seal in scan(tmp_path).retired] == [100]


def test_a_folder_on_its_way_out_is_no_checkpoint_and_cleared_at_a_start(tmp_path: Path) -> None:
    lineage(tmp_path, 100, form="sharded")
    (held,) = holdings(tmp_path)
    assert delete(tmp_path, held, {}) is not None  # and whoever was to free it died
    (left,) = tmp_path.glob(".deleted.*.tmp")
    assert (left / "index.json").is_file()
    assert scan(tmp_path).refused == scan(tmp_path).sealed == holdings(tmp_path) == ()
    trainers = durable.temporary_for(tmp_path / name_of(200, "sharded"))
    trainers.mkdir()
    (trainers / "model.shard-000.pt").write_bytes(b"half")
    (trainers / "link").symlink_to(tmp_path / seal_of(100))
    (go_on,) = finish_deletions(tmp_path, {})
    go_on()
    assert (left.exists(), trainers.exists()) == (False, True)
    durable.remove_temporaries(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [seal_of(100)]


@pytest.mark.parametrize("form", OTHERS)
def test_a_rejected_one_stays_until_newer_ones_are_there(tmp_path: Path, form: str) -> None:
    digests = lineage(tmp_path, 100, 200, form=form)
    reject(tmp_path, digests[200], "no progress")
    assert [seal.step for seal in scan(tmp_path).sealed] == [100]
    assert {held.step: held.good for held in holdings(tmp_path)} == {100: True, 200: False}


@every_format
def test_the_parameters_come_from_the_size_or_the_companion(tmp_path: Path, form: str) -> None:
    checkpoint(tmp_path, 100, beside=True, form=form)
    seal = record(100, form=form)
    assert parameters(tmp_path, seal) == 4
    (tmp_path / companion_of(100)).unlink()
    assert parameters(tmp_path, seal) == (4 if form == "bin" else 0)
