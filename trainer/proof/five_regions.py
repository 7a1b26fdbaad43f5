"""The exercise's checkpoint as a ``.bin`` with its companion.

The five regions are float32 and know weights, m and v, so such a life is one of float32 from its
first update on; hyperparameters, scheduler, history and generators stand in the companion.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trainer import checkpoint, clock, rng
from trainer.contract.checkpoint_format import (
    HEADER_BYTES,
    CheckpointFormatError,
    companion_of,
    read_companion,
    read_header,
)
from trainer.moment import Moment
from trainer.proof import held
from trainer.proof.experiment import Experiment
from trainer.proof.facts import plain

_MOMENTS = ("exp_avg", "exp_avg_sq")


def write(folder: Path, experiment: Experiment) -> Path:
    """Write both files as a run's are written; the path of the ``.bin``. Raises OSError."""
    optimizer = experiment.optimizer.state_dict()
    states = list(optimizer["state"].values())
    record = held.record_of(experiment)
    m, v = (tuple(state[key] for state in states) for key in _MOMENTS)
    moment = Moment(
        step=experiment.progress.step,
        parameters=_shapes(experiment),
        weights=tuple(parameter.detach() for parameter in experiment.model.parameters()),
        m=m,
        v=v,
        rng={**rng.capture(), "data": experiment.generator.bit_generator.state},
        cursors=record["progress"],
        schedule={
            "updates": [int(state["step"]) for state in states],
            "groups": plain(optimizer["param_groups"]),
            "scheduler": plain(experiment.scheduler.state_dict()),
            "history": plain(record["history"]),
        },
        phase=None,
        identities={**record["identities"], "schema": record["schema"]},
        reason="stop",
        saved=clock.wall(),
        next={"lr": experiment.lr, "arms": {}},
    )
    return folder / checkpoint.write(folder, moment).name


def load(path: Path, experiment: Experiment, *, omit_rng: bool) -> None:
    """Fill ``experiment``. Raises CheckpointFormatError, SettingsError, OSError, KeyError."""
    data = path.read_bytes()
    header = read_header(data[:HEADER_BYTES], len(data), str(path))
    beside = path.with_name(companion_of(header.step))
    companion = read_companion(beside.read_bytes(), str(beside))
    digest = hashlib.sha256(data).hexdigest()
    if (digest, companion.step) != (companion.sha256, header.step):
        expected = f"{companion.sha256} of step {companion.step}"
        raise CheckpointFormatError(str(path), "sha256", expected, digest)
    if companion.parameters != _shapes(experiment):
        expected = str(_shapes(experiment))
        raise CheckpointFormatError(str(beside), "parameters", expected, companion.parameters)
    identities = dict(companion.identities)
    record = {
        "schema": identities.pop("schema", None),
        "progress": companion.cursors,
        "history": companion.schedule["history"],
        "identities": identities,
    }
    held.check(record, experiment, str(path))
    weights, m, v = _regions(data, experiment)
    names = [name for name, _ in companion.parameters]
    schedule = companion.schedule
    experiment.model.load_state_dict(dict(zip(names, weights, strict=True)))
    experiment.scheduler.load_state_dict(dict(schedule["scheduler"]))
    experiment.optimizer.load_state_dict(_optimizer(schedule, m, v))
    held.put_back(record, experiment)
    experiment.model.train()
    if not omit_rng:
        rng.restore(companion.rng)
        experiment.generator.bit_generator.state = companion.rng["data"]


def _optimizer(schedule: dict[str, Any], m: list[Tensor], v: list[Tensor]) -> dict[str, Any]:
    """The optimizer's state as torch wants it."""
    triples = zip(schedule["updates"], m, v, strict=True)
    state = {
        index: {"step": torch.tensor(float(updates)), _MOMENTS[0]: first, _MOMENTS[1]: second}
        for index, (updates, first, second) in enumerate(triples)
    }
    groups = [{**group, "betas": tuple(group["betas"])} for group in schedule["groups"]]
    return {"state": state, "param_groups": groups}


def _regions(
    data: bytes, experiment: Experiment
) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
    """Weights, m and v, each cut into the shapes of the parameters."""
    flat = torch.from_numpy(np.frombuffer(data, "<f4", offset=HEADER_BYTES).astype(np.float32))
    parameters = list(experiment.model.parameters())
    sizes = [parameter.numel() for parameter in parameters]
    weights, m, v = (
        [
            piece.reshape(p.shape).clone()
            for piece, p in zip(torch.split(region, sizes), parameters, strict=True)
        ]
        for region in torch.split(flat, experiment.n_params)
    )
    return weights, m, v


def _shapes(experiment: Experiment) -> tuple[tuple[str, tuple[int, ...]], ...]:
    return tuple((name, tuple(p.shape)) for name, p in experiment.model.named_parameters())
