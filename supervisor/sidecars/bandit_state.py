"""``NAME.state.json``: the bandit state as a file, replaced atomically, until a pivot.

It is a projection of the fold, for people and other programs; recovery reads the seal. Unknown
keys are refused, older schemas migrated by name, newer ones refused.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from supervisor.core.bandit import ArmState, BanditState, Discounted, Retired
from supervisor.errors import RefusedError
from trainer.contract.durable import replace_file
from trainer.contract.wire import PhaseOrder

SCHEMA: Final = "stepkeeper.bandit/2"
_FIRST_SCHEMA: Final = "stepkeeper.bandit/1"


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class ArmModel(_Model):
    """Statistics of an arm, as in ``core.bandit.ArmState``; ``requested`` is served + failed."""

    requested: int
    served: int
    failed: int
    n: int
    mean: float
    ema: float
    loss: float | None
    last_step: int
    epochs: float | None
    discounted: tuple[float, float, float] = Field(strict=False)  # JSON has lists
    log_weight: float | None
    epochs_from: tuple[float, int] | None = Field(strict=False)
    content: str
    changed: int


class PhaseModel(_Model):
    """A decided phase: its shares sum to 1."""

    phase: int
    steps: int
    weights: dict[str, float]


class RetiredModel(_Model):
    """An arm that left, with its numbers."""

    arm: str
    why: str
    step: int
    numbers: ArmModel


class BanditModel(_Model):
    """The whole file."""

    schema_: Literal["stepkeeper.bandit/2"] = Field(default=SCHEMA, alias="schema")
    policy: int
    digest: str
    arms: dict[str, ArmModel]
    phases: list[PhaseModel]
    decided: int
    finished: int
    rewards: list[float]
    generator: int
    retired: list[RetiredModel]
    step: int
    frozen: str
    strangers: dict[str, int]


def to_record(state: BanditState) -> dict[str, Any]:
    """The state as plain JSON values, as it stands in the file and in every seal."""
    return {
        "schema": SCHEMA,
        "policy": state.policy,
        "digest": state.digest,
        "arms": {arm.name: _numbers(arm) for arm in state.arms},
        "phases": [
            {"phase": p.phase, "steps": p.steps, "weights": dict(p.weights)} for p in state.phases
        ],
        "decided": state.decided,
        "finished": state.finished,
        "rewards": list(state.rewards),
        "generator": state.generator,
        "retired": [
            {"arm": r.arm.name, "why": r.why, "step": r.step, "numbers": _numbers(r.arm)}
            for r in state.retired
        ],
        "step": state.step,
        "frozen": state.frozen,
        "strangers": dict(state.strangers),
    }


def from_record(record: Any, where: str) -> BanditState:  # noqa: ANN401 - checked here
    """The state from plain values. Raises RefusedError naming ``where`` and every problem."""
    schema = record.get("schema") if isinstance(record, dict) else None
    if schema == _FIRST_SCHEMA:
        record = migrate_v1_to_v2(record)
    elif schema != SCHEMA:
        raise RefusedError(
            f"cannot use the bandit state in {where}: schema {schema!r}, expected {SCHEMA!r}"
        )
    try:
        model = BanditModel.model_validate(record)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise RefusedError(
            f"cannot use the bandit state in {where}: {key}: {first['msg']}"
        ) from None
    return BanditState(
        policy=model.policy,
        digest=model.digest,
        arms=tuple(_arm(name, numbers) for name, numbers in model.arms.items()),
        phases=tuple(PhaseOrder(p.phase, p.steps, tuple(p.weights.items())) for p in model.phases),
        decided=model.decided,
        finished=model.finished,
        rewards=tuple(model.rewards),
        generator=model.generator,
        retired=tuple(Retired(_arm(r.arm, r.numbers), r.why, r.step) for r in model.retired),
        step=model.step,
        frozen=model.frozen,
        strangers=tuple(model.strangers.items()),
    )


def read(path: Path) -> BanditState:
    """The file's state. Raises OSError, and RefusedError for what is none."""
    try:
        return from_record(json.loads(path.read_bytes()), str(path))
    except ValueError as error:
        raise RefusedError(f"cannot use the bandit state in {path}: {error}") from None


def migrate_v1_to_v2(record: dict[str, Any]) -> dict[str, Any]:
    """The first schema knew no epochs, contents or strangers, nor sums and steps of phases.

    What is missing is what a state without reports has; the step is the last one that an arm
    served, which no policy of that time asks for. What does not fit is left for the check.
    """

    def numbers(arm: Any) -> Any:  # noqa: ANN401 - checked afterwards
        more = {"epochs": None, "discounted": [0.0, 0.0, 0.0], "log_weight": None}
        seen = {"epochs_from": None, "content": "", "changed": 0}
        return {**arm, **more, **seen} if isinstance(arm, dict) else arm

    arms, retired = record.get("arms"), record.get("retired")
    changed = {**record, "schema": SCHEMA, "step": 0, "frozen": "", "strangers": {}}
    if isinstance(arms, dict):
        changed["arms"] = {name: numbers(arm) for name, arm in arms.items()}
        last = [a.get("last_step") for a in arms.values() if isinstance(a, dict)]
        changed["step"] = max((step for step in last if isinstance(step, int)), default=0)
    if isinstance(retired, list):
        changed["retired"] = [
            {**r, "numbers": numbers(r.get("numbers"))} if isinstance(r, dict) else r
            for r in retired
        ]
    return changed


def write(path: Path, state: BanditState) -> None:
    """Replace the file. Raises OSError."""
    text = BanditModel.model_validate(to_record(state)).model_dump_json(by_alias=True, indent=1)
    replace_file(path, text.encode("utf-8") + b"\n")


def _numbers(arm: ArmState) -> dict[str, Any]:
    return {
        "requested": arm.requested,
        "served": arm.served,
        "failed": arm.failed,
        "n": arm.n,
        "mean": arm.mean,
        "ema": arm.ema,
        "loss": arm.loss,
        "last_step": arm.last_step,
        "epochs": arm.epochs,
        "discounted": list(arm.discounted),
        "log_weight": arm.log_weight,
        "epochs_from": list(arm.epochs_from) if arm.epochs_from else None,
        "content": arm.content,
        "changed": arm.changed,
    }


def _arm(name: str, model: ArmModel) -> ArmState:
    return ArmState(
        name,
        served=model.served,
        failed=model.failed,
        n=model.n,
        mean=model.mean,
        ema=model.ema,
        loss=model.loss,
        last_step=model.last_step,
        epochs=model.epochs,
        discounted=Discounted(*model.discounted),
        log_weight=model.log_weight,
        epochs_from=model.epochs_from,
        content=model.content,
        changed=model.changed,
    )
