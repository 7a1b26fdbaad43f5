"""The time that a run's limits leave, from what its supervisor says or, without one, its files."""

from __future__ import annotations

import tomllib
from datetime import datetime
from pathlib import Path
from typing import Any

from supervisor import clock
from supervisor.cli import printing
from supervisor.core.limits import DEADLINE, Limits
from supervisor.process.identity import boot_id


def time_left(
    run: Path, live: dict[str, Any] | None, intent: dict[str, Any]
) -> dict[str, Any] | None:
    """The limit that comes first and the seconds until it; None for a run without limits.

    ``stopped`` says that it has stopped the run.
    """
    limits = _in_force(live) or _written(run)
    start = intent.get("start") or {}
    now = clock.since_boot()
    began = float(start["seconds"]) if start.get("boot_id") == boot_id() else now
    left = limits.left(clock.unix(), now - began)
    if left is None:
        return None
    stopped = intent.get("want") == "stop" and intent.get("by") == DEADLINE
    at = limits.stop_at
    return {
        "limit": left.name,
        "left": left.seconds,
        "stop_at": None if at is None else clock.wall_of(at),
        "max_hours": limits.max_seconds and limits.max_seconds / 3600,
        "stopped": stopped,
    }


def line(facts: dict[str, Any], state: str) -> str:
    """The same for people."""
    name = facts["limit"]
    value = facts["stop_at"] if name == "stop_at" else f"{facts['max_hours']:g}"
    text = f"limit     {name} = {value}"
    if facts["stopped"] and state in ("stopped", "nothing runs"):
        return f"{text}, which stopped the run"
    if facts["left"] < 0:
        return f"{text}, over since {printing.duration(-facts['left'])}"
    return f"{text}, {printing.duration(facts['left'])} left"


def _in_force(live: dict[str, Any] | None) -> Limits | None:
    told = (live or {}).get("limits")
    return Limits(told["stop_at"], told["max_seconds"]) if isinstance(told, dict) else None


def _written(run: Path) -> Limits:
    """What run.toml says; nothing where it does not hold, which ``check`` explains."""
    try:
        table = tomllib.loads((run / "run.toml").read_text("utf-8")).get("limits", {})
        at, hours = table.get("stop_at"), table.get("max_hours")
        moment = datetime.fromisoformat(at) if isinstance(at, str) else at
        return Limits(
            moment.timestamp() if isinstance(moment, datetime) else None,
            float(hours) * 3600 if hours is not None else None,
        )
    except (OSError, ValueError, TypeError, AttributeError):
        return Limits()
