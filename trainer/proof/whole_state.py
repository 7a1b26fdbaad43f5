"""The exercise's checkpoint as one file or as a folder of shards, by the library for any training.

Its double precision fits there as it is; the record of progress, history and identities is the
``extra`` of the payload, the PCG64 one of its named generators.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from trainer.full_state import (
    Objects,
    TrainState,
    read_one_file,
    read_sharded,
    restore,
    save_checkpoint,
    save_sharded_checkpoint,
)
from trainer.proof import held
from trainer.proof.experiment import BATCH, Experiment

_SHARDS: Final = 2


def write(path: Path, experiment: Experiment) -> None:
    """Write a file, or where the name says so a folder. Raises OSError."""
    model, optimizer, scheduler = experiment.model, experiment.optimizer, experiment.scheduler
    generators, extra = {"data": experiment.generator}, held.record_of(experiment)
    state = _train_state(experiment)
    if _is_folder(path):
        save_sharded_checkpoint(
            path,
            model,
            optimizer,
            scheduler,
            state,
            generators=generators,
            extra=extra,
            shards=_SHARDS,
        )
    else:
        save_checkpoint(
            path, model, optimizer, scheduler, state, generators=generators, extra=extra
        )


def load(path: Path, experiment: Experiment, *, omit_rng: bool) -> None:
    """Fill ``experiment``, its generators last. Raises SettingsError, FullStateError, OSError."""
    payload = read_sharded(path) if _is_folder(path) else read_one_file(path)
    record: Any = payload["extra"]
    held.check(record, experiment, str(path))
    held.put_back(record, experiment)
    if payload["train_state"] != _train_state(experiment).record():
        raise held.refused(str(path), "its train state and its progress do not agree")
    objects = Objects(
        experiment.model,
        experiment.optimizer,
        experiment.scheduler,
        generators={"data": experiment.generator},
    )
    restore(payload, objects, omit=("rng",) if omit_rng else ())


def _train_state(experiment: Experiment) -> TrainState:
    at, history = experiment.progress, experiment.history
    return TrainState(at.step, at.epoch, at.cursor // BATCH, [line["loss"] for line in history])


def _is_folder(path: Path) -> bool:
    return path.suffix == ".sharded"
