"""Put a payload back into the objects of a training script, in the one right order.

Everything is held against the objects first, so a refusal leaves them as they were. Then: model,
optimizer (its scheduler exists already, or it would set the learning rate anew), scheduler,
scaler, loader, gradients that wait for an update, ``model.train()``, and generators last, since
whatever is built or drawn after them would move them.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Collection
from typing import Any, Final

from torch import nn

from trainer.full_state.errors import StructureError
from trainer.full_state.payload import Objects, copied, device_of, libraries
from trainer.full_state.rng import check_rng_state, restore_rng_state
from trainer.full_state.schema import Payload, checked
from trainer.full_state.structure import check_device, check_structure
from trainer.full_state.train_state import Restored, TrainState

PARTS: Final = ("model", "optimizer", "scheduler", "scaler", "loader", "accumulation", "rng")


def restore(
    payload: Payload,
    objects: Objects,
    *,
    omit: Collection[str] = (),
    device_change: bool = False,
    spend: bool = False,
) -> Restored:
    """Restore all parts but those in ``omit``, which is for negative controls.

    ``device_change`` allows another kind of device than the payload was saved on: no bit is
    promised then, and CUDA's generators are left out. ``spend`` says that the payload is not used
    again, so the optimizer may train on with its tensors instead of copies. Raises SchemaError,
    StructureError, DeviceError, with the objects untouched.
    """
    payload = checked(payload, "the payload")
    omit = (omit,) if isinstance(omit, str) else omit
    if unknown := [name for name in omit if name not in PARTS]:
        raise StructureError(f"cannot omit {', '.join(unknown)}: parts are {', '.join(PARTS)}")
    changed, remark = check_device(payload, objects, device_change=device_change)
    remarks = [remark] if remark else []
    remarks += _library_remarks(payload["libraries"])
    remarks += check_structure(payload, objects, omit)
    if "rng" not in omit:
        check_rng_state(payload["rng"], objects.generators, cuda=not changed)
    if not spend:
        payload = {**payload, "optimizer": copied(payload["optimizer"])}
    _load(payload, objects, omit)
    objects.model.train()
    if "rng" not in omit:
        restore_rng_state(payload["rng"], objects.generators, cuda=not changed)
    accumulation = None if "accumulation" in omit else payload["accumulation"]
    return Restored(
        **TrainState.of(payload["train_state"], "the payload").record(),
        schema=payload["schema"],
        omitted=tuple(name for name in PARTS if name in omit),
        device_changed=changed,
        remarks=tuple(remarks),
        accumulation=accumulation["position"] if accumulation else 0,
        extra=payload["extra"],
        rng=payload["rng"],
    )


def _load(payload: Payload, objects: Objects, omit: Collection[str]) -> None:
    if "model" not in omit:
        objects.model.load_state_dict(_versioned(payload))
    if "optimizer" not in omit and objects.optimizer is not None:
        objects.optimizer.load_state_dict(payload["optimizer"])
    for name in ("scheduler", "scaler", "loader"):
        part = getattr(objects, name)
        if name not in omit and part is not None:
            part.load_state_dict(_counters(payload[name], part.state_dict()))
    if "accumulation" not in omit:
        _put_gradients(payload["accumulation"], objects.model)


def _versioned(payload: Payload) -> OrderedDict[str, Any]:
    """The model's state with the versions of its modules, by which torch migrates it."""
    state = OrderedDict(payload["model"])
    versions = (payload["structure"] or {}).get("module_versions", {})
    metadata = {prefix: {"version": version} for prefix, version in versions.items()}
    if metadata:
        state._metadata = metadata  # type: ignore[attr-defined]  # noqa: SLF001 - where torch looks
    return state


def _counters(saved: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """A scheduler's counters are plain dicts in the payload; here they become counters again."""
    return {
        name: Counter(value) if isinstance(own.get(name), Counter) else value
        for name, value in saved.items()
    }


def _put_gradients(accumulation: dict[str, Any] | None, model: nn.Module) -> None:
    gradients = accumulation["gradients"] if accumulation else {}
    device = device_of(model)
    for name, parameter in model.named_parameters():
        gradient = gradients.get(name)
        parameter.grad = None if gradient is None else gradient.to(device, copy=True)


def _library_remarks(saved: dict[str, str] | None) -> list[str]:
    if saved is None:
        return ["which libraries it was saved with is not recorded"]
    return [
        f"{name} was {saved.get(name)} and is {version}"
        for name, version in libraries().items()
        if saved.get(name) != version
    ]
