"""Reads a ``.pt`` back: one torch.save file that holds the full state."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from supervisor.sidecars.checkpoints.torch_file import Tensor
from supervisor.sidecars.checkpoints.verify_companion import Expected, check_digest, read_beside
from supervisor.sidecars.checkpoints.verify_payload import (
    Facts,
    check_count,
    check_moments,
    check_parameters,
    choose,
    facts,
    model_of,
    worded,
)
from supervisor.sidecars.checkpoints.verify_stream import Counter, Manner, Stream
from supervisor.sidecars.checkpoints.verify_torch import Examined, examine
from trainer.contract.checkpoint_format import CheckpointFormatError, Companion


def check(path: Path, found: dict[str, Any], expected: Expected, manner: Manner) -> None:
    """Fill in what was ``found``. Raises CheckpointFormatError with the first fault, OSError."""
    with path.open("rb", buffering=0) as file:
        stream = Stream(file, str(path), Counter(aloud=manner.progress), idle=manner.idle)
        found["bytes"] = stream.size
        if manner.digest_only:
            found["sha256"] = stream.finish()
            check_digest(path, found["sha256"], expected)
            read_beside(path, found, expected)
            return
        examined = examine(stream, lambda tree: choose(tree, str(path)))
    found["sha256"] = examined.sha256
    check_digest(path, found["sha256"], expected)
    if examined.problem is not None:
        raise examined.problem
    said = facts(examined.tree, examined.newest, str(path))
    model = model_of(examined.tree, str(path))
    conclude(path, found, expected, said, model, [examined])


def conclude(
    path: Path,
    found: dict[str, Any],
    expected: Expected,
    said: Facts,
    model: dict[str, Tensor],
    files: list[Examined],
) -> None:
    """Hold what the files say together against the name, the companion and each other.

    ``found`` receives the loss histories, the companion's and the payload's where that is another.
    Raises CheckpointFormatError, OSError.
    """
    if said.step != found["step"]:
        raise CheckpointFormatError(
            str(path), "train_state.step", f"{found['step']} as in the name", said.step
        )
    roles = {one.role for file in files for one in file.held if one.role}
    nonzero = {role for file in files for role in file.nonzero}
    check_moments(roles, nonzero, said.step, str(path))
    check_count(expected.n_params, model, str(path))
    companion = read_beside(path, found, expected)
    if companion is not None:
        if expected.n_params not in (0, companion.n_params):
            raise CheckpointFormatError(
                str(path), "n_params", expected.n_params, companion.n_params
            )
        check_parameters(companion.parameters, model, str(path))
    found["losses"] = _histories(said, companion)


def _histories(said: Facts, companion: Companion | None) -> list[list[Any]]:
    """Each as its first step and the values from there on.

    A payload's own is a loss of each step only where a companion says that losses of steps are
    kept, or where there are as many as steps: a script may have kept something else.
    """
    beside = companion.losses if companion is not None else None
    if beside is None and said.losses != said.step:
        return []
    first = max(1, said.step - len(said.newest) + 1)
    if beside is not None:
        first = max(first, beside["first"])
    own = worded(said.newest[first - said.step - 1 :]) if first <= said.step else []
    histories = [[beside["first"], beside["values"]]] if beside is not None else []
    first = said.step - len(own) + 1
    if own and [first, own] not in histories:
        histories.append([first, own])
    return histories
