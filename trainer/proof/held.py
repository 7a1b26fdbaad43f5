"""What a checkpoint of the exercise holds beside tensors, and what is checked before it is used.

Nothing is initialised in silence: what is missing, contradicts itself, or was made by something
else than what would go on, is refused.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Final

from trainer.errors import SettingsError
from trainer.identities import differences
from trainer.proof import rows
from trainer.proof.experiment import BATCH, Experiment, Progress

SCHEMA: Final = "stepkeeper.exercise/1"
_KEYS: Final = {"schema", "progress", "history", "identities"}
_LINE: Final = {"step", "rows", "lr", "next_lr", "loss"}
_PER_EPOCH: Final = len(rows.ROWS) // BATCH


class ContradictionError(SettingsError):
    """A checkpoint that is as it was written, and is not whole or of another experiment."""


def record_of(experiment: Experiment) -> dict[str, Any]:
    """The record of this boundary."""
    return {
        "schema": SCHEMA,
        "progress": asdict(experiment.progress),
        "history": [dict(line) for line in experiment.history],
        "identities": experiment.identities(),
    }


def check(record: Any, experiment: Experiment, path: str) -> None:  # noqa: ANN401 - as it was read
    """Refuse what is not whole or not of this experiment. Raises SettingsError."""
    if not isinstance(record, dict) or record.get("schema") != SCHEMA:
        found = record.get("schema") if isinstance(record, dict) else type(record).__name__
        raise refused(path, f"schema: expected {SCHEMA}, found {found}")
    if record.keys() != _KEYS:
        raise refused(path, f"keys: {', '.join(sorted(record.keys() ^ _KEYS))} missing or unknown")
    _check_progress(record["progress"], path)
    _check_history(record["history"], record["progress"]["step"], path)
    if not isinstance(record["identities"], dict):
        raise refused(path, "identities: expected an object")
    changed = differences(record["identities"], experiment.identities())
    if changed:
        raise refused(path, f"it is of another experiment: {'; '.join(changed)}")


def put_back(record: dict[str, Any], experiment: Experiment) -> None:
    """Progress and history of a record that was checked."""
    progress = record["progress"]
    experiment.progress = Progress(**{**progress, "order": list(progress["order"])})
    experiment.history = [dict(line) for line in record["history"]]


def check_restored(experiment: Experiment, path: str) -> None:
    """Optimizer and scheduler have to stand where the progress does. Raises SettingsError."""
    step = experiment.progress.step
    counts = {int(state["step"]) for state in experiment.optimizer.state.values()}
    if counts != {step}:
        text = f"optimizer: updates of its parameters: {sorted(counts)}, progress: {step}"
        raise refused(path, text)
    if experiment.scheduler.last_epoch != step:
        text = f"scheduler: it stands at {experiment.scheduler.last_epoch}, progress: {step}"
        raise refused(path, text)
    [scheduled] = experiment.scheduler.get_last_lr()
    if not experiment.lr == scheduled == experiment.history[-1]["next_lr"]:
        text = f"learning rate: {experiment.lr} in the optimizer, {scheduled} in the scheduler"
        raise refused(path, f"{text}, {experiment.history[-1]['next_lr']} in the history")


def _check_progress(progress: Any, path: str) -> None:  # noqa: ANN401 - as it was read
    """Step, epoch, cursor and order have to tell the same story."""
    if not isinstance(progress, dict) or progress.keys() != Progress.__annotations__.keys():
        raise refused(path, f"progress: expected {', '.join(Progress.__annotations__)}")
    step, epoch, cursor, order = (progress[key] for key in Progress.__annotations__)
    if any(type(value) is not int or value < 0 for value in (step, epoch, cursor)) or not step:
        raise refused(path, f"progress: step {step}, epoch {epoch}, cursor {cursor}")
    expected = divmod(step - 1, _PER_EPOCH)
    if (epoch, cursor) != (expected[0], (expected[1] + 1) * BATCH):
        text = f"after {step} updates the cursor cannot stand at {cursor} of epoch {epoch}"
        raise refused(path, f"progress: {text}")
    if not isinstance(order, list) or sorted(order) != list(range(len(rows.ROWS))):
        raise refused(path, "progress: the order is no permutation of the rows")


def _check_history(history: Any, step: int, path: str) -> None:  # noqa: ANN401 - as it was read
    if not isinstance(history, list) or len(history) != step:
        raise refused(path, f"history: expected {step} updates")
    for number, line in enumerate(history, 1):
        if not isinstance(line, dict) or line.keys() != _LINE or line["step"] != number:
            raise refused(path, f"history: expected update {number}, found {line}")


def refused(path: str, why: str) -> ContradictionError:
    """The error that says why ``path`` is not resumed from."""
    return ContradictionError(f"cannot resume from {path}: {why}")
