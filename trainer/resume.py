"""Load a checkpoint so exactly that the next step is the one that would have followed.

Everything is checked before it is used; nothing is ever initialised in silence. The generators
are put back last, right before the next draw.
"""

from __future__ import annotations

import hashlib
import os
from io import FileIO
from pathlib import Path
from typing import Any, NamedTuple

import torch

from trainer import rng
from trainer.checkpoint import Saved, bytes_of
from trainer.contract.checkpoint_format import (
    HEADER_BYTES,
    CheckpointFormatError,
    Companion,
    Header,
    companion_of,
    read_companion,
    read_header,
    step_of,
)
from trainer.errors import RefusedError
from trainer.identities import differences
from trainer.phases import read_phase
from trainer.state import State


class Resumed(NamedTuple):
    """The checkpoint gone on from, and what is not as it was when that was written.

    ``generators`` are the states that the first step has to find.
    """

    saved: Saved
    remarks: tuple[str, ...]
    generators: dict[str, Any]


def newest(folder: Path) -> Path | None:
    """The ``.bin`` of the highest step in ``folder``."""
    names = [path for path in folder.glob("step_*.bin") if step_of(path.name) is not None]
    return max(names, key=lambda path: step_of(path.name) or 0, default=None)


def load(
    path: Path, state: State, identities: dict[str, Any], *, strict: bool, bare: bool = False
) -> Resumed:
    """Fill ``state`` from ``path`` and its companion, which a ``bare`` one need not have.

    Raises CheckpointFormatError or RefusedError for what must not be resumed; with ``strict``
    also where code, settings, data or libraries have changed. ``state`` is then of no use.
    """
    try:
        with path.open("rb", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            head = file.read(HEADER_BYTES)
            header = read_header(head, size, str(path))
            companion = _companion(path, header.step, bare=bare)
            _same_structure(path, companion, header, state)
            sha256 = _fill(file, head, state)
    except OSError as error:
        raise RefusedError(f"cannot resume from {path}: {error.strerror}") from None
    saved = Saved(header.step, path.name, sha256, size, 0.0)
    if companion is None:
        return _restored_bare(saved, state, strict=strict)
    if sha256 != companion.sha256:
        raise CheckpointFormatError(str(path), "sha256", companion.sha256, sha256)
    remarks = differences(companion.identities, identities)
    if strict and remarks:
        text = "; ".join(remarks)
        raise RefusedError(f"cannot resume from {path} with train.strict = true: {text}")
    try:
        remarks += _restore(state, companion)
    except (ValueError, KeyError, TypeError) as error:
        raise RefusedError(f"cannot resume from {path}: its companion: {error}") from None
    return Resumed(saved, tuple(remarks), companion.rng)


def refuse_moved_generators(resumed: Resumed) -> None:
    """Raise RefusedError if anything has drawn from, or reseeded, a generator since ``load``."""
    moved = rng.moved(resumed.generators)
    if moved:
        raise RefusedError(
            f"cannot resume from {resumed.saved.name}: something moved the generators of "
            f"{', '.join(moved)} after they were put back"
        )


def _companion(path: Path, step: int, *, bare: bool) -> Companion | None:
    beside = path.with_name(companion_of(step))
    try:
        companion = read_companion(beside.read_bytes(), str(beside))
    except FileNotFoundError:
        if bare:
            return None
        raise RefusedError(
            f"cannot resume from {path}: its companion {beside.name} is missing, and without it "
            "data order and generators would start anew; put it back, or choose another checkpoint"
        ) from None
    if companion.step != step:
        raise CheckpointFormatError(str(beside), "step", step, companion.step)
    return companion


def _same_structure(path: Path, companion: Companion | None, header: Header, state: State) -> None:
    """Refuse a checkpoint of a model of another shape, whatever the settings say."""
    if companion is None:
        if header.n_params != state.n_params:
            what = "n_params as this model has"
            raise CheckpointFormatError(str(path), what, state.n_params, header.n_params)
    elif companion.parameters != state.shapes():
        pairs = zip(companion.parameters, state.shapes(), strict=False)
        first = next((pair for pair in pairs if pair[0] != pair[1]), None)
        found, expected = first or (len(companion.parameters), len(state.shapes()))
        raise CheckpointFormatError(str(path), "parameters of this model", expected, found)


def _fill(file: FileIO, head: bytes, state: State) -> str:
    """Read all arrays into place; returns the SHA-256 of the whole file."""
    digest = hashlib.sha256(head)
    for tensor in state.arrays():
        on_cpu = tensor if tensor.device.type == "cpu" else torch.empty(tensor.shape)
        view = bytes_of(on_cpu)
        rest = view
        while rest:
            count = file.readinto(rest)
            if not count:
                raise CheckpointFormatError(str(file.name), "size", "as at the start", "shorter")
            rest = rest[count:]
        digest.update(view)
        if on_cpu is not tensor:
            tensor.copy_(on_cpu)
    return digest.hexdigest()


def _restored_bare(saved: Saved, state: State, *, strict: bool) -> Resumed:
    """Weights and moments are there; data order and generators begin anew, which is said."""
    remark = "it has no companion: data order and generators begin anew"
    if strict:
        raise RefusedError(f"cannot resume from {saved.name} with train.strict = true: {remark}")
    state.step = state.optimizer.updates = saved.step
    return Resumed(saved, (remark,), rng.capture())


def _restore(state: State, companion: Companion) -> list[str]:
    """Everything but the arrays. Raises ValueError, KeyError or TypeError."""
    state.step = companion.step
    state.tokens = int(companion.schedule["tokens"])
    state.optimizer.updates = int(companion.schedule["updates"])
    state.phase = read_phase(companion.phase)
    remarks = state.mixer.restore(companion.cursors, companion.rng["mixer"])
    rng.restore(companion.rng)
    return remarks
