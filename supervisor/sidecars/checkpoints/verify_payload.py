"""What the tree of a full-state payload must say, and which of its tensors are looked at.

The optimizer's state is either torch's own (``state`` by number, with ``exp_avg`` and
``exp_avg_sq``) or the reference trainer's (``m`` and ``v`` by name).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, NoReturn

from supervisor.sidecars.checkpoints.torch_file import Tensor, tensors
from supervisor.sidecars.checkpoints.verify_spans import Choice, Held
from trainer.contract.checkpoint_format import MOST_LOSSES, CheckpointFormatError

SCHEMAS: Final = ("stepkeeper.full-state/1", "stepkeeper.full-state/2")
_PARTS: Final = ("model", "optimizer", "scheduler", "train_state", "rng", "wall_saved_at")
_ROLES: Final = {"exp_avg": "m", "exp_avg_sq": "v", "max_exp_avg_sq": "v"}
_OWN: Final = ("m", "v")
_MOST_TOLD: Final = 60


class Facts(NamedTuple):
    """What a payload says of itself: its step, how many losses it keeps, and the newest of them."""

    schema: str
    step: int
    losses: int
    newest: list[float]


def facts(tree: Any, newest: list[float], path: str) -> Facts:  # noqa: ANN401 - from a file
    """Check the top of a payload; ``newest`` are the last losses where they are a tensor.

    Raises CheckpointFormatError with the first fault.
    """
    record = _dict(tree, "content", path)
    schema = record.get("schema")
    if schema not in SCHEMAS:
        _refuse(path, "schema", " or ".join(SCHEMAS), schema)
    for part in _PARTS:
        if part not in record:
            _refuse(path, "content", f"a {part}", None)
    state = _dict(record["train_state"], "train_state", path)
    step, losses = state.get("step"), state.get("losses")
    if type(step) is not int or step < 0:
        _refuse(path, "train_state.step", "a whole number of 0 or more", step)
    if isinstance(losses, Tensor) and _is_row(losses):
        return Facts(schema, step, losses.elements, newest)
    if not isinstance(losses, list) or not {float}.issuperset(map(type, losses)):
        _refuse(path, "train_state.losses", "a list of numbers", losses)
    return Facts(schema, step, len(losses), losses[-MOST_LOSSES:])


def model_of(tree: Any, path: str) -> dict[str, Tensor]:  # noqa: ANN401 - from a file
    """The tensors of a payload's or a shard's model by name; what else a module keeps is its own.

    Raises CheckpointFormatError.
    """
    model = _dict(_dict(tree, "content", path).get("model"), "model", path)
    return {str(name): value for name, value in model.items() if isinstance(value, Tensor)}


def choose(tree: Any, path: str) -> Choice:  # noqa: ANN401 - from a file
    """The tensors of model and optimizer, as a file of a checkpoint holds them, and the losses.

    A meta file has names in place of the model. Raises CheckpointFormatError.
    """
    record = _dict(tree, "content", path)
    optimizer = record.get("optimizer")
    if optimizer is not None:
        _dict(optimizer, "optimizer", path)
    found = [Held(name, tensor) for name, tensor in tensors(record.get("model"), "model")]
    inside = tensors(optimizer)
    found += [Held(f"optimizer.{name}", one, _role(name)) for name, one in inside]
    state = record.get("train_state")
    losses = state.get("losses") if isinstance(state, dict) else None
    return Choice(found, losses if isinstance(losses, Tensor) and _is_row(losses) else None)


def check_moments(present: set[str], nonzero: set[str], step: int, path: str) -> None:
    """Raise CheckpointFormatError where all of m, or all of v, is 0 after step 0."""
    for role in sorted(present - nonzero) if step else ():
        _refuse(path, f"the optimizer's {role}", f"numbers other than zero after step {step}", 0)


def check_parameters(
    wanted: Sequence[tuple[str, tuple[int, ...]]], model: dict[str, Tensor], path: str
) -> None:
    """Hold names and shapes that a companion gives against the model; buffers may come on top.

    Raises CheckpointFormatError.
    """
    for name, shape in wanted:
        tensor = model.get(name)
        if tensor is None:
            _refuse(path, "model", f"the parameter {name[:_MOST_TOLD]} of its companion", None)
        if tensor.shape != shape:
            expected = f"{list(shape)} as its companion says"
            raise CheckpointFormatError(
                path, f"shape of model.{name[:_MOST_TOLD]}", expected, list(tensor.shape)
            )


def check_count(n_params: int, model: dict[str, Tensor], path: str) -> None:
    """Raise CheckpointFormatError where the model has fewer numbers than the trainer said."""
    total = sum(tensor.elements for tensor in model.values())
    if total < n_params:
        raise CheckpointFormatError(path, "n_params", n_params, total)


def worded(losses: Sequence[float]) -> list[float | str]:
    """Losses as they are compared, a word for one that is not finite."""
    return [loss if math.isfinite(loss) else str(loss) for loss in losses]


def _is_row(tensor: Tensor) -> bool:
    """Whether it is one row of Python's own floats."""
    return tensor.dtype == "float64" and len(tensor.shape) == 1 and tensor.dense


def _role(name: str) -> str:
    first, _, rest = name.partition(".")
    if first in _OWN and rest:
        return first
    return _ROLES.get(name.rpartition(".")[2], "") if first != "param_groups" else ""


def _dict(value: Any, what: str, path: str) -> dict[Any, Any]:  # noqa: ANN401 - from a file
    if not isinstance(value, dict):
        _refuse(path, what, "a dictionary", value)
    return value


def _refuse(path: str, what: str, expected: str, found: object) -> NoReturn:
    """``found`` may be of any size and depth: it is told in a word where it is no scalar."""
    if isinstance(found, str):
        told = repr(found[:_MOST_TOLD])
    elif isinstance(found, bool | float | None) or (
        isinstance(found, int) and abs(found) < 1 << 63
    ):
        told = "none" if found is None else str(found)
    else:
        told = type(found).__name__
    raise CheckpointFormatError(path, what[: _MOST_TOLD * 2], expected, told)
