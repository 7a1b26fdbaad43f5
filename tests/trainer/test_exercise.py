"""``stepkeeper prove --exercise`` as an operator runs it, and every way in which it says no."""

from __future__ import annotations

import hashlib
import json
import platform
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from supervisor.cli.proving_words import verdict_lines
from tests.support.command import Told, program
from tests.support.runs import ROOT
from tests.trainer.exercise import copy, edit, failed, verify

pytestmark = pytest.mark.timeout(300)  # the first one waits for thirteen processes that load torch

GOLDEN = ROOT / "tests/trainer/golden/exercise.json"
FORMATS = ("pt", "sharded", "bin")
# Each format takes four processes that load torch; lives in one process prove all three always.
ONE = """
import runpy
from supervisor.cli import proving_exercise
proving_exercise.FORMATS = ("pt",)
runpy.run_module("supervisor", run_name="__main__")
"""
LIVES = ("continuous", "cut", "resumed", "without-rng")
AFTER, END, BEFORE = "updates after the cut", "the end", "updates up to the cut"
RESTORED, BEGIN, SAVED = "what was restored", "the beginning", "the checkpoint"


class Proof(NamedTuple):
    """Where it lies, what the command said, and ``verification.json``."""

    folder: Path
    told: Told
    verification: dict[str, Any]
    formats: tuple[str, ...]

    def summary(self, form: str, name: str) -> dict[str, Any]:
        """What that life left."""
        record: dict[str, Any] = json.loads(
            (self.folder / form / name / "summary.json").read_text()
        )
        return record


@pytest.fixture(scope="module")
def proof(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Proof:
    """One run of the whole protocol; without --thorough in one format."""
    folder = tmp_path_factory.mktemp("exercise") / "proof"
    words = ["prove", "--exercise", "--output", str(folder), "--json"]
    thorough = request.config.getoption("--thorough")
    done = subprocess.run(
        program(*words) if thorough else [sys.executable, "-c", ONE, *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    told = Told(done.returncode, done.stdout, done.stderr)
    assert told.code == 0, told.err
    verification = json.loads((folder / "verification.json").read_text())
    return Proof(folder, told, verification, FORMATS if thorough else FORMATS[:1])


def test_the_resume_is_proved(proof: Proof) -> None:
    verdict = proof.verification
    assert proof.told.facts() == {"output": str(proof.folder), **verdict}
    assert (verdict["all_checks_passed"], verdict["positive"]) == (True, True)
    assert (verdict["negative_divergence_detected"], verdict["negative_control_sound"]) == (
        True,
        True,
    )
    assert verdict["tolerance"] == {"absolute": 1e-12, "relative": 0.0}
    assert verdict["not_covered"] == ["CUDA", "AMP", "data loading workers", "distributed training"]
    assert tuple(verdict["formats"]) == proof.formats
    for form in proof.formats:
        row = verdict["formats"][form]
        assert row["dtype"] == ("float32" if form == "bin" else "float64")
        assert {c["deviation"] for c in row["comparisons"]} == {0.0}
        assert row["resume_demo"]["max_loss_difference"] == 0.0
        assert row["resume_demo"]["passed"]
        assert row["covers"] == {
            "cursor_at_cut": 20,
            "rows": 24,
            "cut_in_mid_epoch": True,
            "new_order_after_cut": True,
        }
        assert [row["lives"][n]["next_lr"] for n in ("continuous", "resumed")] == [0.00375] * 2


def test_a_person_reads_that_nothing_differs_but_the_control(proof: Proof) -> None:
    text = "\n".join(verdict_lines(proof.verification, proof.folder))
    rows = {line.rsplit("  ", 1)[0].split("  ")[0]: line.split() for line in text.splitlines()}
    none = ["0"] * len(proof.formats)
    assert rows["optimizer state"][2 : 2 + len(none)] == none
    assert rows["losses"][1 : 2 + len(none)] == [*none, "differs:"]
    assert rows["learning rates applied"][3:] == [*none, "0"]
    for form in proof.formats:
        assert rows[form][-1] == "proved"
    assert text.splitlines()[-1].startswith("proved: ")


def test_every_comparison_that_is_asked_for_is_made_on_the_resumed_life(proof: Proof) -> None:
    for form in proof.formats:
        checks = proof.verification["formats"][form]["comparisons"]
        made = {(c["part"], c["key"]) for c in checks if c["life"] == "resumed"}
        states = {"parameters", "optimizer", "scheduler", "next_lr", "mse", "evaluation"}
        states |= {"next_draws", "progress"}
        assert {(part, key) for part in (RESTORED, END) for key in states} <= made
        lines = {"rows", "lr", "next_lr", "loss", "parameters", "next_draws"}
        assert {(AFTER, key) for key in lines} <= made
        cut = {c["key"] for c in checks if (c["life"], c["part"]) == ("cut", BEFORE)}
        assert cut == lines
        saved = {c["life"] for c in checks if (c["part"], c["key"]) == (SAVED, "state")}
        assert saved == set(LIVES)


def test_the_control_is_what_it_is_called(proof: Proof) -> None:
    for form in proof.formats:
        control = proof.verification["formats"][form]["control"]
        apart = {(c["part"], c["key"]): c["deviation"] for c in control}
        for place in ((AFTER, "loss"), (AFTER, "parameters"), (END, "parameters"), (END, "mse")):
            assert apart[place] > 1e-4
        agree = [(AFTER, "lr"), (AFTER, "next_lr"), (END, "scheduler"), (RESTORED, "parameters")]
        agree += [(RESTORED, "optimizer"), (RESTORED, "progress")]
        assert {apart[place] for place in agree} == {0.0}


def test_every_life_is_a_process_of_its_own_with_its_three_files(proof: Proof) -> None:
    for form in proof.formats:
        processes = {proof.summary(form, name)["process"] for name in LIVES}
        assert len(processes) == 4
        for name in LIVES:
            names = {path.name for path in (proof.folder / form / name).iterdir()}
            kept = proof.summary(form, name)["checkpoint"]["name"]
            companion = {kept.replace(".bin", ".json")} if form == "bin" else set()
            assert names == {kept, f"{kept}.sha256", "summary.json"} | companion
    assert proof.summary("pt", "cut")["checkpoint"]["name"] == "checkpoint.pt"


def test_the_checksum_files_are_those_of_sha256sum(proof: Proof) -> None:
    for path in proof.folder.glob("*/*/*.sha256"):
        pairs = re.findall(r"^([0-9a-f]{64})  (.+)$", path.read_text(), re.MULTILINE)
        assert pairs
        for digest, name in pairs:
            assert hashlib.sha256((path.parent / name).read_bytes()).hexdigest() == digest


def test_the_numbers_are_those_that_were_measured_once(proof: Proof) -> None:
    """Under other versions or on another machine the shape is held against it, and the bounds."""
    golden = json.loads(GOLDEN.read_text())
    here = {
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "numpy": np.__version__,
        "machine": platform.machine(),
    }
    for form in proof.formats:
        row, kept = proof.verification["formats"][form], golden["formats"][form]
        control = {(c["part"], c["key"]): c["deviation"] for c in row["control"]}
        measured = {
            "losses": [line["loss"] for line in proof.summary(form, "continuous")["history"]],
            "mse": row["lives"]["continuous"]["mse"],
            "mse_without_generators": row["lives"]["without-rng"]["mse"],
            "parameters_without_generators": control[END, "parameters"],
        }
        assert measured.keys() == kept.keys()
        assert len(measured["losses"]) == len(kept["losses"])
        if golden["versions"] == here:
            close = 1e-5 if row["dtype"] == "float32" else 1e-9
            assert measured == {key: pytest.approx(kept[key], abs=close) for key in kept}


def numbers(value: Any) -> Any:  # noqa: ANN401 - any part of a summary
    """The innermost list of a plain state."""
    while isinstance(value, dict):
        value = value.get("values") or next(v for v in value.values() if isinstance(v, dict | list))
    return value


def nudge(*path: str | int) -> Callable[[dict[str, Any]], None]:
    """An edit that moves one number by a little more than the tolerance."""

    def change(summary: Any) -> None:  # noqa: ANN401 - any part of a summary
        *way, last = path
        for key in way:
            summary = summary[key]
        if isinstance(summary[last], dict | list):
            numbers(summary[last])[0] += 1e-11
        else:
            summary[last] += 1e-11

    return change


def put(value: object, *path: str | int) -> Callable[[dict[str, Any]], None]:
    """An edit that puts another value there."""

    def change(summary: Any) -> None:  # noqa: ANN401 - any part of a summary
        *way, last = path
        for key in way:
            summary = summary[key]
        summary[last] = value

    return change


NAN = {"nonfinite": "nan"}
TAMPERED: list[tuple[str, Callable[[dict[str, Any]], None], tuple[str, str, str]]] = [
    ("resumed", put("row-00", "history", 6, "rows", 2), ("resumed", AFTER, "rows")),
    ("resumed", nudge("history", 7, "lr"), ("resumed", AFTER, "lr")),
    ("resumed", nudge("history", 7, "next_lr"), ("resumed", AFTER, "next_lr")),
    ("resumed", nudge("history", 9, "loss"), ("resumed", AFTER, "loss")),
    ("resumed", put(NAN, "history", 9, "loss"), ("resumed", AFTER, "loss")),
    ("resumed", nudge("own", 1, "parameters"), ("resumed", AFTER, "parameters")),
    ("resumed", nudge("own", 0, "next_draws", "numpy"), ("resumed", AFTER, "next_draws")),
    ("resumed", nudge("final", "parameters"), ("resumed", END, "parameters")),
    (
        "resumed",
        nudge("final", "optimizer", "state", "1", "exp_avg_sq"),
        ("resumed", END, "optimizer"),
    ),
    (
        "resumed",
        put(0.9, "final", "optimizer", "param_groups", 0, "eps"),
        ("resumed", END, "optimizer"),
    ),
    ("resumed", put(None, "final", "optimizer", "state", "0"), ("resumed", END, "optimizer")),
    ("resumed", put(9, "final", "scheduler", "last_epoch"), ("resumed", END, "scheduler")),
    ("resumed", nudge("final", "next_lr"), ("resumed", END, "next_lr")),
    ("resumed", nudge("final", "mse"), ("resumed", END, "mse")),
    ("resumed", nudge("final", "evaluation", 23), ("resumed", END, "evaluation")),
    ("resumed", put([0.0], "final", "evaluation"), ("resumed", END, "evaluation")),
    ("resumed", nudge("final", "next_draws", "python"), ("resumed", END, "next_draws")),
    ("resumed", nudge("final", "next_draws", "torch"), ("resumed", END, "next_draws")),
    ("resumed", put(12, "final", "progress", "cursor"), ("resumed", END, "progress")),
    ("resumed", lambda summary: summary["final"].pop("mse"), ("resumed", END, "mse")),
    (
        "resumed",
        nudge("resumed", "state", "optimizer", "state", "0", "exp_avg"),
        ("resumed", RESTORED, "optimizer"),
    ),
    (
        "resumed",
        nudge("resumed", "state", "next_draws", "numpy"),
        ("resumed", RESTORED, "next_draws"),
    ),
    ("resumed", put({}, "resumed", "files"), ("resumed", BEGIN, "files")),
    ("without-rng", put({}, "resumed", "files"), ("without-rng", BEGIN, "files")),
    ("without-rng", nudge("history", 7, "lr"), ("without-rng", AFTER, "lr")),
    ("cut", put("0" * 64, "identities", "code"), ("cut", BEGIN, "identities")),
    ("cut", nudge("history", 2, "loss"), ("cut", BEFORE, "loss")),
    ("cut", nudge("own", 4, "parameters"), ("cut", BEFORE, "parameters")),
    ("continuous", nudge("final", "mse"), ("continuous", SAVED, "state")),
    ("continuous", put(NAN, "final", "mse"), ("resumed", END, "mse")),
]


@pytest.mark.parametrize(("name", "change", "found"), TAMPERED)
def test_every_comparison_can_fail(
    exercise_lives: Path,
    tmp_path: Path,
    name: str,
    change: Callable[[dict[str, Any]], None],
    found: tuple[str, str, str],
) -> None:
    folder = copy(exercise_lives, tmp_path, "pt")
    edit(folder, "pt", name, change)
    assert verify(folder, "pt") == 1
    assert found in failed(folder, "pt")
