"""Load a checkpoint so exactly that the next step is the one that would have followed.

Everything is checked before it is used; nothing is ever initialised in silence. The generators
are put back last, right before the next draw.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection
from dataclasses import replace
from io import FileIO
from pathlib import Path
from typing import Any, NamedTuple

import torch

from trainer import rng
from trainer.checkpoint import Saved, bytes_of
from trainer.contents import of_companion, restore
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
from trainer.first_step import Expected, expect
from trainer.identities import device_change, differences
from trainer.state import State


class Terms(NamedTuple):
    """On which terms a checkpoint may be resumed.

    ``strict`` refuses it where code, settings, data or libraries have changed; a ``bare`` one need
    not have a companion; ``device_change`` takes one of another kind of device. ``omit`` names
    states that are left out on purpose, so that it can be seen what they are needed for.
    """

    strict: bool = False
    bare: bool = False
    device_change: bool = False
    omit: frozenset[str] = frozenset()


class Resumed(NamedTuple):
    """The checkpoint gone on from, what is not as it was, and what the first step has to find.

    ``device_changes`` are all of its lineage.
    """

    saved: Saved
    remarks: tuple[str, ...]
    expected: Expected
    device_changes: tuple[str, ...] = ()


def newest(folder: Path) -> Path | None:
    """The checkpoint of the highest step in ``folder``, whatever its format."""
    paths = [path for path in folder.glob("step_*") if step_of(path.name) is not None]
    return max(paths, key=lambda path: step_of(path.name) or 0, default=None)


def load(path: Path, state: State, identities: dict[str, Any], terms: Terms) -> Resumed:
    """Fill ``state`` from ``path`` and its companion.

    Raises CheckpointFormatError or RefusedError for what must not be resumed. ``state`` is then of
    no use.
    """
    try:
        with path.open("rb", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            head = file.read(HEADER_BYTES)
            header = read_header(head, size, str(path))
            companion = _companion(path, header.step, bare=terms.bare)
            _same_structure(path, companion, header, state)
            change = _device_change(path, companion, identities, terms)
            sha256 = _fill(file, head, state)
    except OSError as error:
        raise RefusedError(f"cannot resume from {path}: {error.strerror}") from None
    saved = Saved(header.step, path.name, sha256, size, 0.0)
    if companion is None:
        return _restored_bare(saved, state, strict=terms.strict)
    if sha256 != companion.sha256:
        raise CheckpointFormatError(str(path), "sha256", companion.sha256, sha256)
    remarks = differences(companion.identities, identities)
    if terms.strict and remarks:
        text = "; ".join(remarks)
        raise RefusedError(f"cannot resume from {path} with train.strict = true: {text}")
    changes = companion.identities.get("device_changes", [])
    if change:
        companion = _without_cuda(companion)
        changes = [*changes, f"after step {companion.step}: {change}"]
        remarks.append(
            f"it was made on {change}: CUDA generators are left out, and later steps need not be "
            "what they would have been"
        )
    try:
        remarks += restore(state, of_companion(companion), terms.omit)
        expected = _expected(path.name, companion, identities, terms.omit)
    except (ValueError, KeyError, TypeError) as error:
        raise RefusedError(f"cannot resume from {path}: its companion: {error}") from None
    return Resumed(saved, tuple(remarks), expected, tuple(changes))


def _device_change(
    path: Path, companion: Companion | None, identities: dict[str, Any], terms: Terms
) -> str:
    """How the kind of device has changed, or nothing. Raises RefusedError where it must not."""
    change = device_change(companion.identities, identities) if companion else ""
    if change and not terms.device_change:
        raise RefusedError(
            f"cannot resume from {path}: it was made on {change}; give --device-change, or set "
            "train.device_change = true, where later steps need not be what they would have been"
        )
    return change


def _without_cuda(companion: Companion) -> Companion:
    """The generators of devices that it is not gone on with are left out."""
    return companion._replace(rng={**companion.rng, "cuda": []})


def _expected(
    name: str, companion: Companion, identities: dict[str, Any], omit: Collection[str]
) -> Expected:
    """Nothing is expected of what is left out on purpose."""
    expected = expect(name, companion.rng, companion.next, companion.identities, identities)
    return replace(
        expected,
        generators=None if "rng" in omit else expected.generators,
        lr=None if "scheduler" in omit else expected.lr,
        places={} if "cursor" in omit else expected.places,
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
    return Resumed(saved, (remark,), Expected(saved.name, rng.capture()))
