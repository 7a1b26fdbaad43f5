"""``proof.json``: the newest proof that this run resumes exactly, and what it holds for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from supervisor.errors import RefusedError
from trainer.contract.durable import write_file

NAME: Final = "proof.json"


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class StepsModel(_Model):
    """``start`` is the step of the seal that all lives began from, 0 for nothing.

    The resumed lives began after ``cut``; checkpoints were compared at ``last``.
    """

    start: int
    cut: int
    last: int


class ComparisonModel(_Model):
    """One thing compared between two lives; ``deviation`` is the largest one, where known."""

    what: str
    equal: bool
    detail: str
    deviation: float | None


class ControlModel(_Model):
    """What became of a life that resumed without one state."""

    without: str
    result: str
    detail: str


class ProofModel(_Model):
    """The whole file.

    ``seal`` is the digest of the seal begun from, or empty. ``combination`` is what the proof holds
    for; the run's checkpoints made after ``time`` say whether it is trained like that.
    ``repeated`` compares two lives before the cut, ``resumed`` the resumed one behind it.
    """

    schema_: Literal["stepkeeper.proof/1"] = Field(default="stepkeeper.proof/1", alias="schema")
    run: str
    verdict: str
    why: str
    steps: StepsModel
    seal: str
    combination: dict[str, Any]
    repeated: tuple[ComparisonModel, ...]
    resumed: tuple[ComparisonModel, ...]
    controls: tuple[ControlModel, ...]
    by: str
    time: str


def read(run: Path) -> ProofModel | None:
    """The newest proof; None where there is none. Raises RefusedError."""
    path = run / NAME
    try:
        record: Any = json.loads(path.read_bytes())
        return ProofModel.model_validate(record)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise RefusedError(
            f"cannot read {path}: {str(error).splitlines()[0]}; prove the run again"
        ) from None


def encode(record: ProofModel) -> bytes:
    """The file's content."""
    return record.model_dump_json(by_alias=True, indent=1).encode("utf-8") + b"\n"


def write(run: Path, record: ProofModel) -> None:
    """Keep it durably, in place of the one before. Raises OSError."""
    write_file(run / NAME, encode(record))
