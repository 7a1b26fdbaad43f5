"""One life of the exercise, for a process of its own: begin or resume, train, save, sum up.

It leaves a folder that was not there before, with the checkpoint, its checksum file and
``summary.json``: all that the verdict needs, to the last bit.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final, NamedTuple

from trainer import clock
from trainer.contract import durable
from trainer.errors import SettingsError
from trainer.proof import facts, storing
from trainer.proof.experiment import Experiment

SUMMARY: Final = "summary.json"
SCHEMA: Final = "stepkeeper.exercise-summary/1"


class Plan(NamedTuple):
    """What a life does: so many more updates, from ``resume`` or from the beginning."""

    steps: int
    output: Path
    form: str
    resume: Path | None = None
    omit_rng: bool = False


def live(plan: Plan) -> dict[str, Any]:
    """Carry it out; what ``summary.json`` holds.

    Raises SettingsError for an output that is there already, or a checkpoint that is refused;
    OSError where a file cannot be written.
    """
    experiment, resumed = begin(plan)
    return go_on(plan, experiment, resumed)


def begin(plan: Plan) -> tuple[Experiment, dict[str, Any] | None]:
    """The experiment where its updates begin, and what was restored, if any. Raises as ``live``."""
    experiment = Experiment(storing.dtype_of(plan.form))
    if plan.resume is None:
        return experiment, None
    stored = storing.load(plan.resume, experiment, omit_rng=plan.omit_rng)
    resumed = {**stored._asdict(), "rng": not plan.omit_rng, "state": experiment.snapshot()}
    return experiment, resumed


def go_on(plan: Plan, experiment: Experiment, resumed: dict[str, Any] | None) -> dict[str, Any]:
    """Make the updates and leave the files. Raises as ``live``."""
    _make(plan.output)
    own = []
    for _ in range(plan.steps):
        experiment.update()
        draws = experiment.next_draws()
        parameters = facts.plain(experiment.model.state_dict())
        step = experiment.progress.step
        own.append({"step": step, "parameters": parameters, "next_draws": draws})
    saved = storing.write(plan.output, experiment, plan.form)
    summary: dict[str, Any] = {
        "schema": SCHEMA,
        "format": plan.form,
        "steps": plan.steps,
        "process": os.getpid(),
        "ended": clock.wall(),
        "identities": experiment.identities(),
        "resumed": resumed,
        "history": facts.plain(experiment.history),
        "own": facts.plain(own),
        "final": experiment.snapshot(),
        "checkpoint": saved._asdict(),
    }
    durable.write_file(plan.output / SUMMARY, facts.to_bytes(summary))
    return summary


def _make(output: Path) -> None:
    """The folder of this life; earlier evidence is never replaced."""
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.mkdir()
    except FileExistsError:
        text = "it is there already; give a directory that is not there"
        raise SettingsError(f"cannot write to {output}: {text}") from None
