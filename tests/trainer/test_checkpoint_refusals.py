"""Checkpoints that must not be resumed are refused, and what has changed is named."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.trainer.tiny import TRAIN, Life, live, make_run
from trainer.contract.checkpoint_format import CheckpointFormatError
from trainer.errors import RefusedError


@pytest.fixture
def life(run: Path) -> Life:
    """A life that ended with the checkpoint of step 3."""
    return live(run, stop_after=3)


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
    rate = "the learning rate of the first update was to be 0.01 and is 0.02"
    assert [line.removeprefix("resumed from step_000003.bin, but ") for line in said] == [
        "settings.train.lr was 0.01 and is 0.02",
        f"{rate}, as settings or data have changed",
    ]
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


def test_what_a_resume_is_allowed_is_no_part_of_what_made_the_checkpoint(
    life: Life, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    allowed = {"strict": True, "device_change": True}
    other = make_run(tmp_path / "other", train={**TRAIN, **allowed})
    capfd.readouterr()
    live(other, resume=life.newest(), stop_after=4)
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
