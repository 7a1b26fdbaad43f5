"""Samples and evaluations look at the model and leave its training exactly as it was."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.trainer.test_resume import companion, facts, weights
from tests.trainer.tiny import live, make_run
from trainer.contract.wire import Checkpoint, Doing, Evaluation, Sample, Step

SAMPLES = {"every": 5, "prompts": ["the ", "a "], "length": 12, "temperature": 0.8, "seed": 3}
EVALUATE = {"every": 3, "sequences": 2}


def make(folder: Path, *, looking: bool, **samples: Any) -> Path:  # noqa: ANN401 - any setting
    settings: dict[str, Any] = {"checkpoint": {"every_steps": 5}, "evaluate": {"holdout": 0.3}}
    if looking:
        settings["samples"] = {**SAMPLES, **samples}
        settings["evaluate"] = {**EVALUATE, "holdout": 0.3}
    return make_run(folder, **settings)


def test_looking_at_the_model_changes_nothing_of_its_training(tmp_path: Path) -> None:
    looked = live(make(tmp_path / "looked", looking=True))
    left = live(make(tmp_path / "left", looking=False))
    assert len(looked.of(Sample)) == 12
    assert len(looked.of(Evaluation)) == 10
    assert facts(looked.reports) == facts(left.reports)
    assert weights(looked) == weights(left)
    assert companion(looked)["rng"] == companion(left)["rng"]
    assert companion(looked)["cursors"] == companion(left)["cursors"]


def test_a_sample_is_reported_before_the_checkpoint_of_its_step(tmp_path: Path) -> None:
    life = live(make(tmp_path / "run", looking=True))
    for step in (5, 10, 30):
        here = [r for r in life.reports if getattr(r, "step", None) == step]
        names = [r.what if isinstance(r, Doing) else type(r).__name__ for r in here]
        assert names[:4] == ["Step", "sample", "Sample", "Sample"]
        assert names[-2:] == ["save", "Checkpoint"] or names[-3:-1] == ["save", "Checkpoint"]
    assert {r.step for r in life.of(Sample)} == {r.step for r in life.of(Checkpoint)}


def test_the_same_step_always_gives_the_same_text(tmp_path: Path) -> None:
    run = make(tmp_path / "run", looking=True)
    whole = live(run)
    again = live(run, attempt=2, resume=whole.checkpoints / "step_000020.bin")
    texts = [(r.step, r.prompt, r.text) for r in whole.of(Sample) if r.step > 20]
    assert [(r.step, r.prompt, r.text) for r in again.of(Sample)] == texts
    other = live(make(tmp_path / "other", looking=True, seed=4))
    assert [r.text for r in other.of(Sample)] != [r.text for r in whole.of(Sample)]


def test_at_temperature_zero_the_seed_does_not_matter(tmp_path: Path) -> None:
    lives = [
        live(make(tmp_path / str(seed), looking=True, seed=seed, temperature=0.0))
        for seed in (1, 2)
    ]
    assert [r.text for r in lives[0].of(Sample)] == [r.text for r in lives[1].of(Sample)]


def test_evaluation_reports_a_loss_for_each_arm_that_keeps_documents_out(tmp_path: Path) -> None:
    life = live(make(tmp_path / "run", looking=True), stop_after=4)
    losses = dict(life.of(Evaluation)[0].losses)
    assert set(losses) == {"files", "records"}
    assert all(loss is not None and 3 < loss < 7 for loss in losses.values())
    bare = make_run(tmp_path / "bare", evaluate={"every": 3, "holdout": 0.01})
    assert dict(live(bare, stop_after=4).of(Evaluation)[0].losses) == dict.fromkeys(losses)


def test_a_stop_cuts_a_sample_short_and_saves(tmp_path: Path) -> None:
    run = make(tmp_path / "run", looking=True, length=100_000)
    life = live(run, acts={("doing", 5): lambda: os.kill(os.getpid(), signal.SIGTERM)})
    assert life.of(Sample) == []
    assert life.of(Step)[-1].step == life.of(Checkpoint)[-1].step == 5


def test_a_model_gone_to_nan_gives_an_empty_sample_and_no_error(tmp_path: Path) -> None:
    life = live(
        make(tmp_path / "run", looking=True),
        stop_after=7,
        change=lambda built: built.state.model.tokens.data.fill_(float("nan")),
    )
    assert [r.text for r in life.of(Sample)] == ["", ""]
    assert [loss for _, loss in life.of(Evaluation)[0].losses] == [None, None]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an accelerator: torch finds none")
def test_resume_is_exact_on_the_gpu_too(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", train={"device": "cuda", "precision": "bf16"})
    whole = live(run)
    first = live(make_run(tmp_path / "cut", train={"device": "cuda"}), stop_after=13)
    second = live(tmp_path / "cut", attempt=2, resume=first.newest())
    assert facts(first.reports) + facts(second.reports) == facts(whole.reports)
    assert weights(second) == weights(whole)
