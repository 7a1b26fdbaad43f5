"""``intent.json``: what the operator wants of a run, durable before any signal is sent.

``{"schema", "want", "by", "boot_id", "done", "hold", "time", "start"}``. ``done`` says that the
supervisor left in good order over it, so whoever starts the run next is an operator; until then a
start is the same one going on. ``start`` is the operator's: ``{"after", "boot_id", "seconds"}``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from supervisor import clock
from supervisor.core.limits import GUARD
from supervisor.errors import RefusedError
from supervisor.process.identity import boot_id
from trainer.contract.durable import write_file

SCHEMA = "stepkeeper.intent/2"


class Start(NamedTuple):
    """When an operator last started the run: behind attempt ``after``, on this boot.

    ``seconds`` are those since the boot ``boot_id``.
    """

    after: int
    boot_id: str
    seconds: float


def read_intent(run: Path) -> dict[str, Any]:
    """What was last made durable; empty where nothing was. Raises RefusedError for a newer form."""
    try:
        record = json.loads((run / "intent.json").read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return _from_1(record) if isinstance(record, dict) else {}


def guard_of(intent: dict[str, Any]) -> str:
    """The guard that wanted the run stopped; empty where it was not a guard."""
    who, _, guard = str(intent.get("by", "")).partition(" ")
    return guard if intent.get("want") == "stop" and who == GUARD else ""


def _from_1(record: dict[str, Any]) -> dict[str, Any]:
    """The first form named no schema and no start."""
    if "schema" not in record:
        return {**record, "schema": SCHEMA, "start": None}
    if record["schema"] != SCHEMA:
        raise RefusedError(
            f"cannot use intent.json: its schema is {record['schema']!r}, newer than {SCHEMA}; "
            "start the run with the version that wrote it"
        )
    return record


def write_intent(run: Path, want: str, by: str, *, done: bool, hold: bool | None) -> None:
    """Make it durable; an empty ``by`` and a ``hold`` of None stay as they are. Raises OSError."""
    _write(run, read_intent(run), want, by, done=done, hold=hold)


def write_start(run: Path, start: Start, by: str) -> None:
    """Make durable that the run is wanted, and since when. Raises OSError."""
    record = {**read_intent(run), "start": start._asdict()}
    _write(run, record, "run", by, done=False, hold=None)


def _write(
    run: Path, before: dict[str, Any], want: str, by: str, *, done: bool, hold: bool | None
) -> None:
    record = {
        "schema": SCHEMA,
        "want": want,
        "by": by or before.get("by", ""),
        "boot_id": boot_id(),
        "done": done,
        "hold": before.get("hold", False) if hold is None else hold,
        "time": clock.wall(),
        "start": before.get("start"),
    }
    write_file(run / "intent.json", json.dumps(record).encode("ascii") + b"\n")


def start_of(intent: dict[str, Any], last: int) -> Start:
    """The operator's start that this life belongs to: a new one, or the one that goes on.

    ``last`` is the newest attempt's number. Another boot begins its time anew, not its counts.
    """
    here, now = boot_id(), clock.since_boot()
    if not intent or intent.get("done"):
        return Start(last, here, now)
    told = intent.get("start")
    if not isinstance(told, dict):
        return Start(0, here, now)
    start = Start(int(told["after"]), str(told["boot_id"]), float(told["seconds"]))
    return start if start.boot_id == here else Start(start.after, here, now)
