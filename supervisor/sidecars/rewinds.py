"""``rewind.json``: the newest rewind, durable before it takes anything out of the lineage.

It stays when it is done, since it says which lines of the ledger no attempt repeats any more: those
above step ``to`` among the first ``ledger.entries``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from supervisor.errors import RefusedError
from trainer.contract.durable import write_file

NAME: Final = "rewind.json"


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class TargetModel(_Model):
    """The sealed checkpoint that the run goes on from."""

    step: int
    sha256: str
    seal: str


class LineModel(_Model):
    """Where the ledger ended: lines, bytes, chain and last step."""

    entries: int
    bytes: int
    chain: str
    step: int


class RewindModel(_Model):
    """The whole file. ``attempt`` is the last one before it, ``sealed`` its newest seal's step."""

    schema_: Literal["stepkeeper.rewind/1"] = Field(default="stepkeeper.rewind/1", alias="schema")
    stage: Literal["begun", "done"]
    to: TargetModel
    sealed: int
    attempt: int
    ledger: LineModel
    by: str
    time: str


def read(run: Path) -> RewindModel | None:
    """The newest rewind, or None. Raises RefusedError where its file cannot be used."""
    path = run / NAME
    try:
        record: Any = json.loads(path.read_bytes())
        return RewindModel.model_validate(record)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise RefusedError(f"cannot read {path}: {str(error).splitlines()[0]}") from None


def write(run: Path, record: RewindModel) -> None:
    """Make a stage durable. Raises OSError."""
    text = record.model_dump_json(by_alias=True, indent=1)
    write_file(run / NAME, text.encode("utf-8") + b"\n")
