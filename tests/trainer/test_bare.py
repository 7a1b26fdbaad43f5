"""A checkpoint of other software: weights and moments are there, a companion is not."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.trainer.tiny import Process, launch, live
from trainer.contract.wire import Ready, Step
from trainer.errors import RefusedError
from trainer.preparation import prepare
from trainer.reports import FileReports
from trainer.run import Run
from trainer.signals import Requests


@pytest.fixture
def bare(run: Path) -> Path:
    """A ``.bin`` of step 5 without its companion."""
    path = live(run, stop_after=5).newest()
    path.with_suffix(".json").unlink()
    return path


def resumed(run: Path, path: Path, *, bare: bool) -> Run:
    how = launch(run, 2, path)._replace(bare=bare)
    file = FileReports(run / "reports-2.jsonl", lambda: False)
    try:
        return prepare(how, file, Requests())
    finally:
        file.close()


def test_weights_and_moments_go_on_and_the_rest_begins_anew(run: Path, bare: Path) -> None:
    built = resumed(run, bare, bare=True)
    arrays = torch.cat([array.reshape(-1) for array in built.state.arrays()])
    stored = torch.frombuffer(bytearray(bare.read_bytes()[8:]), dtype=torch.float32)
    assert torch.equal(arrays, stored)
    assert (built.state.step, built.state.optimizer.updates) == (5, 5)
    assert built.state.phase is None


def test_without_the_supervisors_word_or_with_strict_it_is_refused(run: Path, bare: Path) -> None:
    with pytest.raises(RefusedError, match=r"its companion .* is missing"):
        resumed(run, bare, bare=False)
    settings = run / "run.toml"
    settings.write_text(settings.read_text().replace("[train]", "[train]\nstrict = true"))
    with pytest.raises(RefusedError, match=r"train\.strict = true: it has no companion"):
        resumed(run, bare, bare=True)


def test_a_model_of_another_size_is_refused(run: Path, bare: Path) -> None:
    data = bare.read_bytes()
    smaller = (len(data) - 8) // 12 - 1
    bare.write_bytes(data[:4] + smaller.to_bytes(4, "little") + data[8 : 8 + 12 * smaller])
    with pytest.raises(ValueError, match="n_params as this model has: expected"):
        resumed(run, bare, bare=True)


def test_the_supervisors_word_is_in_the_environment_and_our_checkpoints_have_companions(
    run: Path, bare: Path
) -> None:
    process = Process(run, 2, STEPKEEPER_RESUME=str(bare), STEPKEEPER_COMPANION="none")
    try:
        assert process.wait() == 0, process.describe()
    finally:
        process.finish()
    assert process.wait_for(Ready).step == 5
    assert process.wait_for(Step).step == 6
    assert "it has no companion: data order and generators begin anew" in process.describe()
    newest = max((run / "checkpoints").glob("step_*.bin"))
    assert newest.with_suffix(".json").is_file()
