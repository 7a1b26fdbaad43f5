"""A moment of this trainer as the library's full state, and such a state put back.

The optimizer's state has the form of torch.optim.AdamW's, so that any script can go on with it.
Where every arm stands is in ``loader``, phase and identities are in ``extra``, and the draws among
arms are a named generator.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from trainer import rng
from trainer.contents import Contents
from trainer.contract.checkpoint_format import form_of
from trainer.errors import RefusedError
from trainer.full_state import (
    FullStateError,
    Payload,
    TrainState,
    new_payload,
    read_one_file,
    read_sharded,
)
from trainer.identities import kind_of_device
from trainer.moment import Moment
from trainer.optimizer import BETA1, BETA2, EPSILON
from trainer.state import State

_M, _V, _UPDATES = "exp_avg", "exp_avg_sq", "step"
# What torch.optim.AdamW has besides; none of it changes a number.
_SWITCHES: Final = {
    "amsgrad": False,
    "maximize": False,
    "foreach": None,
    "capturable": False,
    "differentiable": False,
    "fused": None,
    "decoupled_weight_decay": True,
}


def payload_of(moment: Moment) -> Payload:
    """The full state of ``moment``; it refers to the moment's tensors, on whatever device.

    Its identities have to be those of ``identities.collect``.
    """
    names = [name for name, _ in moment.parameters]
    payload = new_payload(
        model=dict(zip(names, map(_apart, moment.weights), strict=True)),
        optimizer=_optimizer(moment),
        state=TrainState(moment.step, *_epoch(moment.cursors)),
        rng=rng.full_state_form(moment.rng),
        device=torch.device(kind_of_device(moment.identities)),
    )
    if moment.history:  # one tensor: as many numbers would hold the interpreter at every save
        history = torch.frombuffer(moment.history, dtype=torch.float64)
        payload["train_state"]["losses"] = history
    payload["wall_saved_at"] = moment.saved
    payload["scheduler"] = dict(moment.schedule)
    payload["loader"] = {"cursors": moment.cursors}
    payload["extra"] = {
        "phase": moment.phase,
        "identities": moment.identities,
        "reason": moment.reason,
    }
    payload["structure"] = {
        "classes": {"optimizer": "AdamW"},
        "module_versions": {},
        "parameters": [names],
    }
    return payload


def read(path: Path, sha256: str, roots: Mapping[str, Path]) -> Payload:
    """The payload of a file or a folder, on the CPU, if the digest is that of the companion.

    Raises OSError, RefusedError.
    """
    try:
        if form_of(path.name) == "pt":
            return read_one_file(path, sha256=sha256)
        return read_sharded(path, shard_roots=roots, sha256=sha256)
    except FullStateError as error:
        raise RefusedError(f"cannot resume from {path}: {error}") from None


def fill(state: State, payload: Payload, name: str) -> Contents:
    """Copy all arrays into ``state``, wherever it lives; returns what the payload holds besides.

    Raises RefusedError for a state of another model or another trainer.
    """
    for where, tensor, saved in _pairs(state, payload, name):
        if not isinstance(saved, Tensor) or saved.shape != tensor.shape:
            found = tuple(saved.shape) if isinstance(saved, Tensor) else saved
            raise RefusedError(
                f"cannot resume from {name}: {where}: expected {tuple(tensor.shape)}, found {found}"
            )
        if saved.dtype != tensor.dtype:
            raise RefusedError(
                f"cannot resume from {name}: {where}: expected {tensor.dtype}, found {saved.dtype}"
            )
        tensor.copy_(saved)
    try:
        return _contents(payload, name)
    except (KeyError, TypeError, ValueError) as error:
        raise RefusedError(
            f"cannot resume from {name}: it is not of this trainer: {error!r}"
        ) from None


def _pairs(state: State, payload: Payload, name: str) -> Iterator[tuple[str, Tensor, object]]:
    """Each array, what it is, and what shall be copied into it."""
    model, entries = payload["model"], (payload["optimizer"] or {}).get("state", {})
    names = [key for key, _ in state.shapes()]
    if list(model) != names or list(entries) != list(range(len(names))):
        raise RefusedError(
            f"cannot resume from {name}: it holds {len(model)} parameters and {len(entries)} "
            f"moments, not those of this model: {', '.join(sorted(set(model) ^ set(names)))}"
        )
    optimizer = state.optimizer
    for at, key in enumerate(names):
        yield key, optimizer.parameters[at].detach(), model[key]
        yield f"m of {key}", optimizer.m[at], entries[at].get(_M)
        yield f"v of {key}", optimizer.v[at], entries[at].get(_V)


def _contents(payload: Payload, name: str) -> Contents:
    where = TrainState.of(payload["train_state"], name)
    generators = rng.companion_form(payload["rng"])
    return Contents(
        step=where.step,
        tokens=int(payload["scheduler"]["tokens"]),
        updates=int(payload["scheduler"]["updates"]),
        phase=payload["extra"]["phase"],
        cursors=payload["loader"]["cursors"],
        generators=generators,
        losses=where.losses,
    )


def _optimizer(moment: Moment) -> dict[str, Any]:
    train = moment.identities["settings"]["train"]
    updates = float(moment.schedule["updates"])
    arrays = enumerate(zip(moment.m, moment.v, strict=True))
    group = {
        "lr": (moment.next or {}).get("lr", train["lr"]),
        "betas": (BETA1, BETA2),
        "eps": EPSILON,
        "weight_decay": train["weight_decay"],
        **_SWITCHES,
        "params": list(range(len(moment.m))),
    }
    return {
        "state": {  # torch counts in place, so each has a count of its own
            at: {_UPDATES: torch.tensor(updates), _M: _apart(m), _V: _apart(v)}
            for at, (m, v) in arrays
        },
        "param_groups": [group],
    }


def _epoch(cursors: dict[str, Any]) -> tuple[int, int]:
    """Epoch and documents in it of the arm that is furthest on."""
    return max(((c["epoch"], c["position"]) for c in cursors.values()), default=(0, 0))


def _apart(tensor: Tensor) -> Tensor:
    """The same memory as a tensor of its own: a view would take its whole storage into a file."""
    if tensor.device.type != "cpu" or tensor.untyped_storage().nbytes() == tensor.nbytes:
        return tensor
    return torch.from_numpy(tensor.numpy())
