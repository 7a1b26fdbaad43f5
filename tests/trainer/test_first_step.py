"""The first step after a resume is held against the companion before it changes a weight."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.trainer.tiny import TRAIN, Life, live, make_run
from trainer.contract.checkpoint_format import FORMATS
from trainer.contract.wire import Step
from trainer.data import Cursor
from trainer.errors import RefusedError
from trainer.run import Run


@pytest.fixture(params=FORMATS)
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A tiny run, in each format."""
    checkpoint = {"every_steps": 1000, "format": request.param}
    return make_run(tmp_path / "run", checkpoint=checkpoint)


@pytest.fixture
def life(run: Path) -> Life:
    """A life that ended with the checkpoint of step 5."""
    return live(run, stop_after=5)


def refused(life: Life, change: Callable[[Run], None], run: Path) -> str:
    """What a resume of ``life`` says that is changed behind the restore; no step was done."""
    reports = run / "reports-2.jsonl"
    with pytest.raises(RefusedError) as caught:
        live(run, attempt=2, resume=life.newest(), change=change)
    assert b'"report":"step"' not in reports.read_bytes()
    text = str(caught.value)
    assert text.startswith(f"cannot resume from {life.newest().name}: ")
    return text


@pytest.mark.parametrize(
    ("name", "move"),
    [
        ("python", lambda _: random.seed(7)),
        ("numpy", lambda _: np.random.seed(7)),  # noqa: NPY002 - the global one is meant
        ("torch", lambda _: torch.manual_seed(7)),
        ("the mixer", lambda run: run.state.mixer._generator.seed(7)),
    ],
)
def test_a_constructor_that_reseeds_after_the_restore_is_caught(
    life: Life, run: Path, name: str, move: Callable[[Run], object]
) -> None:
    said = refused(life, lambda built: _do(move(built)), run)
    assert f"something moved the generators of {name} after they were put back" in said


def _do(_: object) -> None:
    """The act is done by the time this is called."""


def test_a_cursor_moved_by_one_is_caught(life: Life, run: Path) -> None:
    def move(built: Run) -> None:
        cursors = built.state.mixer.cursors
        for arm, cursor in cursors.items():
            cursors[arm] = Cursor(cursor.epoch, cursor.position, cursor.offset + 1)

    assert "the next document of arm" in refused(life, move, run)


def test_a_schedule_shifted_by_one_is_caught(life: Life, run: Path) -> None:
    def shift(built: Run) -> None:
        built.state.optimizer.updates += 1

    assert "the learning rate of the first update was to be" in refused(life, shift, run)


def test_a_rate_that_the_operator_changed_is_named_with_both_values(
    life: Life, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    other = make_run(tmp_path / "other", train={**TRAIN, "lr": 0.02})
    capfd.readouterr()
    second = live(other, resume=life.newest(), stop_after=6)
    said = capfd.readouterr().err
    was, now = companion(life)["next"]["lr"], second.of(Step)[0].lr
    assert now == 2 * was
    assert f"the learning rate of the first update was to be {was} and is {now}" in said


def test_an_arm_whose_data_changed_is_named_with_both_places(
    life: Life, run: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for path in (run / "files").iterdir():
        path.unlink()
    for number in range(3):
        (run / "files" / f"{number}.txt").write_text("other words in another number of files")
    capfd.readouterr()
    live(run, attempt=2, resume=life.newest(), stop_after=12)
    said = capfd.readouterr().err
    assert "data.files was" in said
    places = companion(life)["next"]["arms"]
    assert f"was to be {places['files']} and is" in said or "arm files" not in said


def test_a_changed_order_of_documents_is_named(
    life: Life, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    other = make_run(tmp_path / "other", train={**TRAIN, "seed": 1})
    capfd.readouterr()
    live(other, resume=life.newest(), stop_after=6)
    assert "the next document of arm" in capfd.readouterr().err


def test_a_companion_whose_next_step_is_none_of_ours_is_refused(life: Life, run: Path) -> None:
    path = life.newest().with_suffix(".json")
    path.write_text(json.dumps({**companion(life), "next": {"rate": 1.0}}))
    with pytest.raises(RefusedError, match="its companion: cannot use its next step"):
        live(run, attempt=2, resume=life.newest())


def test_a_companion_without_a_next_step_is_resumed(life: Life, run: Path) -> None:
    path = life.newest().with_suffix(".json")
    path.write_text(json.dumps({**companion(life), "next": None}))
    assert live(run, attempt=2, resume=life.newest(), stop_after=6).last_step() == 6


def companion(life: Life) -> dict[str, Any]:
    """The companion of the last checkpoint."""
    record: dict[str, Any] = json.loads(life.newest().with_suffix(".json").read_bytes())
    return record
