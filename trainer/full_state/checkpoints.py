"""Save and load in one call, as one file or as a folder of shards: what a training script uses."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, TypedDict, Unpack

import torch
from torch import nn
from torch.optim import Optimizer

from trainer.full_state.payload import Objects, Stateful, payload_of
from trainer.full_state.reading import read_one_file
from trainer.full_state.restoring import restore
from trainer.full_state.rng import Generator
from trainer.full_state.shard_reading import read_sharded
from trainer.full_state.shard_writing import Roots, write_sharded
from trainer.full_state.splitting import Split
from trainer.full_state.train_state import Restored, TrainState
from trainer.full_state.writing import Written, write_one_file


class Parts(TypedDict, total=False):
    """What else of a training script has a state."""

    scaler: Stateful | None
    loader: Stateful | None
    generators: Mapping[str, Generator]


class SaveOptions(Parts, total=False):
    """``accumulated``: micro-batches whose gradients wait; ``extra``: the caller's own."""

    accumulated: int
    extra: dict[str, Any]


class ShardOptions(SaveOptions, total=False):
    """How to split, into how many shards, to which roots, and whether to replace a folder."""

    split: Split
    shards: int | None
    shard_roots: Roots | None
    replace: bool


class LoadOptions(Parts, total=False):
    """As ``restore`` takes them, and what the file's reader takes."""

    omit: Collection[str]
    device_change: bool
    map_location: str | torch.device
    sha256: str | None


class ShardLoadOptions(LoadOptions, total=False):
    """Where shards may lie that the index says are elsewhere."""

    shard_roots: Roots | None


def save_checkpoint(
    path: Path | str,
    model: nn.Module,
    optimizer: Optimizer | None,
    scheduler: Stateful | None,
    state: TrainState,
    **options: Unpack[SaveOptions],
) -> Written:
    """Save the full state as one file, atomically: a kill at any moment leaves a valid one.

    Raises PayloadError for what is neither a tensor nor a plain container, OSError, and TypeError
    for an option that there is not.
    """
    _known("save", options, SaveOptions.__optional_keys__)
    payload = _payload(model, optimizer, scheduler, state, options)
    return write_one_file(Path(path), payload)


def load_checkpoint(
    path: Path | str,
    model: nn.Module,
    optimizer: Optimizer | None = None,
    scheduler: Stateful | None = None,
    **options: Unpack[LoadOptions],
) -> Restored:
    """Restore everything from one file; the objects stay untouched where it is refused.

    Build model, optimizer and scheduler first. Raises OSError and every FullStateError, and
    TypeError for an option that there is not.
    """
    _known("load", options, LoadOptions.__optional_keys__)
    payload = read_one_file(
        Path(path),
        map_location=options.get("map_location", "cpu"),
        sha256=options.get("sha256"),
    )
    return restore(payload, _objects(model, optimizer, scheduler, options), **_how(options))


def save_sharded_checkpoint(
    folder: Path | str,
    model: nn.Module,
    optimizer: Optimizer | None,
    scheduler: Stateful | None,
    state: TrainState,
    **options: Unpack[ShardOptions],
) -> Written:
    """Save the full state as a folder of shards, which appears whole or not at all.

    Raises PayloadError, StructureError, PathError, OSError, TypeError.
    """
    _known("save shards", options, ShardOptions.__optional_keys__)
    payload = _payload(model, optimizer, scheduler, state, options)
    return write_sharded(
        Path(folder),
        payload,
        split=options.get("split", "round_robin"),
        shards=options.get("shards"),
        shard_roots=options.get("shard_roots"),
        replace=options.get("replace", False),
    )


def load_sharded_checkpoint(
    folder: Path | str,
    model: nn.Module,
    optimizer: Optimizer | None = None,
    scheduler: Stateful | None = None,
    **options: Unpack[ShardLoadOptions],
) -> Restored:
    """Restore everything from a folder of shards, as ``load_checkpoint`` does from a file."""
    _known("load shards", options, ShardLoadOptions.__optional_keys__)
    payload = read_sharded(
        Path(folder),
        map_location=options.get("map_location", "cpu"),
        shard_roots=options.get("shard_roots"),
        sha256=options.get("sha256"),
    )
    return restore(payload, _objects(model, optimizer, scheduler, options), **_how(options))


def _known(what: str, options: Mapping[str, object], known: frozenset[str]) -> None:
    """Python takes any name for a ``**`` argument: one mistyped would leave a state out."""
    if unknown := sorted(set(options) - known):
        raise TypeError(
            f"cannot {what}: there is no option {', '.join(unknown)}; there are "
            f"{', '.join(sorted(known))}"
        )


class _How(TypedDict):
    omit: Collection[str]
    device_change: bool
    spend: bool


def _how(options: LoadOptions) -> _How:
    return {
        "omit": options.get("omit", ()),
        "device_change": options.get("device_change", False),
        "spend": True,
    }


def _objects(
    model: nn.Module, optimizer: Optimizer | None, scheduler: Stateful | None, parts: Parts
) -> Objects:
    return Objects(
        model,
        optimizer,
        scheduler,
        parts.get("scaler"),
        parts.get("loader"),
        parts.get("generators", {}),
    )


def _payload(
    model: nn.Module,
    optimizer: Optimizer | None,
    scheduler: Stateful | None,
    state: TrainState,
    options: SaveOptions,
) -> dict[str, Any]:
    return payload_of(
        _objects(model, optimizer, scheduler, options),
        state,
        accumulated=options.get("accumulated", 0),
        extra=options.get("extra"),
    )
