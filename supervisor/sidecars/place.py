"""``place.json``: the machine and the directory in which a run was last kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from supervisor.errors import RefusedError
from trainer.contract.durable import write_file

NAME: Final = "place.json"


class PlaceModel(BaseModel):
    """The whole file. ``machine`` is empty for a machine without an identity of its own."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_: Literal["stepkeeper.place/1"] = Field(default="stepkeeper.place/1", alias="schema")
    run: str
    machine: str
    host: str
    path: str
    device: int
    inode: int
    time: str


def read(run: Path) -> PlaceModel | None:
    """Where the run was last kept; None for one that never was. Raises RefusedError."""
    path = run / NAME
    try:
        record: Any = json.loads(path.read_bytes())
        return PlaceModel.model_validate(record)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise RefusedError(
            f"cannot read {path}: {str(error).splitlines()[0]}; remove it if nobody else keeps "
            "this run"
        ) from None


def write(run: Path, record: PlaceModel) -> None:
    """Keep it durably. Raises OSError."""
    text = record.model_dump_json(by_alias=True, indent=1)
    write_file(run / NAME, text.encode("utf-8") + b"\n")
