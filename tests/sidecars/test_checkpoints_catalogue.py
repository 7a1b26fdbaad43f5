"""The catalogue: what a run can resume from, told from everything else that lies in the folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from supervisor.errors import RefusedError
from supervisor.sidecars import checkpoints
from supervisor.sidecars.checkpoints import Gap, Refused, Unsealed, scan, write_seal
from supervisor.sidecars.checkpoints.superseding import supersede
from tests.sidecars.sealing import checkpoint, companion, content, lineage, record
from trainer.contract.checkpoint_format import companion_of, name_of, seal_of


def steps(folder: Path) -> list[int]:
    return [seal.step for seal in scan(folder).sealed]


def reasons(folder: Path) -> dict[str, str]:
    return {refused.name: refused.reason for refused in scan(folder).refused}


def test_sealed_ones_come_newest_first_by_number(tmp_path: Path) -> None:
    lineage(tmp_path, 900, 1000, 999_999, 1_000_000)
    os.utime(tmp_path / seal_of(900))  # neither age nor the alphabet counts
    assert steps(tmp_path) == [1_000_000, 999_999, 1000, 900]
    newest = scan(tmp_path).newest(2)
    assert [seal.step for seal in newest] == [1_000_000, 999_999]
    assert newest[0].previous == newest[1].digest


def test_a_folder_that_is_empty_or_not_there_holds_nothing(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "gone"):
        catalogue = scan(folder)
        assert catalogue.sealed == catalogue.unsealed == catalogue.refused == ()
        assert catalogue.newest() == ()


def test_wrong_files_of_every_kind_are_left_alone_or_told(tmp_path: Path) -> None:
    lineage(tmp_path, 100)
    for name in (
        ".step_000200.bin.0123456789ab.tmp",
        "step_000200.bin.part",
        "notes.txt",
        "step_000200.json",
        "STEP_000200.bin",
        "pins.json~",
    ):
        (tmp_path / name).write_bytes(content(200))
    for name in ("step_200.bin", "step_0000200.bin", "step_-00200.bin", "step_٠٠٠٢٠٠.bin"):
        (tmp_path / name).write_bytes(content(200))
    (tmp_path / "step_000300.bin").mkdir()
    (tmp_path / "step_000400.bin").symlink_to(tmp_path / name_of(100))
    (tmp_path / "superseded").mkdir()
    catalogue = scan(tmp_path)
    assert steps(tmp_path) == [100]
    assert catalogue.unsealed == ()
    told = reasons(tmp_path)
    assert set(told) == {
        "step_200.bin",
        "step_0000200.bin",
        "step_-00200.bin",
        "step_٠٠٠٢٠٠.bin",
        "step_000300.bin",
        "step_000400.bin",
    }
    assert told["step_200.bin"] == "name: expected step_NNNNNN.bin, found another form"
    assert told["step_000400.bin"] == "kind: expected a regular file, found another"


def test_unsealed_ones_are_told_without_reading_a_seal(tmp_path: Path) -> None:
    lineage(tmp_path, 100)
    (tmp_path / seal_of(100)).write_bytes(b"not a seal")
    checkpoint(tmp_path, 200)
    checkpoint(tmp_path, 300)
    found = scan(tmp_path).unsealed
    assert found == (Unsealed(300, name_of(300)), Unsealed(200, name_of(200)))


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda folder: (folder / name_of(200)).write_bytes(content(200)[:-1]), "size: expected"),
        (lambda folder: (folder / name_of(200)).write_bytes(b""), "found 0 bytes"),
        (lambda folder: (folder / seal_of(200)).write_bytes(b"{}"), "expected schema"),
        (lambda folder: (folder / seal_of(200)).write_bytes(b"\0" * 600), "expected a JSON object"),
        (lambda folder: (folder / companion_of(200)).unlink(), "companion: expected"),
    ],
    ids=["short", "empty", "foreign seal", "nul seal", "no companion"],
)
def test_a_spoilt_newest_one_is_refused_with_its_reason_and_the_older_one_stays(
    tmp_path: Path, spoil: object, reason: str
) -> None:
    digests = lineage(tmp_path, 100)
    data = content(200)
    (tmp_path / name_of(200)).write_bytes(data)
    (tmp_path / companion_of(200)).write_bytes(companion(200, data))
    write_seal(tmp_path, record(200, digests[100], companion="c" * 64))
    assert steps(tmp_path) == [200, 100]
    assert callable(spoil)
    spoil(tmp_path)
    assert steps(tmp_path) == [100]
    ((name, told),) = reasons(tmp_path).items()
    assert "000200" in name
    assert reason in told


def test_a_deleted_bin_leaves_its_seal_in_the_lineage(tmp_path: Path) -> None:
    lineage(tmp_path, 100, 200, 300)
    (tmp_path / name_of(200)).unlink()
    catalogue = scan(tmp_path)
    assert [seal.step for seal in catalogue.sealed] == [300, 100]
    assert [seal.step for seal in catalogue.retired] == [200]
    assert catalogue.gaps == catalogue.refused == ()


def test_a_seal_that_the_lineage_passes_over_is_refused(tmp_path: Path) -> None:
    digests = lineage(tmp_path, 100, 200)
    lineage(tmp_path, 250, previous=digests[100])  # of a life that was left behind
    lineage(tmp_path, 300, 400, previous=digests[200])
    assert steps(tmp_path) == [400, 300, 200, 100]
    told = reasons(tmp_path)
    assert set(told) == {seal_of(250)}
    assert told[seal_of(250)].startswith("lineage: the seal of step 300 follows another")


def test_seals_from_before_the_first_one_are_refused(tmp_path: Path) -> None:
    lineage(tmp_path, 100, 200)
    lineage(tmp_path, 300, 400)  # another run's, or one begun anew
    assert steps(tmp_path) == [400, 300]
    assert set(reasons(tmp_path)) == {seal_of(100), seal_of(200)}


def test_a_missing_seal_is_a_gap_that_is_told_and_not_the_end(tmp_path: Path) -> None:
    digests = lineage(tmp_path, 100, 200, 300)
    (tmp_path / seal_of(200)).unlink()
    catalogue = scan(tmp_path)
    assert [seal.step for seal in catalogue.sealed] == [300, 100]
    assert catalogue.gaps == (Gap(300, digests[200]),)
    assert catalogue.unsealed == (Unsealed(200, name_of(200)),)


def test_an_unreadable_seal_in_the_middle_is_refused_and_leaves_a_gap(tmp_path: Path) -> None:
    lineage(tmp_path, 100, 200, 300)
    (tmp_path / seal_of(200)).write_bytes(b"torn")
    catalogue = scan(tmp_path)
    assert [seal.step for seal in catalogue.sealed] == [300, 100]
    assert [refused.step for refused in catalogue.refused] == [200]
    assert len(catalogue.gaps) == 1


def test_asking_for_the_newest_reads_only_what_it_needs(tmp_path: Path) -> None:
    lineage(tmp_path, *range(100, 1100, 100))
    catalogue = scan(tmp_path)
    for step in range(100, 800, 100):
        (tmp_path / seal_of(step)).unlink()
    assert [seal.step for seal in catalogue.newest(3)] == [1000, 900, 800]


def test_a_rejected_one_is_never_offered_and_its_successor_of_the_same_step_is(
    tmp_path: Path,
) -> None:
    digests = lineage(tmp_path, 100, 200)
    checkpoints.reject(tmp_path, digests[200], "three attempts without progress")
    assert steps(tmp_path) == [100]
    assert reasons(tmp_path) == {name_of(200): "rejected: three attempts without progress"}
    supersede(tmp_path, 5, 100)
    checkpoint(tmp_path, 200)
    write_seal(tmp_path, record(200, digests[100], attempt=5))
    assert steps(tmp_path) == [200, 100]


def test_pins_are_kept_with_their_notes(tmp_path: Path) -> None:
    assert checkpoints.pins(tmp_path) == {}
    checkpoints.pin(tmp_path, 112700, "before the change")
    checkpoints.pin(tmp_path, 100, "")
    checkpoints.pin(tmp_path, 112700, "the best one, ünïcode")
    assert checkpoints.pins(tmp_path) == {112700: "the best one, ünïcode", 100: ""}
    checkpoints.unpin(tmp_path, 100)
    checkpoints.unpin(tmp_path, 100)
    assert checkpoints.pins(tmp_path) == {112700: "the best one, ünïcode"}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[]",
        b'{"schema": "stepkeeper.pins/2", "marks": {}}',
        b'{"schema": "stepkeeper.pins/1", "marks": {"a": ""}}',
        b'{"schema": "stepkeeper.pins/1", "marks": {"1": 1}}',
    ],
)
def test_pins_that_cannot_be_read_are_refused_and_not_overwritten(
    tmp_path: Path, data: bytes
) -> None:
    path = tmp_path / "pins.json"
    path.write_bytes(data)
    with pytest.raises(RefusedError, match=f"^cannot use {path}: "):
        checkpoints.pins(tmp_path)
    with pytest.raises(RefusedError):
        checkpoints.pin(tmp_path, 1, "")
    assert path.read_bytes() == data


def test_refusals_say_what_and_where(tmp_path: Path) -> None:
    lineage(tmp_path, 100)
    (tmp_path / name_of(100)).write_bytes(b"short")
    wanted = f"size: expected {len(content(100))} bytes as sealed, found 5 bytes"
    assert scan(tmp_path).refused == (Refused(100, name_of(100), wanted),)


def test_a_start_hears_of_what_it_passes_over_and_reads_nothing_older(tmp_path: Path) -> None:
    lineage(tmp_path, *range(100, 2100, 100))
    for step in (100, 2000):
        (tmp_path / name_of(step)).write_bytes(b"torn")
    (tmp_path / "step_7.bin").write_bytes(b"")
    found = scan(tmp_path)
    told = [refused.name for refused in found.passed_over(3)]
    assert told == [name_of(2000), "step_7.bin"]
    (tmp_path / seal_of(1600)).unlink()  # behind the third newest: never opened
    assert [seal.step for seal in found.newest(3)] == [1900, 1800, 1700]
    assert [refused.name for refused in found.passed_over(3)] == told
