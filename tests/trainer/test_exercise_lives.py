"""The exercise's lives: what a resume may lose is either refused or found by a comparison."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.optim.lr_scheduler import StepLR

from tests.trainer.exercise import (
    CUT,
    copy,
    edit,
    failed,
    live_again,
    verify,
    vouch,
    write_again,
)
from trainer.errors import SettingsError
from trainer.full_state import atomic_save, read_one_file
from trainer.proof import rows, storing
from trainer.proof.comparing import TOLERANCE, compare
from trainer.proof.experiment import Experiment

AFTER, END, SAVED = "updates after the cut", "the end", "the checkpoint"


def reset_scheduler(experiment: Experiment) -> None:
    for group in experiment.optimizer.param_groups:
        group["lr"] = group["initial_lr"]
    experiment.scheduler = StepLR(experiment.optimizer, 3, 0.5)


def drop_moments(experiment: Experiment) -> None:
    for state in experiment.optimizer.state.values():
        state["exp_avg"].zero_()


def drop_optimizer(experiment: Experiment) -> None:
    experiment.optimizer.state.clear()


def shift_cursor(experiment: Experiment) -> None:
    experiment.progress.cursor -= 4


def other_order(experiment: Experiment) -> None:
    experiment.progress.order.reverse()


def reseed_python(_: Experiment) -> None:
    random.seed(20)


def reseed_numpy(experiment: Experiment) -> None:
    experiment.generator.bit_generator.state = Experiment().generator.bit_generator.state


def reseed_torch(_: Experiment) -> None:
    torch.manual_seed(20)


def nudge_weight(experiment: Experiment) -> None:
    with torch.no_grad():
        next(experiment.model.parameters())[0, 0] += 1e-6


def forget_dropout(experiment: Experiment) -> None:
    experiment.model.eval()


LOST = [
    (reset_scheduler, {(AFTER, "lr"), (AFTER, "next_lr"), (END, "scheduler"), (END, "next_lr")}),
    (drop_moments, {(AFTER, "parameters"), (END, "optimizer"), (END, "parameters")}),
    (drop_optimizer, {(AFTER, "parameters"), (END, "optimizer"), (END, "parameters")}),
    (shift_cursor, {(AFTER, "rows"), (AFTER, "loss"), (END, "progress")}),
    (other_order, {(AFTER, "rows"), (AFTER, "loss")}),
    (reseed_python, {(AFTER, "loss"), (AFTER, "next_draws"), (END, "next_draws")}),
    (reseed_numpy, {(AFTER, "rows"), (AFTER, "loss"), (AFTER, "next_draws"), (END, "progress")}),
    (reseed_torch, {(AFTER, "loss"), (AFTER, "next_draws"), (END, "next_draws")}),
    (nudge_weight, {(AFTER, "parameters"), (AFTER, "loss"), (END, "evaluation"), (END, "mse")}),
    (forget_dropout, {(AFTER, "loss"), (AFTER, "next_draws")}),
]


@pytest.mark.parametrize(("lose", "found"), LOST, ids=[lose.__name__ for lose, _ in LOST])
def test_a_resume_that_loses_a_state_is_found_out(
    exercise_lives: Path,
    tmp_path: Path,
    lose: Callable[[Experiment], None],
    found: set[tuple[str, str]],
) -> None:
    folder = copy(exercise_lives, tmp_path, "pt")
    live_again(folder, "pt", "resumed", lose)
    assert verify(folder, "pt") == 1
    verdict = json.loads((folder / "verification.json").read_text())
    assert (verdict["all_checks_passed"], verdict["positive"]) == (False, False)
    assert verdict["negative_divergence_detected"]
    assert {("resumed", *place) for place in found} <= failed(folder, "pt")


def test_lives_in_one_process_prove_the_resume_too(exercise_lives: Path) -> None:
    for form in storing.FORMATS:
        assert verify(exercise_lives, form) == 0
        assert failed(exercise_lives, form) == set()


def test_a_control_that_gets_its_generators_proves_nothing(
    exercise_lives: Path, tmp_path: Path
) -> None:
    folder = copy(exercise_lives, tmp_path, "pt")
    resumed = json.loads((folder / "pt/resumed/summary.json").read_text())

    def all_but_the_claim(summary: dict[str, Any]) -> None:
        summary |= {**resumed, "resumed": {**resumed["resumed"], "rng": False}}

    edit(folder, "pt", "without-rng", all_but_the_claim)
    (folder / "pt/without-rng/checkpoint.pt").write_bytes(
        (folder / "pt/resumed/checkpoint.pt").read_bytes()
    )
    vouch(folder / "pt/without-rng/checkpoint.pt")
    assert verify(folder, "pt") == 1
    verdict = json.loads((folder / "verification.json").read_text())
    assert verdict["positive"]
    assert not verdict["negative_divergence_detected"]


def test_a_control_that_lacks_more_than_generators_is_no_control(
    exercise_lives: Path, tmp_path: Path
) -> None:
    folder = copy(exercise_lives, tmp_path, "pt")
    live_again(folder, "pt", "without-rng", reset_scheduler)
    assert verify(folder, "pt") == 1
    verdict = json.loads((folder / "verification.json").read_text())
    assert verdict["negative_divergence_detected"]
    assert not verdict["negative_control_sound"]
    assert ("without-rng", AFTER, "lr") in failed(folder, "pt")


@pytest.mark.parametrize("form", storing.FORMATS)
def test_another_state_in_the_file_than_in_memory_is_found_out(
    exercise_lives: Path, tmp_path: Path, form: str
) -> None:
    """The file is whole and its checksum right; only what it holds is not what was trained."""
    folder = copy(exercise_lives, tmp_path, form)
    write_again(folder, form, "resumed", nudge_weight)
    assert verify(folder, form) == 1
    assert failed(folder, form) == {("resumed", SAVED, "state")}


def test_probing_the_generators_changes_nothing() -> None:
    probed, left_alone = Experiment(), Experiment()
    torch.manual_seed(1)
    random.seed(1)
    for _ in range(7):
        assert probed.next_draws() == probed.next_draws()
        probed.update()
        probed.snapshot()
    torch.manual_seed(1)
    random.seed(1)
    for _ in range(7):
        left_alone.update()
    assert compare(probed.snapshot(), left_alone.snapshot()) == (0.0, "")
    assert probed.history == left_alone.history


def test_a_generator_that_moves_gives_another_draw() -> None:
    experiment = Experiment()
    before = experiment.next_draws()
    random.getrandbits(1)
    experiment.generator.random()
    torch.rand(())
    after = experiment.next_draws()
    assert [name for name in before if before[name] == after[name]] == []


def test_the_exercise_is_the_one_that_is_described() -> None:
    experiment = Experiment()
    assert (len(rows.ROWS), experiment.n_params) == (24, 33)
    assert len({row.name for row in rows.ROWS}) == 24
    order = list(experiment.progress.order)
    for _ in range(CUT):
        experiment.update()
    assert experiment.progress.cursor == 20
    for _ in range(CUT):
        experiment.update()
    assert (experiment.progress.epoch, experiment.progress.cursor) == (1, 16)
    assert experiment.progress.order != order
    used = [name for line in experiment.history for name in line["rows"]]
    assert len(used) == 40
    assert len(set(used[:24])) == 24
    assert experiment.lr == 0.00375


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (1.0, 1.0 + 1.1e-12),
        (float("nan"), float("nan")),
        (float("inf"), float("inf")),
        ({"nonfinite": "nan"}, {"nonfinite": "nan"}),
        ([1.0], [1.0, 2.0]),
        ({"a": 1.0}, {"b": 1.0}),
        ({"a": 1.0}, {}),
        (1, 1.0),
        (True, 1),
        (None, 0.0),
        ("a", "b"),
        ([[1.0], [2.0]], [[1.0], [float("nan")]]),
    ],
)
def test_what_is_apart_not_finite_or_of_another_structure_fails(
    found: object, expected: object
) -> None:
    assert not compare(found, expected).agrees
    assert not compare({"in": [found]}, {"in": [expected]}).agrees


def test_what_lies_within_the_tolerance_agrees_and_the_deviation_is_told() -> None:
    found = compare({"a": [1.0, 2.0]}, {"a": [1.0 + TOLERANCE / 2, 2.0]})
    assert found.agrees
    assert found.deviation == pytest.approx(TOLERANCE / 2, rel=1e-3)
    assert compare(1e6, 1e6 + 1e-6).agrees is False  # no relative tolerance


EDITS: list[tuple[str, Callable[[dict[str, Any]], object], str]] = [
    ("schema", lambda extra: extra.update(schema="stepkeeper.exercise/9"), "schema"),
    ("key", lambda extra: extra.pop("history"), "history missing or unknown"),
    ("cursor", lambda extra: extra["progress"].update(cursor=16), "the cursor cannot stand at 16"),
    ("step", lambda extra: extra["progress"].update(step=4), "after 4 updates"),
    ("order", lambda extra: extra["progress"]["order"].pop(), "no permutation"),
    ("history", lambda extra: extra["history"].pop(), "expected 5 updates"),
    (
        "torch",
        lambda extra: extra["identities"]["versions"].update(torch="2.6.0"),
        "versions.torch",
    ),
    ("code", lambda extra: extra["identities"].update(code="0" * 64), "code was"),
    ("data", lambda extra: extra["identities"].update(data="0" * 64), "data was"),
    ("lr", lambda extra: extra["identities"]["settings"].update(lr=0.1), "settings.lr was 0.1"),
]


@pytest.mark.parametrize(("_what", "change", "words"), EDITS, ids=[what for what, *_ in EDITS])
def test_a_checkpoint_of_another_experiment_is_refused(
    exercise_lives: Path,
    tmp_path: Path,
    _what: str,
    change: Callable[[dict[str, Any]], object],
    words: str,
) -> None:
    path = copy(exercise_lives, tmp_path, "pt") / "pt/cut/checkpoint.pt"
    payload = read_one_file(path)
    change(payload["extra"])
    atomic_save(payload, path)
    vouch(path)
    with pytest.raises(SettingsError, match=f"cannot resume from .*{words}"):
        storing.load(path, Experiment())


STATES: list[tuple[str, Callable[[dict[str, Any]], object], str]] = [
    ("optimizer", lambda payload: payload["optimizer"]["state"].clear(), "optimizer: updates"),
    (
        "scheduler",
        lambda payload: payload["scheduler"].update(last_epoch=0),
        "scheduler: it stands",
    ),
    ("rate", lambda p: p["optimizer"]["param_groups"][0].update(lr=0.03), "learning rate: 0.03"),
    ("absent", lambda payload: payload.update(scheduler=None), "scheduler"),
    ("state", lambda payload: payload["train_state"].update(batch_in_epoch=4), "do not agree"),
    ("generator", lambda payload: payload["rng"]["generators"].clear(), "generators"),
]


@pytest.mark.parametrize(("_what", "change", "words"), STATES, ids=[what for what, *_ in STATES])
def test_a_checkpoint_that_lacks_a_state_is_refused_and_not_initialised(
    exercise_lives: Path,
    tmp_path: Path,
    _what: str,
    change: Callable[[dict[str, Any]], object],
    words: str,
) -> None:
    path = copy(exercise_lives, tmp_path, "pt") / "pt/cut/checkpoint.pt"
    payload = read_one_file(path)
    change(payload)
    atomic_save(payload, path)
    vouch(path)
    with pytest.raises(SettingsError, match=words):
        storing.load(path, Experiment())
