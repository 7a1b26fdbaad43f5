"""``attempts/NNNNNN/attempt.json``: what each attempt started from, who it was and how it ended.

Counts of failures are derived from these records, never carried in memory across lives.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from supervisor.errors import RefusedError
from trainer.contract.durable import replace_file, sync_folder, write_file

SCHEMA = "stepkeeper.attempt/1"
# Of more attempts than these, a power cut takes nothing: the kernel has written them by then.
RECENT = 64


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ResumeModel(_Model):
    """The sealed checkpoint an attempt resumed from."""

    step: int
    sha256: str
    seal: str


class IdentityModel(_Model):
    """What proves the trainer process, as in ``process.identity``."""

    pid: int
    start_ticks: int
    boot_id: str
    pid_namespace: int
    token: str


class EndModel(_Model):
    """How it ended; ``sealed`` says whether it made progress, ``best`` the highest sealed step."""

    time: str
    cause: str
    status: int | None
    last_step: int
    ready: bool
    sealed: bool
    best: int
    proved: int
    consistent: int
    differed: int | None


class AttemptModel(_Model):
    """The whole record. ``ledger_step`` is the ledger's last step when it began."""

    schema_: Literal["stepkeeper.attempt/1"] = Field(default="stepkeeper.attempt/1", alias="schema")
    attempt: int
    policy: int
    token: str
    command: tuple[str, ...]
    settings: str
    resume: ResumeModel | None
    ledger_step: int
    started: str
    identity: IdentityModel | None = None
    ended: EndModel | None = None

    @property
    def known(self) -> bool:
        """Whether it says anything: ``mend`` closes one that a power cut took, of a blank form."""
        return bool(self.token)


def folder(run: Path, attempt: int) -> Path:
    """The attempt's directory."""
    return run / "attempts" / f"{attempt:06d}"


def write(run: Path, record: AttemptModel, *, durably: bool = True) -> None:
    """Keep the record, durably with its directory where asked. Raises OSError."""
    place = folder(run, record.attempt)
    if not place.is_dir():
        place.mkdir(parents=True, mode=0o750)
        sync_folder(place.parent)
    text = record.model_dump_json(by_alias=True, indent=1)
    write = write_file if durably else replace_file
    write(place / "attempt.json", text.encode("utf-8") + b"\n")


def read(run: Path, attempt: int) -> AttemptModel:
    """One record. Raises RefusedError where it cannot be used."""
    path = folder(run, attempt) / "attempt.json"
    try:
        record: Any = json.loads(path.read_bytes())
        return AttemptModel.model_validate(record, strict=False)
    except (OSError, ValueError, RecursionError) as error:
        raise RefusedError(f"cannot read {path}: {str(error).splitlines()[0]}") from None


def numbers(run: Path) -> list[int]:
    """The attempts that have a record, ascending."""
    found = (path.parent.name for path in (run / "attempts").glob("*/attempt.json"))
    return sorted(int(name) for name in found if name.isdigit())


def last(run: Path) -> AttemptModel | None:
    """The newest record, or None for a run that never started."""
    found = numbers(run)
    return read(run, found[-1]) if found else None


def mend(run: Path, wall: str, policy: int) -> dict[int, str]:
    """Close the newest records where a power cut left no whole one; what is wrong, by number.

    Ends and identities are written without a sync, so the name may stand before the bytes do, or
    before all of them. Nothing hangs on what is lost: no trainer outlives a power cut, and what the
    attempt did after the newest seal is done again. ``policy`` is that of the newest attempt; an
    older one had its successor's, since a pivot makes the record before it durable. A record that
    is JSON is left alone, whatever it says. Raises OSError.
    """
    damaged: dict[int, str] = {}
    for number in reversed(numbers(run)[-RECENT:]):
        data = (folder(run, number) / "attempt.json").read_bytes()
        try:
            policy = json.loads(data)["policy"]
        except (ValueError, RecursionError):
            damaged[number] = "torn" if data.strip(b"\0") else "empty"
            end_unknown(run, _blank(number, policy, wall), wall)
        except (KeyError, TypeError):
            continue  # not torn: reading it says what is wrong
    return damaged


def _blank(number: int, policy: int, wall: str) -> AttemptModel:
    """The record of an attempt of which nothing is known."""
    return AttemptModel(
        attempt=number,
        policy=policy,
        token="",
        command=(),
        settings="",
        resume=None,
        ledger_step=0,
        started=wall,
    )


def end_unknown(run: Path, record: AttemptModel, wall: str) -> None:
    """Close the record of an attempt of whose end nothing can be known. Raises OSError."""
    end = EndModel(
        time=wall,
        cause="ended, cause unknown",
        status=None,
        last_step=0,
        ready=False,
        sealed=False,
        best=-1,
        proved=0,
        consistent=0,
        differed=None,
    )
    write(run, record.model_copy(update={"ended": end}))


def settle(run: Path) -> None:
    """Make the newest attempt's end durable, before what must not be known without it.

    Raises RefusedError where no end is recorded, and OSError.
    """
    record = last(run)
    if record is not None and record.ended is None:
        raise RefusedError(f"cannot settle attempt {record.attempt}: its end is not recorded")
    if record is not None:
        write(run, record)


def without_progress(run: Path, policy: int, after: int = 0) -> tuple[list[AttemptModel], int]:
    """The ended attempts under ``policy`` since the last that made progress, the oldest first.

    Those up to number ``after`` are of an earlier reckoning and left out. The second value is the
    highest step sealed under ``policy`` that their records tell of, or -1.
    """
    found: list[AttemptModel] = []
    for number in reversed(numbers(run)):
        record = read(run, number) if number > after else None
        if record is None or record.policy != policy:
            break
        if record.ended is None:
            continue
        if record.ended.sealed:
            return found[::-1], max(record.ended.best, *(_best(later) for later in found), -1)
        found.append(record)
    return found[::-1], max((_best(record) for record in found), default=-1)


def _best(record: AttemptModel) -> int:
    return record.ended.best if record.ended is not None else -1
