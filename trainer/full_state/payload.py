"""Gather the full state of a training run into one payload of tensors and plain containers.

The payload refers to the live tensors: write it before the next update, or ``frozen`` it first.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from trainer import clock
from trainer.full_state.errors import PayloadError
from trainer.full_state.plain import plain
from trainer.full_state.rng import Generator, capture_rng_state
from trainer.full_state.schema import SCHEMA, Payload
from trainer.full_state.train_state import TrainState


class Stateful(Protocol):
    """A scheduler, a gradient scaler, a data loader: what hands out its state and takes it back."""

    def state_dict(self) -> dict[str, Any]:
        """Its state."""
        ...

    def load_state_dict(self, state_dict: dict[str, Any], /) -> object:
        """Go on from that state."""
        ...


@dataclass(frozen=True)
class Objects:
    """What has a state, in the order in which it is restored; generators come last."""

    model: nn.Module
    optimizer: Optimizer | None = None
    scheduler: Stateful | None = None
    scaler: Stateful | None = None
    loader: Stateful | None = None
    generators: Mapping[str, Generator] = field(default_factory=dict)


def payload_of(
    objects: Objects,
    state: TrainState,
    *,
    accumulated: int = 0,
    extra: dict[str, Any] | None = None,
) -> Payload:
    """The full state at this moment; generators are read and not drawn from.

    ``accumulated`` is the number of micro-batches whose gradients stand in the model and wait for
    the update; then the gradients are part of it. ``extra`` is the caller's own. Raises
    PayloadError that names what is neither a tensor nor a plain container.
    """
    structure = structure_of(objects)
    if stray := sum(name == "" for names in structure["parameters"] for name in names):
        raise PayloadError(
            f"cannot save: the optimizer updates {stray} parameters that are not the model's, and "
            "their values would be lost; put them into one module with it"
        )
    model = objects.model.state_dict()
    payload = new_payload(
        model=plain(model, "model"),
        optimizer=_state(objects.optimizer, "optimizer"),
        state=state,
        rng=capture_rng_state(objects.generators),
        device=device_of(objects.model),
    )
    payload["scheduler"] = _state(objects.scheduler, "scheduler")
    payload["scaler"] = _state(objects.scaler, "scaler")
    payload["loader"] = _state(objects.loader, "loader")
    if accumulated:
        payload["accumulation"] = {
            "position": accumulated,
            "gradients": {
                name: parameter.grad.detach()
                for name, parameter in objects.model.named_parameters()
                if parameter.grad is not None
            },
        }
    payload["extra"] = plain(extra or {}, "extra")
    payload["structure"] = structure
    return payload


def new_payload(
    *,
    model: dict[str, Any],
    optimizer: dict[str, Any] | None,
    state: TrainState,
    rng: dict[str, Any],
    device: torch.device,
) -> Payload:
    """A payload with every field of the schema, from states that are plain already.

    For a trainer with an optimizer of its own; what else it has goes into the fields that are
    empty here. Raises PayloadError.
    """
    return {
        "schema": SCHEMA,
        "wall_saved_at": clock.wall(),
        "model": model,
        "optimizer": optimizer,
        "scheduler": None,
        "scaler": None,
        "loader": None,
        "accumulation": None,
        "train_state": state.record(),
        "rng": rng,
        "extra": {},
        "device": device_record(device),
        "libraries": libraries(),
        "structure": None,
    }


def frozen(payload: Payload) -> Payload:
    """The payload with every tensor copied to the CPU, so that training may go on meanwhile.

    Memory: one copy of all tensors. Tensors that share memory share it in the copy too.
    """
    result: Payload = copied(payload, torch.device("cpu"))
    return result


def copied(value: Any, device: torch.device | None = None) -> Any:  # noqa: ANN401 - any container
    """The same containers with copies of the tensors in them, on ``device`` or where each is."""
    copies: dict[tuple[Any, ...], Tensor] = {}

    def copy(value: Any) -> Any:  # noqa: ANN401 - any container of any depth
        if isinstance(value, Tensor):
            key = (value.data_ptr(), value.dtype, value.shape, value.stride(), value.device)
            if key not in copies or not value.data_ptr():
                copies[key] = value.detach().to(device or value.device, copy=True)
            return copies[key]
        if isinstance(value, dict):
            return {name: copy(item) for name, item in value.items()}
        if isinstance(value, list) and not (value and isinstance(value[0], int | float)):
            return [copy(item) for item in value]
        return tuple(copy(item) for item in value) if isinstance(value, tuple) else value

    return copy(value)


def device_of(model: nn.Module) -> torch.device:
    """Where the first tensor of the model lives; the CPU for a model without any."""
    tensors = (*model.parameters(), *model.buffers())
    return tensors[0].device if tensors else torch.device("cpu")


def device_record(device: torch.device) -> dict[str, str]:
    """The kind and the name of a device."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()
    return {"type": device.type, "name": name}


def libraries() -> dict[str, str]:
    """The versions that a result can depend on."""
    return {
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "numpy": np.__version__,
    }


def structure_of(objects: Objects) -> dict[str, Any]:
    """Classes, module versions, and for each group of the optimizer the names of its parameters.

    A parameter that is not the model's has the name "".
    """
    metadata: dict[str, dict[str, Any]] = getattr(objects.model.state_dict(), "_metadata", {})
    names = {id(parameter): name for name, parameter in objects.model.named_parameters()}
    groups = objects.optimizer.param_groups if objects.optimizer else []
    return {
        "classes": {
            name: type(part).__name__
            for name in ("optimizer", "scheduler")
            if (part := getattr(objects, name)) is not None
        },
        "module_versions": {
            prefix: entry["version"] for prefix, entry in metadata.items() if "version" in entry
        },
        "parameters": [[names.get(id(p), "") for p in group["params"]] for group in groups],
    }


def _state(part: Stateful | Optimizer | None, where: str) -> Any:  # noqa: ANN401 - dict or None
    return None if part is None else plain(part.state_dict(), where)
