"""A visible ``.bin`` is complete whatever goes wrong when, and a bad one is refused."""

from __future__ import annotations

import errno
import hashlib
import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.support.crash_fs import CrashFs, Killed, crash_fs
from tests.trainer.tiny import TRAIN, Life, live, make_run
from trainer.checkpoint import SealedError, write
from trainer.contract.checkpoint_format import CheckpointFormatError, read_companion
from trainer.contract.wire import Checkpoint
from trainer.errors import RefusedError
from trainer.moment import take


@pytest.fixture
def life(run: Path) -> Life:
    """A life that ended with the checkpoint of step 3."""
    return live(run, stop_after=3)


def test_the_file_holds_step_count_weights_m_and_v_in_the_models_order(life: Life) -> None:
    data = life.newest().read_bytes()
    state = life.run.state
    n = state.n_params
    assert len(data) == 8 + 12 * n
    assert struct.unpack_from("<ii", data) == (3, n)
    parameters = [p.detach() for p in state.model.parameters()]
    flat = torch.cat([t.reshape(-1) for t in (*parameters, *state.optimizer.m, *state.optimizer.v)])
    assert data[8:] == flat.numpy().astype("<f4").tobytes()
    names = [name for name, _ in state.model.named_parameters()]
    attention_and_mlp = [f"layers.0.{part}" for part in ("qkv", "out", "up", "down")]
    assert names == ["tokens", "positions", *attention_and_mlp, "head.weight"]


def test_companion_report_and_file_agree(life: Life) -> None:
    path = life.newest()
    companion = read_companion(path.with_suffix(".json").read_bytes(), "x")
    report = life.of(Checkpoint)[-1]
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert companion.sha256 == report.sha256 == digest
    assert companion.bytes == report.bytes == path.stat().st_size
    assert companion.step == report.step == 3
    assert report.name == path.name
    assert companion.reason == report.reason == "stop"
    assert report.save is None


def visible(folder: Path) -> set[str]:
    """Names in the folder, temporary ones left out."""
    return {path.name for path in folder.iterdir() if not path.name.startswith(".")}


def test_killed_at_any_write_or_sync_the_bin_is_absent_or_complete(
    life: Life, tmp_path: Path
) -> None:
    counting = CrashFs()
    with crash_fs(counting):
        write(tmp_path / "count", take(life.run.state, "cadence", {}))
    whole = (tmp_path / "count" / "step_000003.bin").read_bytes()
    assert counting.trace.count("fsync") == 4  # companion, folder, .bin, folder
    assert counting.trace.index("fsync") > 3  # the whole .bin is written before anything is synced
    seen = set()
    for at in range(1, counting.calls + 1):
        folder = tmp_path / str(at)
        with crash_fs(CrashFs(at=at)), pytest.raises(Killed):
            write(folder, take(life.run.state, "cadence", {}))
        names = visible(folder)
        seen.add(frozenset(names))
        if "step_000003.bin" in names:
            assert (folder / "step_000003.bin").read_bytes() == whole
            assert (folder / "step_000003.json").exists()
    assert seen == {
        frozenset(),
        frozenset({"step_000003.json"}),
        frozenset({"step_000003.json", "step_000003.bin"}),
    }


def test_the_bin_gets_its_name_only_when_all_its_bytes_and_its_companion_are_durable(
    life: Life, tmp_path: Path
) -> None:
    calls = CrashFs()
    with crash_fs(calls):
        write(tmp_path / "count", take(life.run.state, "cadence", {}))
    plan = CrashFs(at=calls.calls)  # the folder's sync behind the last rename
    with crash_fs(plan), pytest.raises(Killed):
        write(tmp_path / "x", take(life.run.state, "cadence", {}))
    for name in ("step_000003.bin", "step_000003.json"):
        path = tmp_path / "x" / name
        assert plan.durable(path) == path.stat().st_size


def test_a_failed_sync_discards_the_file_and_another_one_is_written(
    run: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    plan = CrashFs()
    failed: list[str] = []

    def fail_next_sync() -> None:
        # Behind the report "save" come the reports' own sync, then the checkpoint's four.
        plan.at, plan.error = plan.calls + 1 + life_writes() + 3, errno.EIO
        failed.append("armed")

    def life_writes() -> int:
        return 1 + len(list(states[0].arrays())) + 1  # header, arrays, companion

    states: list[Any] = []
    with crash_fs(plan):
        life = live(
            run,
            stop_after=4,
            acts={("doing", 4): fail_next_sync},
            change=lambda built: states.append(built.state),
        )
    assert failed
    assert plan.trace[plan.at - 1] == "fsync"
    said = capfd.readouterr().err
    assert "cannot write the checkpoint of step 4: [Errno 5]" in said
    assert "that file is discarded" in said
    assert len(life.of(Checkpoint)) == 1
    assert [path.name for path in life.checkpoints.iterdir() if path.name[0] == "."] == []
    live(run, attempt=2, resume=life.newest(), stop_after=5)


def test_a_sealed_step_is_never_overwritten(life: Life) -> None:
    path = life.newest()
    before = path.read_bytes()
    (path.parent / "step_000003.seal.json").write_text("{}")
    life.run.state.optimizer.m[0].fill_(1.0)
    with pytest.raises(SealedError, match=r"step_000003\.bin: that step is sealed already"):
        write(path.parent, take(life.run.state, "cadence", {}))
    assert path.read_bytes() == before


def test_an_unsealed_rest_of_an_earlier_life_gives_way(life: Life) -> None:
    path = life.newest()
    path.write_bytes(b"torn")
    write(path.parent, take(life.run.state, "cadence", {}))
    assert path.stat().st_size == 8 + 12 * life.run.state.n_params


# What must not be resumed is refused with what was expected and what was found.


def edit_companion(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the companion beside a ``.bin``."""
    beside = path.with_suffix(".json")
    record = json.loads(beside.read_bytes())
    change(record)
    beside.write_text(json.dumps(record))


def flip(path: Path) -> None:
    """Flip one bit in the middle."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def cut(path: Path) -> None:
    """Leave the last number out."""
    path.write_bytes(path.read_bytes()[:-4])


def restep(path: Path) -> None:
    """Give the header another step."""
    path.write_bytes(struct.pack("<i", 4) + path.read_bytes()[4:])


def other_digest(path: Path) -> None:
    """Say another digest."""
    edit_companion(path, lambda record: record.update(sha256="0" * 64))


def other_step(path: Path) -> None:
    """Say another step."""
    edit_companion(path, lambda record: record.update(step=4))


def other_name(path: Path) -> None:
    """Name a parameter otherwise."""
    edit_companion(path, lambda record: record["parameters"][0].__setitem__(0, "wte"))


FAULTS = {
    "a flipped bit": (flip, "sha256: expected [0-9a-f]{64}, found [0-9a-f]{64}"),
    "a short file": (cut, r"size for \d+ parameters: expected \d+ bytes, found \d+ bytes"),
    "another step in the header": (restep, "step in the header: expected 3 as in the name"),
    "another digest": (other_digest, "sha256: expected 0{64}, found [0-9a-f]{64}"),
    "another step in the companion": (other_step, "step: expected 3, found 4"),
    "another parameter": (other_name, r"parameters of this model: expected \('tokens'.*'wte'"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_damaged_checkpoint_is_refused(life: Life, run: Path, name: str) -> None:
    damage, message = FAULTS[name]
    damage(life.newest())
    with pytest.raises(CheckpointFormatError, match=message):
        live(run, attempt=2, resume=life.newest())


def test_a_checkpoint_without_companion_is_refused_by_name(life: Life, run: Path) -> None:
    path = life.newest()
    path.with_suffix(".json").unlink()
    message = r"step_000003\.bin: its companion step_000003\.json is missing"
    with pytest.raises(RefusedError, match=message):
        live(run, attempt=2, resume=path)


def test_a_missing_checkpoint_is_refused(run: Path) -> None:
    with pytest.raises(RefusedError, match=r"resume from .*step_000009\.bin: No such file"):
        live(run, resume=run / "checkpoints" / "step_000009.bin")


@pytest.mark.parametrize(
    ("model", "found"),
    [
        ({"width": 32}, r"expected \('tokens', \(256, 32\)\), found \('tokens', \(256, 16\)\)"),
        ({"layers": 2}, r"expected \('layers.1.qkv', \(48, 16\)\), found \('head.weight'"),
        ({"context": 8}, r"expected \('positions', \(8, 16\)\)"),
    ],
)
def test_a_model_of_another_structure_is_refused(
    life: Life, tmp_path: Path, model: dict[str, int], found: str
) -> None:
    other = make_run(tmp_path / "other", model={**model})
    with pytest.raises(CheckpointFormatError, match=found):
        live(other, resume=life.newest())


def test_a_changed_setting_takes_effect_and_is_named(
    life: Life, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    other = make_run(tmp_path / "other", train={**TRAIN, "lr": 0.02})
    capfd.readouterr()
    second = live(other, resume=life.newest(), stop_after=4)
    said = capfd.readouterr().err.splitlines()
    assert said == ["resumed from step_000003.bin, but settings.train.lr was 0.01 and is 0.02"]
    assert second.run.sections.train.lr == 0.02


def test_changed_code_and_libraries_are_named(
    life: Life, run: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def age(record: dict[str, Any]) -> None:
        record["identities"]["code"] = "0" * 64
        record["identities"]["versions"]["torch"] = "2.6.0"
        record["identities"]["data"]["files"] = "1" * 64

    edit_companion(life.newest(), age)
    capfd.readouterr()
    live(run, attempt=2, resume=life.newest(), stop_after=4)
    said = capfd.readouterr().err
    assert "code was 000000000000... and is" in said
    assert f"versions.torch was 2.6.0 and is {torch.__version__}" in said
    assert "data.files was 111111111111... and is" in said


def test_nothing_is_said_where_nothing_has_changed(
    life: Life, run: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    capfd.readouterr()
    live(run, attempt=2, resume=life.newest(), stop_after=4)
    assert capfd.readouterr().err == ""


def test_strict_refuses_what_is_otherwise_only_named(life: Life, tmp_path: Path) -> None:
    other = make_run(tmp_path / "other", train={**TRAIN, "lr": 0.02, "strict": True})
    with pytest.raises(RefusedError, match=r"strict = true: settings\.train\.lr was 0\.01"):
        live(other, resume=life.newest())


@pytest.mark.parametrize(
    "spoil",
    [
        lambda record: record["rng"].pop("torch"),
        lambda record: record["rng"].update(torch="zz"),
        lambda record: record["rng"].update(mixer=[3, [1], None]),
        lambda record: record["cursors"].update(files={"epoch": -1}),
        lambda record: record["schedule"].clear(),
        lambda record: record.update(phase={"number": 1}),
    ],
    ids=["no torch state", "no hex", "short state", "no cursor", "no schedule", "no phase"],
)
def test_a_companion_that_cannot_be_restored_is_refused(
    life: Life, run: Path, spoil: Callable[[dict[str, Any]], None]
) -> None:
    edit_companion(life.newest(), spoil)
    with pytest.raises(RefusedError, match=r"cannot resume from .*step_000003\.bin: its companion"):
        live(run, attempt=2, resume=life.newest())
