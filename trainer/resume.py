"""Load a checkpoint so exactly that the next step is the one that would have followed.

Everything is checked before it is used; nothing is ever initialised in silence. The generators
are put back last, right before the next draw.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, overload

from trainer import rng
from trainer.checkpoint import Saved
from trainer.contents import Contents, of_companion, restore
from trainer.contract.checkpoint_format import (
    HEADER_BYTES,
    CheckpointFormatError,
    Companion,
    companion_of,
    form_of,
    read_companion,
    read_header,
    step_of,
)
from trainer.errors import RefusedError
from trainer.filling import fill
from trainer.first_step import Expected, expect
from trainer.identities import device_change, differences
from trainer.state import State


class Terms(NamedTuple):
    """On which terms a checkpoint may be resumed.

    ``strict`` refuses it where code, settings, data or libraries have changed; a ``bare`` one need
    not have a companion; ``device_change`` takes one of another kind of device. ``omit`` names
    states that are left out on purpose, so that it can be seen what they are needed for. ``roots``
    are the folders that shards may lie in, by name. With ``later`` the digest may still be being
    taken when ``load`` returns: then ``Resumed.digest`` is to be checked.
    """

    strict: bool = False
    bare: bool = False
    device_change: bool = False
    omit: frozenset[str] = frozenset()
    roots: Mapping[str, Path] = MappingProxyType({})
    later: bool = False


class Digest(NamedTuple):
    """The digest of a file, being taken, and what it has to be."""

    path: Path
    expected: str
    taken: Future[str]

    def check(self) -> None:
        """Wait for it. Raises CheckpointFormatError where the file is not what was saved."""
        found = self.taken.result()
        if found != self.expected:
            raise CheckpointFormatError(str(self.path), "sha256", self.expected, found)


class Resumed(NamedTuple):
    """The checkpoint gone on from, what is not as it was, and what the first step has to find.

    ``device_changes`` are all of its lineage. ``digest`` is to be checked before a weight changes;
    None where that is done.
    """

    saved: Saved
    remarks: tuple[str, ...]
    expected: Expected
    device_changes: tuple[str, ...] = ()
    digest: Digest | None = None


def newest(folder: Path) -> Path | None:
    """The checkpoint of the highest step in ``folder``, whatever its format."""
    paths = [path for path in folder.glob("step_*") if step_of(path.name) is not None]
    return max(paths, key=lambda path: step_of(path.name) or 0, default=None)


def load(path: Path, state: State, identities: dict[str, Any], terms: Terms) -> Resumed:
    """Fill ``state`` from ``path``, in whatever format, and its companion.

    Raises CheckpointFormatError or RefusedError for what must not be resumed. ``state`` is then of
    no use.
    """
    read = _read_full if form_of(path.name) in ("pt", "sharded") else _read_bin
    try:
        saved, companion, change, contents, digest = read(path, state, identities, terms)
    except OSError as error:
        raise RefusedError(f"cannot resume from {path}: {error.strerror or error}") from None
    if companion is None:
        return _restored_bare(saved, state, strict=terms.strict)
    if digest is not None and not (terms.later and not terms.omit):  # it changes arrays
        digest.check()
        digest = None
    remarks = differences(companion.identities, identities)
    if terms.strict and remarks:
        text = "; ".join(remarks)
        raise RefusedError(f"cannot resume from {path} with train.strict = true: {text}")
    changes = companion.identities.get("device_changes", [])
    if change:
        changes = [*changes, f"after step {companion.step}: {change}"]
        remarks.append(
            f"it was made on {change}: CUDA generators are left out, and later steps need not be "
            "what they would have been"
        )
    try:
        contents = contents or of_companion(companion)
        if change:
            companion = companion._replace(rng=_without_cuda(companion.rng))
            contents = contents._replace(generators=_without_cuda(contents.generators))
        remarks += restore(state, contents, terms.omit)
        expected = _expected(path.name, companion, identities, terms.omit)
    except (ValueError, KeyError, TypeError) as error:
        raise RefusedError(f"cannot resume from {path}: its companion: {error}") from None
    return Resumed(saved, tuple(remarks), expected, tuple(changes), digest)


class _Found(NamedTuple):
    """``contents`` is None where only the companion holds them, ``change`` that of the device.

    ``digest`` is None where the file's is known to be right, or nothing says what it should be.
    """

    saved: Saved
    companion: Companion | None
    change: str
    contents: Contents | None
    digest: Digest | None = None


def _read_bin(path: Path, state: State, identities: dict[str, Any], terms: Terms) -> _Found:
    """Fill the arrays from five regions. Raises OSError and what ``load`` does."""
    with path.open("rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        head = file.read(HEADER_BYTES)
        header = read_header(head, size, str(path))
        companion = _companion(path, header.step, bare=terms.bare)
        _same_structure(path, companion, header.n_params, state)
        change = _device_change(path, companion, identities, terms)
        taken = fill(file, head, state.arrays())
    sha256 = companion.sha256 if companion else taken.result()
    saved = Saved(header.step, path.name, sha256, size, 0.0)
    digest = Digest(path, companion.sha256, taken) if companion else None
    return _Found(saved, companion, change, None, digest)


def _read_full(path: Path, state: State, identities: dict[str, Any], terms: Terms) -> _Found:
    """Fill the arrays from a file of torch or a folder of shards. Raises as ``_read_bin`` does."""
    from trainer import full_payload  # noqa: PLC0415 - takes time, for these alone

    step = step_of(path.name) or 0
    companion = _companion(path, step, bare=False)
    _same_structure(path, companion, companion.n_params, state)
    change = _device_change(path, companion, identities, terms)
    contents = full_payload.fill(
        state, full_payload.read(path, companion.sha256, terms.roots), str(path)
    )
    if contents.step != step:
        raise CheckpointFormatError(str(path), "step", f"{step} as in the name", contents.step)
    saved = Saved(step, path.name, companion.sha256, companion.bytes, 0.0)
    return _Found(saved, companion, change, contents)


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


def _without_cuda(generators: dict[str, Any]) -> dict[str, Any]:
    """Those of devices that it is not gone on with are left out."""
    return {**generators, "cuda": []}


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


@overload
def _companion(path: Path, step: int, *, bare: Literal[False]) -> Companion: ...


@overload
def _companion(path: Path, step: int, *, bare: bool) -> Companion | None: ...


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
    if companion.format != form_of(path.name):
        expected = f"{form_of(path.name)}, as {path.name} is"
        raise CheckpointFormatError(str(beside), "format", expected, companion.format)
    return companion


def _same_structure(path: Path, companion: Companion | None, n_params: int, state: State) -> None:
    """Refuse a checkpoint of a model of another shape, whatever the settings say."""
    if companion is None:
        if n_params != state.n_params:
            what = "n_params as this model has"
            raise CheckpointFormatError(str(path), what, state.n_params, n_params)
    elif companion.parameters != state.shapes():
        pairs = zip(companion.parameters, state.shapes(), strict=False)
        first = next((pair for pair in pairs if pair[0] != pair[1]), None)
        found, expected = first or (len(companion.parameters), len(state.shapes()))
        raise CheckpointFormatError(str(path), "parameters of this model", expected, found)


def _restored_bare(saved: Saved, state: State, *, strict: bool) -> Resumed:
    """Weights and moments are there; data order and generators begin anew, which is said."""
    remark = "it has no companion: data order and generators begin anew"
    if strict:
        raise RefusedError(f"cannot resume from {saved.name} with train.strict = true: {remark}")
    state.step = state.optimizer.updates = saved.step
    return Resumed(saved, (remark,), Expected(saved.name, rng.capture()))
