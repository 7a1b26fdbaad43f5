"""What the guards have found and not seen over yet, for ``status``."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from supervisor.core.limits import GUARD
from supervisor.sidecars.checkpoints import scan

_LOOKED_AT = 2  # good seals: what is quarantined above them matters


def guards_of(run: Path, live: dict[str, Any] | None, intent: dict[str, Any]) -> dict[str, Any]:
    """``found`` maps guards to the last step that shows it, ``stopped`` names the one that did.

    ``quarantined`` are steps, newest first. Raises RefusedError for marks that cannot be read.
    """
    who, _, guard = str(intent.get("by", "")).partition(" ")
    stopped = who == GUARD and intent.get("want") == "stop"
    kept = scan(run / "checkpoints").quarantined(_LOOKED_AT)
    return {
        "found": (live or {}).get("guards", {}),
        "stopped": guard if stopped else "",
        "quarantined": [seal.step for seal in kept],
    }


def alarms(run: Path, guards: dict[str, Any], state: str) -> list[str]:
    """What somebody should look at, and what to do about it."""
    name = shlex.quote(str(run))
    found = [
        f"the guard {guard} found something, last at step {step}: stepkeeper events {name}"
        for guard, step in guards["found"].items()
    ]
    if guards["stopped"] and state in ("stopped", "nothing runs"):
        found.append(
            f"stopped by the guard {guards['stopped']}: see stepkeeper events {name}, mend the "
            f"cause, then stepkeeper run {name}"
        )
    if guards["quarantined"] and state == "finished":
        found.append(
            f"the checkpoint of step {guards['quarantined'][0]} is quarantined; where it is good, "
            f"stepkeeper unquarantine {name} {guards['quarantined'][0]}"
        )
    return found


def line(guards: dict[str, Any]) -> str:
    """The same for people; empty where there is nothing to tell."""
    steps = ", ".join(map(str, guards["quarantined"]))
    return f"suspect   quarantined, not resumed from: step {steps}" if steps else ""
