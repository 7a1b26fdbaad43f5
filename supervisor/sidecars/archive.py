"""The files of a pivot: its journal, what it puts away, the policies, and its certificate.

Nothing here replaces or removes a record: sidecars move to a folder of their own under
``archive/``, and every step is safe to repeat after a crash at any instruction.
"""

from __future__ import annotations

import contextlib
import json
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from supervisor.errors import RefusedError
from trainer.contract.durable import move, sync_folder, write_file


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class PinModel(_Model):
    """The checkpoint that the run goes on from."""

    step: int
    sha256: str
    seal: str


class PositionModel(_Model):
    """Where the ledger stood: lines, bytes, chain and last step."""

    entries: int
    bytes: int
    chain: str
    step: int


class PivotModel(_Model):
    """``pivot.json``: how far a pivot is durable, and all it needs to go on."""

    schema_: Literal["stepkeeper.pivot/1"] = Field(default="stepkeeper.pivot/1", alias="schema")
    stage: Literal["requested", "stopped", "installed"]
    policy: int
    text: str
    asked_step: int
    when: Literal["boundary", "now"]
    by: str
    requested: str
    honoured: int | None = None
    pin: PinModel | None = None
    ledger: PositionModel | None = None


class FileModel(_Model):
    """A file that was put away."""

    name: str
    bytes: int
    sha256: str


class Certificate(_Model):
    """What a pivot did, for whoever was not there. The ledger's two positions show it untouched."""

    schema_: Literal["stepkeeper.certificate/1"] = Field(
        default="stepkeeper.certificate/1", alias="schema"
    )
    run: str
    policy_before: int
    policy_after: int
    policy_before_sha256: str
    policy_after_sha256: str
    asked_step: int
    asked_by: str
    honoured: int | None
    pin: PinModel
    ledger_at_stop: PositionModel
    ledger_at_install: PositionModel
    archived: tuple[FileModel, ...]
    first_step: int | None = None
    done: str | None = None


def journal_path(run: Path) -> Path:
    """Where a pivot under way is written down."""
    return run / "pivot.json"


def read_pivot(run: Path) -> PivotModel | None:
    """The pivot under way, or None. Raises RefusedError where its journal cannot be used."""
    path = journal_path(run)
    try:
        record: Any = json.loads(path.read_bytes())
        return PivotModel.model_validate(record)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise RefusedError(f"cannot read {path}: {str(error).splitlines()[0]}") from None


def write_pivot(run: Path, record: PivotModel) -> None:
    """Make a stage durable. Raises OSError."""
    write_file(journal_path(run), _dump(record))


def forget_pivot(run: Path) -> None:
    """Remove the journal of a pivot that is done or cancelled. Raises OSError."""
    journal_path(run).unlink(missing_ok=True)
    sync_folder(run)


def folder(run: Path, policy: int, step: int) -> Path:
    """Where the pivot to ``policy`` at ``step`` puts things."""
    return run / "archive" / f"pivot-{policy:04d}-step-{step:06d}"


def put_away(sources: tuple[Path, ...], target: Path) -> tuple[FileModel, ...]:
    """Move files into ``target``; what is there from an earlier try stays. Raises OSError."""
    for place in (target.parent, target):
        if not place.is_dir():
            place.mkdir(mode=0o750)
            sync_folder(place.parent)
    for source in sources:
        _move_once(source, target / source.name)
    names = {source.name for source in sources}
    found = sorted(path for path in target.iterdir() if path.name in names)
    return tuple(_describe(path) for path in found)


def _move_once(source: Path, target: Path) -> None:
    if not source.exists():
        return
    try:
        move(source, target)
    except FileExistsError:
        if not source.samefile(target):
            raise
        source.unlink()  # the crash fell between the two names of one file
        sync_folder(source.parent)


def _describe(path: Path) -> FileModel:
    data = path.read_bytes()
    return FileModel(name=path.name, bytes=len(data), sha256=sha256(data).hexdigest())


def policy_path(run: Path, number: int) -> Path:
    """The supervisor's copy of a policy that is or was in force."""
    return run / "policies" / f"{number:04d}.toml"


def policies(run: Path) -> list[int]:
    """The numbers of all policies that were ever in force, ascending."""
    names = (path.stem for path in (run / "policies").glob("*.toml"))
    return sorted(int(name) for name in names if name.isdigit())


def install_policy(run: Path, number: int, text: bytes) -> None:
    """Keep the policy's text under its number; one already there stays. Raises OSError."""
    path = policy_path(run, number)
    if not path.parent.is_dir():
        path.parent.mkdir(mode=0o750)
        sync_folder(run)
    if not path.exists():
        write_file(path, text)


def edit_policy(run: Path, before: bytes, text: bytes, target: Path) -> bool:
    """Bring ``policy.toml`` to the policy in force; an edit that is neither is kept in ``target``.

    True where there was such an edit. Raises OSError.
    """
    path = run / "policy.toml"
    edited = b""
    with contextlib.suppress(FileNotFoundError):
        edited = path.read_bytes()
    if edited == text:
        return False
    foreign = edited not in (b"", before)
    if foreign:
        write_file(target / "policy.toml.edited", edited)
    write_file(path, text)
    return foreign


def write_certificate(target: Path, certificate: Certificate) -> None:
    """Write ``certificate.json``; it is completed once, when the pivot is done. Raises OSError."""
    write_file(target / "certificate.json", _dump(certificate))


def read_certificate(target: Path) -> Certificate | None:
    """The certificate in ``target``, or None. Raises RefusedError."""
    path = target / "certificate.json"
    try:
        record: Any = json.loads(path.read_bytes())
        return Certificate.model_validate(record)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise RefusedError(f"cannot read {path}: {str(error).splitlines()[0]}") from None


def pinned_seals(run: Path) -> frozenset[str]:
    """The seals, by digest, that pivots went on from, the one under way included.

    Raises RefusedError.
    """
    under_way = read_pivot(run)
    found = [under_way.pin] if under_way is not None else []
    for place in sorted((run / "archive").glob("pivot-*")):
        certificate = read_certificate(place)
        found += [certificate.pin] if certificate is not None else []
    return frozenset(pin.seal for pin in found if pin is not None)


def _dump(model: BaseModel) -> bytes:
    return model.model_dump_json(by_alias=True, indent=1).encode("utf-8") + b"\n"
