"""``intent.json``: what the operator wants of a run, durable before any signal is sent."""

from __future__ import annotations

import json
from pathlib import Path

from supervisor import clock
from supervisor.process.identity import boot_id
from trainer.contract.durable import write_file


def read_intent(run: Path) -> dict[str, object]:
    """What was last made durable; empty where nothing was."""
    try:
        record = json.loads((run / "intent.json").read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return record if isinstance(record, dict) else {}


def write_intent(run: Path, want: str, by: str, *, done: bool, hold: bool | None) -> None:
    """Make it durable; an empty ``by`` and a ``hold`` of None stay as they are. Raises OSError."""
    before = read_intent(run)
    record = {
        "want": want,
        "by": by or before.get("by", ""),
        "boot_id": boot_id(),
        "done": done,
        "hold": before.get("hold", False) if hold is None else hold,
        "time": clock.wall(),
    }
    write_file(run / "intent.json", json.dumps(record).encode("ascii") + b"\n")
