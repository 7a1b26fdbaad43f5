"""The records of a resume bundle: what it holds, and the evidence that it was loaded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from supervisor.errors import RefusedError
from trainer.contract.durable import write_file

MANIFEST: Final = "MANIFEST.json"
EVIDENCE: Final = "RESUME-EVIDENCE.json"


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class FileModel(_Model):
    """A file of the bundle, by its name relative to it."""

    name: str
    bytes: int
    sha256: str


class ManifestModel(_Model):
    """``MANIFEST.json``: every file but itself, the evidence and the list of digests.

    ``head`` is the run's head at the seal, as ``audit --head`` takes it.
    """

    schema_: Literal["stepkeeper.bundle/1"] = Field(default="stepkeeper.bundle/1", alias="schema")
    run: str
    name: str
    step: int
    n_params: int
    seal: str
    head: str
    policy: int
    stepkeeper: str
    made: str
    files: tuple[FileModel, ...]


class CommandsModel(_Model):
    """What was run: to make the bundle, and to load it."""

    export: tuple[str, ...]
    trainer: tuple[str, ...]


class RestoredModel(_Model):
    """What the trainer reported when it was ready for its next step."""

    step: int
    n_params: int
    companion: bool


class CheckModel(_Model):
    """One thing that was looked at and held; what does not hold leaves no evidence."""

    check: str
    passed: Literal[True] = True
    what: str


class EvidenceModel(_Model):
    """``RESUME-EVIDENCE.json``, written by the load.

    ``resumed`` is the checkpoint that was loaded: of a folder, the digest of its index and the
    bytes of all its files. ``manifest`` is the SHA-256 of the manifest, so the evidence is of these
    very files. ``seconds`` is how long the trainer took from its start to ``ready``.
    """

    schema_: Literal["stepkeeper.resume-evidence/1"] = Field(
        default="stepkeeper.resume-evidence/1", alias="schema"
    )
    run: str
    step: int
    seal: str
    manifest: str
    commands: CommandsModel
    resumed: FileModel
    restored: RestoredModel
    checks: tuple[CheckModel, ...]
    versions: dict[str, str]
    host: str
    seconds: float
    time: str


_Record = TypeVar("_Record", ManifestModel, EvidenceModel)


def is_bundle(folder: Path) -> bool:
    """Whether a folder is a bundle, which is forked from and never kept itself."""
    try:
        record = json.loads((folder / MANIFEST).read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    schema = record.get("schema") if isinstance(record, dict) else None
    return isinstance(schema, str) and schema.startswith("stepkeeper.bundle/")


def encode(record: ManifestModel | EvidenceModel) -> bytes:
    """The file's content."""
    return record.model_dump_json(by_alias=True, indent=1).encode("utf-8") + b"\n"


def write_evidence(folder: Path, record: EvidenceModel) -> None:
    """Keep it durably. Raises OSError."""
    write_file(folder / EVIDENCE, encode(record))


def read_manifest(folder: Path) -> ManifestModel:
    """The manifest of a bundle. Raises RefusedError where it cannot be used."""
    return _read(folder / MANIFEST, ManifestModel)


def read_evidence(folder: Path) -> EvidenceModel:
    """The evidence of a bundle. Raises RefusedError where it cannot be used."""
    return _read(folder / EVIDENCE, EvidenceModel)


def _read(path: Path, model: type[_Record]) -> _Record:
    try:
        record: Any = json.loads(path.read_bytes())
        return model.model_validate(record)
    except (OSError, ValueError, RecursionError) as error:
        raise RefusedError(f"cannot read {path}: {str(error).splitlines()[0]}") from None
