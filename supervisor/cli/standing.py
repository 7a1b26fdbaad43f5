"""Where a run stands, read from its files and locks alone: never locks, writes or waits.

Imports next to nothing, since ``status`` must answer at once.
"""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path
from typing import Any

from supervisor.errors import UnknownError
from supervisor.process.locks import held
from supervisor.sidecars import kept_settings
from supervisor.sidecars.checkpoints.catalogue import scan
from supervisor.sidecars.checkpoints.seals import SealRecord
from supervisor.sidecars.tailing import tail

_BLOCK = 1 << 18
_EVENTS = 8  # of the journal's last lines, for whether the run gave up
_STEP = b'"report":"step"'


def supervised(run: Path) -> bool:
    """Whether a supervisor keeps the run now. Raises UnknownError where one may not ask."""
    return _held(run / "run.lock")


def trained(run: Path) -> bool:
    """Whether its trainer lives, supervised or not. Raises UnknownError where one may not ask."""
    return _held(run / "trainer.lock")


def _held(path: Path) -> bool:
    try:
        return held(path)
    except PermissionError:
        raise UnknownError(
            f"cannot tell whether {path.parent} is kept: only its owner (uid {path.stat().st_uid}) "
            "may ask its locks; tail, loss, events and audit need the files alone"
        ) from None


def unfinished(run: Path) -> bool:
    """Whether an attempt's end is not recorded: its trainer lives, or nobody saw it end."""
    record = last_attempt(run)
    return trained(run) or (record is not None and not record.get("ended"))


def name_of(run: Path) -> str:
    """What the run's sidecars are called, by the settings in force: never by a later edit.

    Raises UnknownError where run.toml is all there is and cannot be read.
    """
    path = run / "run.toml"
    try:
        path = kept_settings.newest_path(run) or path
        name = tomllib.loads(path.read_text("utf-8")).get("name")
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise UnknownError(f"cannot read {path}: {why}") from None
    return name if isinstance(name, str) else run.name


def shard_roots(run: Path) -> dict[str, Path]:
    """The folders that shards may lie in beside a checkpoint's own, by the settings in force."""
    try:
        path = kept_settings.newest_path(run) or run / "run.toml"
        roots = tomllib.loads(path.read_text("utf-8"))["checkpoint"]["shard_roots"]
        return {str(name): run / folder for name, folder in roots.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}  # a shard that lies in one is then told to be nowhere


def ledger_path(run: Path) -> Path:
    """The ledger's path."""
    return run / f"{name_of(run)}.loss.json"


def last_line(run: Path) -> dict[str, Any] | None:
    """The ledger's last whole line, or None."""
    try:
        lines = tail(ledger_path(run), 1)
        return dict(json.loads(lines[0])) if lines else None
    except FileNotFoundError:
        return None
    except ValueError:
        raise UnknownError(f"cannot read the last line of {ledger_path(run)}") from None


def record(path: Path) -> dict[str, Any] | None:
    """A JSON file of the run, or None where it is not there. Raises UnknownError."""
    try:
        found = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise UnknownError(f"cannot read {path}: {error}") from None
    if not isinstance(found, dict):
        raise UnknownError(f"cannot read {path}: it holds no object")
    return found


def last_attempt(run: Path) -> dict[str, Any] | None:
    """The newest attempt's record, or None. Raises UnknownError."""
    try:
        names = [name for name in os.listdir(run / "attempts") if name.isdigit()]  # noqa: PTH208 - names only
    except FileNotFoundError:
        return None
    for name in sorted(names, key=int, reverse=True):
        path = run / "attempts" / name / "attempt.json"
        found = record(path)
        if found is not None and found.get("attempt") != int(name):
            raise UnknownError(f"cannot read {path}: it does not name attempt {int(name)}")
        if found is not None:
            return found
    return None


def rewound(run: Path, attempt: dict[str, Any] | None) -> dict[str, Any] | None:
    """The rewind that no attempt has gone on from yet, ``attempt`` being the newest one."""
    found = record(run / "rewind.json")
    newest = (attempt or {}).get("attempt")
    return found if found is not None and found.get("attempt") == newest else None


def at_rest(run: Path, attempt: dict[str, Any] | None, intent: dict[str, Any]) -> str:
    """Why nothing runs, in a word or two. Raises UnknownError."""
    ended = (attempt or {}).get("ended") or {}
    cause = ended.get("cause")
    stopped = intent.get("want") == "stop" and intent.get("done")
    released = cause == "stopped" and intent.get("want") == "run" and intent.get("done")
    failed = "failed" if cause == "failed" else f"failed: {cause}"
    words = (
        (intent.get("hold"), "held"),
        (attempt is None, "never started"),
        (not ended, "nothing runs"),
        (cause == "finished", "finished"),
        (stopped, "stopped"),
        (gave_up(run), "gave up"),
        (released, "released"),
    )
    return next((word for holds, word in words if holds), failed)


def gave_up(run: Path) -> str:
    """Why the supervisor gave up, where that was the last thing that it did; else empty."""
    try:
        newest = tail(run / "events.jsonl", _EVENTS)
    except FileNotFoundError:
        return ""
    for line in reversed(newest):
        if line.startswith(b'{"event":"gave-up"'):
            try:
                return str(json.loads(line)["facts"]["why"])
            except (ValueError, KeyError, TypeError):
                return "for a reason that cannot be read"
        if line.startswith(b'{"event":"attempt-started"'):
            return ""
    return ""


def reports_path(run: Path, attempt: int) -> Path:
    """Where an attempt's reports are."""
    return run / "attempts" / f"{attempt:06d}" / "reports.jsonl"


def last_report(run: Path, attempt: int) -> dict[str, Any] | None:
    """The newest step that an attempt has reported, whoever has read it; None where none."""
    try:
        with reports_path(run, attempt).open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _BLOCK))
            lines = file.read().split(b"\n")[:-1]
    except FileNotFoundError:
        return None
    for line in reversed(lines):
        if _STEP in line:
            try:
                return dict(json.loads(line))
            except ValueError:
                continue
    return None


def seals(run: Path, n: int = 1) -> tuple[SealRecord, ...]:
    """The newest seals that the run can resume from."""
    return scan(run / "checkpoints").newest(n)


def head_of(seal: SealRecord) -> str:
    """The witness of a seal: entries, chain and seal, to be noted outside."""
    return f"{seal.ledger.entries}:{seal.ledger.chain}:{seal.digest[:32]}"


def policy_in_force(run: Path) -> int:
    """The number of the newest policy, 0 before the first start."""
    numbers = [int(path.stem) for path in (run / "policies").glob("*.toml") if path.stem.isdigit()]
    return max(numbers, default=0)
