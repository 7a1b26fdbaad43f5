"""The state of a data mix as far as it can be recognised, whoever wrote it: weights and pulls.

Ours in any version, and every JSON object with ``arms``, by name, that have ``weight`` (a
multiplier), ``pulls`` or ``mean``. Nothing is guessed: a file that has none of these is refused.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from supervisor.core.bandit import BanditState
from supervisor.core.epochs import per_pull
from supervisor.core.linting import Mixing, Numbers
from supervisor.errors import UnknownError

_KNOWN = ("weight", "pulls", "mean", "epochs")


def of_bandit(state: BanditState) -> Mixing:
    """Our own state; its weights are the shares of the phase in progress."""
    shares = dict(state.phases[0].weights) if state.phases else {}
    arms = tuple(
        Numbers(arm.name, shares.get(arm.name), arm.n, arm.mean, arm.epochs, per_pull(arm))
        for arm in state.arms
    )
    stray = (Numbers(n, share) for n, share in shares.items() if n not in {a.name for a in arms})
    left = frozenset(retired.arm.name for retired in state.retired)
    return Mixing((*arms, *stray), shares=True, left=left)


def read_json(path: Path) -> Any:  # noqa: ANN401 - whatever JSON holds
    """What the file holds. Raises UnknownError."""
    try:
        return from_json(path.read_bytes(), allow_inf_nan=True)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UnknownError(f"cannot read the state {path}: {reason}") from None


def of_others(record: Any, where: Path) -> Mixing:  # noqa: ANN401 - whatever JSON holds
    """A state of another program. Raises UnknownError where nothing of it is recognised."""
    table = record.get("arms") if isinstance(record, dict) else None
    rows = table.items() if isinstance(table, dict) else ()
    arms = tuple(
        _numbers(name, values)
        for name, values in rows
        if isinstance(values, dict) and any(key in values for key in _KNOWN)
    )
    if not arms or len(arms) < len(rows):
        raise UnknownError(
            f"cannot tell what the state {where} says: it is neither stepkeeper's nor an object "
            'with "arms" by name, each with a weight, pulls or a mean'
        )
    return Mixing(arms, shares=False)


def _numbers(name: str, values: dict[str, Any]) -> Numbers:
    pulls = _number(values.get("pulls"))
    return Numbers(
        name,
        _number(values.get("weight")),
        None if pulls is None else int(pulls),
        _number(values.get("mean")),
        _number(values.get("epochs")),
    )


def _number(value: object) -> float | None:
    real = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if real and math.isfinite(value) else None  # type: ignore[arg-type]  # it is a number
