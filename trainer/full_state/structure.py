"""Hold a payload against the objects it shall be restored into, before anything is touched."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from torch import Tensor
from torch.optim import Optimizer

from trainer.full_state.errors import DeviceError, StructureError
from trainer.full_state.payload import (
    Objects,
    Stateful,
    device_of,
    device_record,
    libraries,
    structure_of,
)
from trainer.full_state.schema import Payload

# What an optimizer keeps in the form of the parameter, whatever its class.
_LIKE_THE_PARAMETER: Final = frozenset(
    {"exp_avg", "exp_avg_sq", "max_exp_avg_sq", "exp_inf", "momentum_buffer", "square_avg", "sum"}
)


def check_structure(payload: Payload, objects: Objects, omit: Collection[str]) -> list[str]:
    """What is not as it was but may be; raises StructureError for what may not, by name.

    Parts named in ``omit`` are not looked at.
    """
    remarks: list[str] = []
    for name in ("optimizer", "scheduler", "scaler", "loader"):
        if name not in omit:
            _present(name, payload[name], getattr(objects, name))
    if "loader" not in omit and (check := getattr(objects.loader, "check_state_dict", None)):
        check(payload["loader"])
    if "model" not in omit:
        check_tensors("model", payload["model"], objects.model.state_dict())
    if "accumulation" not in omit and payload["accumulation"] is not None:
        own = dict(objects.model.named_parameters())
        gradients = payload["accumulation"]["gradients"]
        _no_unknown("accumulation", gradients, own)
        check_tensors("accumulation", gradients, {name: own[name] for name in gradients})
    if payload["structure"] is not None:
        _check_names(payload["structure"], structure_of(objects), omit)
    newer = (payload["libraries"] or {}).get("torch") != libraries()["torch"]
    if "optimizer" not in omit and objects.optimizer is not None:
        remarks += _check_optimizer(payload["optimizer"], objects.optimizer, newer=newer)
    if "scheduler" not in omit and objects.scheduler is not None:
        remarks += _check_scheduler(payload["scheduler"], objects, newer=newer)
    return remarks


def check_device(payload: Payload, objects: Objects, *, device_change: bool) -> tuple[bool, str]:
    """Whether the kind of device has changed, and a remark. Raises DeviceError unless allowed."""
    saved, here = payload["device"], device_record(device_of(objects.model))
    if saved is None:
        return False, "which device it was saved on is not recorded"
    if saved["type"] != here["type"]:
        if not device_change:
            raise DeviceError(
                f"cannot restore what was saved on {saved['type']} ({saved['name']}) on "
                f"{here['type']} ({here['name']}): the steps to come would differ; allow it with "
                "device_change"
            )
        return True, f"the device was {saved['type']} and is {here['type']}: no claim on bits"
    if saved["name"] != here["name"]:
        return False, f"the {here['type']} device was {saved['name']} and is {here['name']}"
    return False, ""


def check_tensors(part: str, saved: Mapping[str, Any], own: Mapping[str, Any]) -> None:
    """Raise StructureError with the first difference in names, shapes or dtypes."""
    if missing := [key for key in own if key not in saved]:
        raise StructureError(f"cannot restore the {part}: the file lacks {_some(missing)}")
    _no_unknown(part, saved, own)
    for key, value in own.items():
        if not isinstance(value, Tensor) or not isinstance(saved[key], Tensor):
            if isinstance(value, Tensor) != isinstance(saved[key], Tensor):
                raise StructureError(f"cannot restore the {part}: {key} is a tensor on one side")
            continue
        for what, there, here in (
            ("shape", tuple(saved[key].shape), tuple(value.shape)),
            ("dtype", saved[key].dtype, value.dtype),
        ):
            if there != here:
                raise StructureError(
                    f"cannot restore the {part}: {key} has the {what} {there} in the file and "
                    f"{here} here"
                )


def _present(name: str, saved: object, own: Stateful | Optimizer | None) -> None:
    if saved is not None and own is None:
        raise StructureError(
            f"cannot restore without the {name}: the file holds its state; give the object, made "
            f'before loading, or omit "{name}"'
        )
    if saved is None and own is not None:
        raise StructureError(
            f"cannot restore the {name}: the file holds no state of one; nothing is made up"
        )


def _no_unknown(part: str, saved: Mapping[str, Any], own: Mapping[str, Any]) -> None:
    if unknown := [key for key in saved if key not in own]:
        raise StructureError(
            f"cannot restore the {part}: the file holds {_some(unknown)}, which is not here"
        )


def _check_names(saved: dict[str, Any], own: dict[str, Any], omit: Collection[str]) -> None:
    for name, kind in own["classes"].items():
        was = saved["classes"].get(name)
        if name not in omit and was != kind:
            raise StructureError(f"cannot restore the {name}: it was {was} and is {kind}")
    if "optimizer" in omit:
        return
    there, here = saved["parameters"], own["parameters"]
    if len(there) != len(here):
        raise StructureError(
            f"cannot restore the optimizer: it had {len(there)} groups of parameters and has "
            f"{len(here)}"
        )
    for number, (was, now) in enumerate(zip(there, here, strict=True)):
        if was != now:
            pairs = zip(was, now, strict=False)
            first = next((pair for pair in pairs if pair[0] != pair[1]), (len(was), len(now)))
            raise StructureError(
                f"cannot restore the optimizer: the parameters of group {number}: the file has "
                f"{first[0]} where {first[1]} is here"
            )


def _check_optimizer(saved: dict[str, Any], optimizer: Optimizer, *, newer: bool) -> list[str]:
    groups, own = saved["param_groups"], optimizer.param_groups
    if len(groups) != len(own):
        raise StructureError(
            f"cannot restore the optimizer: it had {len(groups)} groups and has {len(own)}"
        )
    remarks = []
    parameters: dict[Any, Tensor] = {}
    for number, (there, here) in enumerate(zip(groups, own, strict=True)):
        if len(there["params"]) != len(here["params"]):
            raise StructureError(
                f"cannot restore the optimizer: group {number} had {len(there['params'])} "
                f"parameters and has {len(here['params'])}"
            )
        parameters |= zip(there["params"], here["params"], strict=True)
        remarks += _same_options(f"optimizer's group {number}", there, here, newer=newer)
    entries = saved["state"]
    kept = {name for entry in entries.values() for name in entry}
    for at, entry in entries.items():
        if at not in parameters or set(entry) != kept:
            wrong = ", ".join(sorted(kept - set(entry))) or "a parameter"
            raise StructureError(f"cannot restore the optimizer: state {at} lacks {wrong}")
        for name, value in entry.items():
            expected = tuple(parameters[at].shape)
            if name in _LIKE_THE_PARAMETER and value is not None and tuple(value.shape) != expected:
                raise StructureError(
                    f"cannot restore the optimizer: state {at}.{name} has the shape "
                    f"{tuple(value.shape)} in the file and its parameter {expected} here"
                )
    return remarks


def _check_scheduler(saved: dict[str, Any], objects: Objects, *, newer: bool) -> list[str]:
    scheduler = objects.scheduler
    own = scheduler.state_dict() if scheduler is not None else {}
    driven = getattr(scheduler, "optimizer", objects.optimizer)
    if driven is not objects.optimizer:
        raise StructureError("cannot restore the scheduler: it drives another optimizer")
    rates = saved.get("base_lrs"), own.get("base_lrs")
    if isinstance(rates[0], list) and isinstance(rates[1], list) and len(rates[0]) != len(rates[1]):
        raise StructureError(
            f"cannot restore the scheduler: it had {len(rates[0])} learning rates and has "
            f"{len(rates[1])}"
        )
    return _same_options("scheduler", saved, own, newer=newer)


def _same_options(
    part: str, saved: Mapping[str, Any], own: Mapping[str, Any], *, newer: bool
) -> list[str]:
    """Names that only one side has: a remark where torch is another one, else an error."""
    unknown = [key for key in saved if key not in own]
    missing = [key for key in own if key not in saved]
    if not newer and (unknown or missing):
        what = f"has {_some(unknown)} too many" if unknown else f"lacks {_some(missing)}"
        raise StructureError(f"cannot restore the {part}: the file {what}")
    remarks = [f"the {part} has no {key} any more" for key in unknown]
    return remarks + [f"the {part} has a new {key}, which stays {own[key]!r}" for key in missing]


def _some(names: list[str]) -> str:
    """The first names, and how many more."""
    shown = ", ".join(names[:3])
    return shown if len(names) <= len(names[:3]) else f"{shown} and {len(names) - 3} more"
