"""Turn what objects hand out into tensors and plain containers, or say what cannot be."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trainer.full_state.errors import PayloadError

_SCALARS = frozenset({bool, int, float, str, bytes, type(None)})
_BASES: tuple[type[Any], ...] = (int, float, str)  # of what is a number or a text by inheritance


def plain(value: object, where: str) -> Any:  # noqa: ANN401, PLR0911 - any container; a kind each
    """``value`` with every container a dict, list or tuple, and every number Python's own.

    Tensors stay as they are, detached and not copied. Raises PayloadError that names the place,
    such as ``scheduler.lr_lambdas[0]``.
    """
    if type(value) in _SCALARS:
        return value
    if isinstance(value, Tensor):
        return value.detach()
    if isinstance(value, np.generic):
        return plain(value.item(), where)
    if isinstance(value, dict):
        return {_key(key, where): plain(item, f"{where}.{key}") for key, item in value.items()}
    if isinstance(value, list | tuple):
        kind = list if isinstance(value, list) else tuple
        if _SCALARS.issuperset(map(type, value)):  # a long history is not walked in Python
            return kind(value)
        return kind(plain(item, f"{where}[{at}]") for at, item in enumerate(value))
    if (base := next((base for base in _BASES if isinstance(value, base)), None)) is not None:
        return base(value)
    raise PayloadError(
        f"cannot save {where}: {type(value).__module__}.{type(value).__qualname__} is neither a "
        "tensor nor a plain container; save the numbers that it is made from"
    )


def _key(key: object, where: str) -> Any:  # noqa: ANN401 - any scalar
    plain_key = plain(key, f"a key of {where}")
    if isinstance(plain_key, Tensor | dict | list):
        raise PayloadError(f"cannot save a key of {where}: {type(key).__name__} is no scalar")
    return plain_key


def number(value: object, where: str) -> float:
    """A scalar of Python, numpy or torch as a float. Raises PayloadError."""
    if isinstance(value, Tensor | np.ndarray) and value.ndim == 0:
        return float(value.item())
    if isinstance(value, bool | int | float | np.number):
        return float(value)
    raise PayloadError(f"cannot save {where}: {type(value).__name__} is not a number")


def strict_json(value: object, where: str, nonfinite: dict[str, str]) -> Any:  # noqa: ANN401 - as above
    """``value`` as strict JSON can hold it: null where a number is not finite.

    Scalar tensors become numbers. Each number that is not finite is noted in ``nonfinite`` as
    ``nan``, ``inf`` or ``-inf`` under its place. Raises PayloadError.
    """
    if isinstance(value, Tensor | np.ndarray) and value.ndim == 0:
        value = value.item()
    if isinstance(value, torch.Tensor | bytes):
        raise PayloadError(f"cannot write {where} as JSON: {type(value).__name__}")
    value = plain(value, where)
    if isinstance(value, float) and not math.isfinite(value):
        nonfinite[where] = "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
        return None
    if isinstance(value, dict):
        return {
            str(key): strict_json(item, f"{where}.{key}" if where else str(key), nonfinite)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [strict_json(item, f"{where}[{at}]", nonfinite) for at, item in enumerate(value)]
    return value
