"""A visible checkpoint of any format is complete, and what must not be resumed is refused."""

from __future__ import annotations

import errno
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.crash_fs import CrashFs, Killed, crash_fs
from tests.trainer.tiny import MODEL, Life, live, make_run
from trainer import clock
from trainer.checkpoint import SealedError, refuse_without_room, write
from trainer.contract.checkpoint_format import CheckpointFormatError, name_of, room_for
from trainer.errors import RefusedError, SettingsError
from trainer.full_checkpoint import FullWriter
from trainer.identities import differences
from trainer.moment import Moment, take

FULL = ("pt", "sharded")
GPU = "NVIDIA H200"


def saving(folder: Path, form: str, **more: object) -> Path:
    """A run that saves in that format."""
    return make_run(folder, checkpoint={"every_steps": 1000, "format": form, **more})


@pytest.fixture(params=FULL)
def life(request: pytest.FixtureRequest, tmp_path: Path) -> Life:
    """A life that ended with the checkpoint of step 5, in each of the library's formats."""
    return live(saving(tmp_path / "run", request.param), stop_after=5)


def moment(life: Life) -> Moment:
    """The moment that it ended with."""
    made_by = companion(life)["identities"]
    return take(life.run.state, "cadence", made_by)


def companion(life: Life) -> dict[str, Any]:
    """The companion of the last checkpoint."""
    record: dict[str, Any] = json.loads(life.newest().with_suffix(".json").read_bytes())
    return record


def edit(life: Life, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the companion of the last checkpoint."""
    record = companion(life)
    change(record)
    life.newest().with_suffix(".json").write_text(json.dumps(record))


def resume(life: Life, **more: Any) -> Life:  # noqa: ANN401 - as ``live`` takes them
    """Go on for one step."""
    return live(life.checkpoints.parent, attempt=2, resume=life.newest(), stop_after=6, **more)


def contents(path: Path) -> dict[str, bytes]:
    """Every file of a checkpoint."""
    files = path.iterdir() if path.is_dir() else [path]
    return {file.name: file.read_bytes() for file in files}


@pytest.mark.parametrize("form", FULL)
def test_killed_at_any_write_sync_or_rename_the_checkpoint_is_absent_or_complete(
    tmp_path: Path, form: str
) -> None:
    life = live(saving(tmp_path / "run", form), stop_after=5)
    taken, writer = moment(life), FullWriter(form, shards=1)
    counting = CrashFs()
    with crash_fs(counting):
        writer(tmp_path / "count", taken)
    name = name_of(5, form)
    whole = contents(tmp_path / "count" / name)
    seen = set()
    for at, call in enumerate(counting.trace, 1):
        if call == "write" and at % 40:  # torch writes hundreds of small pieces
            continue
        folder = tmp_path / str(at)
        with crash_fs(CrashFs(at=at)), pytest.raises(Killed):
            writer(folder, taken)
        names = {path.name for path in folder.iterdir() if path.name[0] != "."}
        seen.add(frozenset(names))
        if name in names:
            assert contents(folder / name) == whole
    both = frozenset({"step_000005.json", name})
    assert seen == {frozenset(), frozenset({"step_000005.json"}), both}


def test_a_sealed_step_is_never_overwritten_in_any_format(life: Life) -> None:
    before = contents(life.newest())
    (life.checkpoints / "step_000005.seal.json").write_text("{}")
    for writer in (write, FullWriter("pt"), FullWriter("sharded")):
        with pytest.raises(SealedError, match="that step is sealed already"):
            writer(life.checkpoints, moment(life))
    assert contents(life.newest()) == before


def test_an_unsealed_rest_in_another_format_gives_way(life: Life) -> None:
    other = "sharded" if life.newest().suffix == ".pt" else "pt"
    FullWriter(other)(life.checkpoints, moment(life))
    assert life.newest().name == name_of(5, other)
    write(life.checkpoints, moment(life))
    visible = {path.name for path in life.checkpoints.iterdir()}
    assert visible == {"step_000005.bin", "step_000005.json"}


def test_room_is_looked_for_first(tmp_path: Path) -> None:
    refuse_without_room(tmp_path, tmp_path / "x", 1)
    with pytest.raises(OSError, match="bytes are needed and") as caught:
        refuse_without_room(tmp_path, tmp_path / "x", 1 << 62)
    assert caught.value.errno == errno.ENOSPC


def test_a_trainer_waits_for_no_more_room_than_its_supervisor_tells_of(life: Life) -> None:
    taken, newest = moment(life), life.newest()
    files = newest.iterdir() if newest.is_dir() else [newest]
    told = room_for(taken.n_params, sum(file.stat().st_size for file in files))
    assert FullWriter(newest.suffix[1:]).needed(taken, here=True) <= told


def test_one_changed_byte_is_refused_by_the_name_of_its_file(life: Life) -> None:
    path = life.newest()
    for file in sorted(path.iterdir()) if path.is_dir() else [path]:
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 1
        kept = file.read_bytes()
        file.write_bytes(data)
        with pytest.raises(RefusedError, match=rf"cannot resume from .*{file.name}"):
            resume(life)
        file.write_bytes(kept)
    assert resume(life).last_step() == 6


def test_a_missing_companion_is_refused_even_where_a_bin_may_lack_it(life: Life) -> None:
    life.newest().with_suffix(".json").unlink()
    with pytest.raises(RefusedError, match=r"its companion step_000005\.json is missing"):
        resume(life, bare=True)


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda record: record.update(sha256="0" * 64), "SHA-256: expected 0000"),
        (lambda record: record.update(step=6), "step: expected 5, found 6"),
    ],
    ids=["digest", "step"],
)
def test_a_companion_of_another_checkpoint_is_refused(
    life: Life, change: Callable[[dict[str, Any]], None], found: str
) -> None:
    edit(life, change)
    with pytest.raises((RefusedError, CheckpointFormatError), match=found):
        resume(life)


def test_a_companion_of_another_format_is_refused(life: Life) -> None:
    other = {"pt": "sharded", "sharded": "pt"}[companion(life)["format"]]
    edit(life, lambda record: record.update(format=other))
    with pytest.raises(CheckpointFormatError, match=rf"format: expected .*, found {other}"):
        resume(life)


def test_a_checkpoint_under_another_step_is_refused(life: Life) -> None:
    path = life.newest()
    edit(life, lambda record: record.update(step=6))
    path.with_suffix(".json").rename(life.checkpoints / "step_000006.json")
    path.rename(path.with_stem("step_000006"))
    with pytest.raises(CheckpointFormatError, match="step: expected 6 as in the name, found 5"):
        resume(life)


@pytest.mark.parametrize(
    ("model", "found"),
    [
        ({"layers": 2}, "parameters of this model"),
        ({"context": 8}, r"expected \('positions', \(8, 16\)\)"),
    ],
)
def test_a_model_of_another_structure_is_refused(
    life: Life, tmp_path: Path, model: dict[str, int], found: str
) -> None:
    other = make_run(tmp_path / "other", model=model)
    with pytest.raises(CheckpointFormatError, match=found):
        live(other, resume=life.newest())


def test_what_was_restored_is_compared_with_what_the_companion_says(life: Life) -> None:
    """The payload is what is restored, so a companion that says otherwise is a fault."""
    edit(life, lambda record: record["rng"]["python"][1].reverse())
    with pytest.raises(RefusedError, match="moved the generators of python"):
        resume(life)


def as_made_on_a_gpu(record: dict[str, Any]) -> None:
    """Made on a machine with three of them."""
    record["identities"]["versions"]["device"] = GPU
    record["rng"]["cuda"] = ["00" * 16] * 3


@pytest.mark.parametrize("form", ["bin", *FULL])
def test_another_kind_of_device_is_refused_by_name_or_taken_and_recorded(
    tmp_path: Path, form: str, capfd: pytest.CaptureFixture[str]
) -> None:
    life = live(saving(tmp_path / "run", form), stop_after=5)
    edit(life, as_made_on_a_gpu)
    with pytest.raises(
        RefusedError, match=rf"it was made on cuda \({GPU}\), and this is cpu; give"
    ):
        resume(life)
    capfd.readouterr()
    second = resume(life, device_change=True)
    said = capfd.readouterr().err
    assert f"it was made on cuda ({GPU}), and this is cpu: CUDA generators are left out" in said
    made_by = companion(second)["identities"]
    assert made_by["device_changes"] == [f"after step 5: cuda ({GPU}), and this is cpu"]
    third = live(life.checkpoints.parent, attempt=3, resume=second.newest(), stop_after=7)
    assert companion(third)["identities"]["device_changes"] == made_by["device_changes"]
    assert differences(made_by, {**made_by, "device_changes": []}) == []


def test_a_model_too_large_for_a_bin_is_refused_before_it_is_built(tmp_path: Path) -> None:
    large = {**MODEL, "width": 65536, "heads": 1, "layers": 1}
    run = make_run(tmp_path / "run", model=large)
    began = clock.seconds()
    with pytest.raises(CheckpointFormatError, match='needs the sharded format, format = "sharded"'):
        live(run)
    assert clock.seconds() - began < 5.0


@pytest.mark.parametrize(
    ("checkpoint", "found"),
    [
        ({"split": "by_group", "shards": 1}, "cannot use checkpoint.shards: .*2 groups"),
        ({"shard_roots": {"a": "nowhere"}}, "shard_roots: no folder: a = .*nowhere"),
    ],
)
def test_shards_that_cannot_be_written_are_refused_at_the_start(
    tmp_path: Path, checkpoint: dict[str, Any], found: str
) -> None:
    with pytest.raises(SettingsError, match=found):
        live(saving(tmp_path / "run", "sharded", **checkpoint))


def test_shards_in_a_folder_that_is_no_longer_named_are_refused_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    life = live(saving(tmp_path / "run", "sharded", shard_roots={"a": "../disk"}), stop_after=5)
    other = saving(tmp_path / "other", "sharded")
    shutil.copytree(life.checkpoints, other / "checkpoints")
    with pytest.raises(RefusedError, match="a shard lies in the root a, which is not among"):
        live(other, resume=other / "checkpoints" / life.newest().name)


def test_a_disk_of_shards_that_went_away_is_waited_out_like_any_failing_disk(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "disk").mkdir()
    run = saving(tmp_path / "run", "sharded", every_steps=3, shard_roots={"a": "../disk"})

    def away() -> None:
        (tmp_path / "disk").rename(tmp_path / "gone")

    def back() -> None:
        (tmp_path / "gone").rename(tmp_path / "disk")

    life = live(run, stop_after=6, acts={("step", 3): away, ("step", 4): back})
    assert "cannot write the checkpoint of step 3" in capfd.readouterr().err
    assert [path.name for path in sorted(life.checkpoints.glob("*.sharded"))] == [
        "step_000006.sharded"
    ]
