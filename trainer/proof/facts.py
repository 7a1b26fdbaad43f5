"""States as JSON can hold them, to the last bit, and back.

A tensor becomes its type, shape and values; a number that is not finite becomes an object of its
own, which no comparison accepts.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, Final

import torch

NONFINITE: Final = "nonfinite"


def plain(value: Any) -> Any:  # noqa: ANN401 - any state
    """Tensors, numbers, text, and dicts, lists and tuples of them. Raises TypeError for others."""
    if isinstance(value, torch.Tensor):
        kind = str(value.dtype).removeprefix("torch.")
        values = value.detach().cpu().reshape(-1).tolist()
        return {"dtype": kind, "shape": list(value.shape), "values": [plain(v) for v in values]}
    if isinstance(value, dict):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return {NONFINITE: str(value)}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"cannot keep a {type(value).__name__} as a plain value")


def tensor_of(record: dict[str, Any]) -> torch.Tensor:
    """The tensor that ``plain`` made a record of. Raises ValueError."""
    try:
        dtype = getattr(torch, record["dtype"])
        return torch.tensor(record["values"], dtype=dtype).reshape(record["shape"])
    except (AttributeError, KeyError, TypeError, RuntimeError) as error:
        raise ValueError(f"cannot read a tensor: {error!r}") from None


def to_bytes(record: dict[str, Any]) -> bytes:
    """A file's content: strict JSON, indented for people."""
    return json.dumps(record, allow_nan=False, indent=1).encode("ascii") + b"\n"


def read(path: Path) -> dict[str, Any]:
    """A file's content. Raises OSError, ValueError."""
    record = json.loads(path.read_bytes())
    if not isinstance(record, dict):
        raise ValueError(f"cannot use {path}: expected a JSON object")  # noqa: TRY004 - of a file
    return record
