"""The schemas of a payload: which fields each has, and how an older one becomes the present one."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from torch import Tensor

from trainer.full_state.errors import SchemaError
from trainer.full_state.train_state import TrainState

Payload = dict[str, Any]

SCHEMA_V1: Final = "stepkeeper.full-state/1"
SCHEMA: Final = "stepkeeper.full-state/2"
_NAMED: Final = re.compile(r"stepkeeper\.full-state/(\d+)", re.ASCII)

_V1: Final[dict[str, tuple[type, ...]]] = {
    "schema": (str,),
    "wall_saved_at": (str,),
    "model": (dict,),
    "optimizer": (dict, type(None)),
    "scheduler": (dict, type(None)),
    "train_state": (dict,),
    "rng": (dict,),
}
_V2: Final[dict[str, tuple[type, ...]]] = {
    **_V1,
    "scaler": (dict, type(None)),
    "loader": (dict, type(None)),
    "accumulation": (dict, type(None)),
    "extra": (dict,),
    "device": (dict, type(None)),
    "libraries": (dict, type(None)),
    "structure": (dict, type(None)),
}
_RNG_V1: Final = ("python", "numpy", "torch_cpu", "torch_cuda")
_RNG: Final = (*_RNG_V1, "generators")


def migrate_v1_to_v2(payload: Payload) -> Payload:
    """Version 1 said nothing of scaler, loader, gradients in mid-window and named generators.

    It was written where there were none, so that is what they become. Which device, libraries
    and classes it was saved with is not known, and the resume says so.
    """
    return {
        **payload,
        "schema": SCHEMA,
        "rng": {**payload["rng"], "generators": {}},
        "scaler": None,
        "loader": None,
        "accumulation": None,
        "extra": {},
        "device": None,
        "libraries": None,
        "structure": None,
    }


_MIGRATIONS: Final[dict[str, Callable[[Payload], Payload]]] = {SCHEMA_V1: migrate_v1_to_v2}


def checked(payload: object, where: str) -> Payload:
    """The payload in the present schema. Raises SchemaError with the first fault."""
    if not isinstance(payload, dict) or "schema" not in payload:
        raise SchemaError(f"cannot use {where}: it holds no full state: there is no schema in it")
    schema = payload["schema"]
    if schema == SCHEMA_V1:
        _fields(payload, _V1, where)
        _keys(payload["rng"], _RNG_V1, f"{where}: rng")
        payload = _MIGRATIONS[schema](payload)
    elif schema != SCHEMA:
        raise SchemaError(f"cannot use {where}: {_unknown(schema)}")
    _fields(payload, _V2, where)
    _keys(payload["rng"], _RNG, f"{where}: rng")
    _accumulation(payload["accumulation"], where)
    TrainState.of(payload["train_state"], where)
    return payload


def _unknown(schema: object) -> str:
    named = _NAMED.fullmatch(schema) if isinstance(schema, str) else None
    if named and int(named[1]) > int(SCHEMA.rpartition("/")[2]):
        return f"its schema {schema} is newer than {SCHEMA}, the newest one known here; update"
    return f"schema: expected {SCHEMA}, found {schema!r}"


def _fields(payload: Payload, fields: dict[str, tuple[type, ...]], where: str) -> None:
    _keys(payload, fields, where)
    for name, kinds in fields.items():
        if not isinstance(payload[name], kinds):
            expected = " or ".join("null" if k is type(None) else k.__name__ for k in kinds)
            found = type(payload[name]).__name__
            raise SchemaError(f"cannot use {where}: {name}: expected {expected}, found {found}")


def _keys(record: dict[Any, Any], names: Any, where: str) -> None:  # noqa: ANN401 - dict or tuple
    missing = sorted(set(names) - set(record))
    unknown = sorted(map(str, set(record) - set(names)))
    if missing or unknown:
        parts = [
            f"{what} {', '.join(n)}"
            for what, n in (("lacks", missing), ("has unknown", unknown))
            if n
        ]
        raise SchemaError(f"cannot use {where}: it {' and '.join(parts)}; nothing is made up")


def _accumulation(record: dict[str, Any] | None, where: str) -> None:
    if record is None:
        return
    _keys(record, ("position", "gradients"), f"{where}: accumulation")
    gradients = record["gradients"]
    if type(record["position"]) is not int or record["position"] < 1:
        raise SchemaError(f"cannot use {where}: accumulation.position: expected 1 or more")
    if not isinstance(gradients, dict) or not all(
        isinstance(gradient, Tensor) for gradient in gradients.values()
    ):
        raise SchemaError(f"cannot use {where}: accumulation.gradients: expected tensors by name")
