"""Lives of the exercise for tests: made in this process, edited, and judged."""

from __future__ import annotations

import contextlib
import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from trainer.proof import commands, facts, fingerprint, life, storing
from trainer.proof.experiment import Experiment
from trainer.proof.life import Plan

UPDATES, CUT = 10, 5
Edit = Callable[[dict[str, Any]], object]


def cut_of(folder: Path, form: str) -> Path:
    """The checkpoint that resumes begin from."""
    return folder / form / "cut" / name_of(form, CUT)


def name_of(form: str, step: int) -> str:
    """The checkpoint's name in a life's folder."""
    names = {"pt": "checkpoint.pt", "sharded": "checkpoint.sharded"}
    return names.get(form, f"step_{step:06d}.bin")


def plan(folder: Path, form: str, name: str) -> Plan:
    """What the life of that name does."""
    output = folder / form / name
    if name in ("continuous", "cut"):
        return Plan(UPDATES if name == "continuous" else CUT, output, form)
    without = name == "without-rng"
    return Plan(UPDATES - CUT, output, form, cut_of(folder, form), omit_rng=without)


def make_lives(folder: Path, form: str) -> Path:
    """All four, one after the other."""
    for name in ("continuous", "cut", "resumed", "without-rng"):
        life.live(plan(folder, form, name))
    return folder


def live_again(folder: Path, form: str, name: str, lose: Callable[[Experiment], object]) -> None:
    """Take a life's place by one that loses something between its beginning and its updates."""
    shutil.rmtree(folder / form / name)
    planned = plan(folder, form, name)
    experiment, resumed = life.begin(planned)
    lose(experiment)
    life.go_on(planned, experiment, resumed)


def write_again(folder: Path, form: str, name: str, change: Callable[[Experiment], object]) -> None:
    """Take a life's checkpoint by a changed one, and have its summary agree on the digests."""
    experiment = Experiment(storing.dtype_of(form))
    path = folder / form / name / name_of(form, UPDATES)
    storing.load(path, experiment)
    change(experiment)
    if path.is_dir():
        shutil.rmtree(path)
    stored = storing.write(path.parent, experiment, form)
    edit(folder, form, name, lambda summary: summary.update(checkpoint=stored._asdict()))


def copy(proof: Path, target: Path, form: str) -> Path:
    """The lives of one format in a folder of their own."""
    shutil.copytree(proof / form, target / form)
    return target


def edit(folder: Path, form: str, name: str, change: Edit) -> None:
    """Change a life's summary."""
    path = folder / form / name / "summary.json"
    summary = json.loads(path.read_text())
    change(summary)
    path.write_bytes(facts.to_bytes(summary))


def vouch(checkpoint: Path) -> dict[str, Any]:
    """Write the checksum file anew, as one would who meant to deceive."""
    return fingerprint.write(checkpoint, storing.files_of(checkpoint))


def verify(folder: Path, form: str) -> int:
    """The exit code of the verdict over one format."""
    (folder / "verification.json").unlink(missing_ok=True)
    with contextlib.redirect_stdout(io.StringIO()):
        return commands.main(["verify", str(folder), "--format", form])


def failed(folder: Path, form: str) -> set[tuple[str, str, str]]:
    """Life, part and key of each comparison that did not come out as it has to."""
    verdict = json.loads((folder / "verification.json").read_text())["formats"][form]
    checks = [*verdict["comparisons"], *verdict["control"]]
    return {(c["life"], c["part"], c["key"]) for c in checks if not c["held"]}
