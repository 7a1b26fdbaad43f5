"""The arms of a run for ``status``: shares and numbers, who was retired, and where each stands."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any, Final

from supervisor.cli import printing, standing
from supervisor.core.roster import WHAT_IT_MEANS, Standing, roster

NO_ARMS: Final[dict[str, Any]] = {"live": {}, "retired": {}, "standing": {}, "frozen": ""}


def arms_of(run: Path, live: dict[str, Any] | None) -> dict[str, Any]:
    """Shares and numbers per arm, the arms that were retired, and where every one stands.

    ``live`` is the supervisor's answer; without one the files tell, and the sources are looked for.
    """
    state = standing.record(run / f"{standing.name_of(run)}.state.json") or {}
    phases = state.get("phases") or [{}]
    shares = phases[0].get("weights", {})
    arms = {
        name: {
            "share": shares.get(name, 0.0),
            "served": arm["served"],
            "failed": arm["failed"],
            "loss": arm["loss"],
            "epochs": arm.get("epochs"),
        }
        for name, arm in (state.get("arms") or {}).items()
    }
    policy = _policy(run, state["policy"]) if state else ()
    absent = set(policy) - arms.keys()
    retired = dict.fromkeys(sorted(absent), "unavailable")
    retired |= {arm["arm"]: arm["why"] for arm in state.get("retired") or ()}
    stands = (live or {}).get("arms") or _stands(run, state, policy)
    return {
        "live": arms,
        "retired": {arm: why for arm, why in retired.items() if arm not in arms},
        "standing": stands,
        "frozen": state.get("frozen") or "",
    }


def lines(arms: dict[str, Any]) -> list[str]:
    """A line for each arm, and for each source that is none."""
    told = []
    if arms["frozen"]:
        frozen = printing.plain(arms["frozen"])
        told.append(f"mix       frozen by {frozen}: as under static, until the next pivot")
    for name, arm in arms["live"].items():
        loss = "-" if arm["loss"] is None else f"{arm['loss']:.4f}"
        failed = f", {arm['failed']} failed" if arm["failed"] else ""
        told.append(
            f"  {name:<16} share {arm['share']:.3f}  served {arm['served']}{failed}  loss {loss}"
        )
    told += [f"  {name:<16} retired: {why}" for name, why in arms["retired"].items()]
    for name, stands in arms["standing"].items():
        if stands != Standing.LIVE and name not in arms["retired"]:
            told.append(f"  {name:<16} {stands}: {WHAT_IT_MEANS[Standing(stands)]}")
    return told


def alarms(arms: dict[str, Any], run: str) -> list[str]:
    """What of the arms needs somebody while the run trains; ``run`` is as it is typed."""
    gone = [name for name, stands in arms["standing"].items() if stands == Standing.UNAVAILABLE]
    if not gone:
        return []
    names = printing.plain(", ".join(gone))
    what = f"no source of {names} is there: bring it back to where run.toml says"
    return [f"{what}, or leave it out by stepkeeper pivot {run} --policy FILE"]


def _stands(run: Path, state: dict[str, Any], policy: tuple[str, ...]) -> dict[str, str]:
    """Where each arm stands by what is on disk; nothing before the first start."""
    if not state:
        return {}
    try:
        settings = tomllib.loads((run / "run.toml").read_text("utf-8"))
        sources = {arm: run / source["path"] for arm, source in settings["sources"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}  # settings that do not hold are told of elsewhere
    here = [arm for arm, path in sources.items() if os.path.exists(path)]  # noqa: PTH110 - a path that cannot be looked at is none
    arms = {name: arm.get("changed", 0) > 0 for name, arm in state["arms"].items()}
    left = [arm["arm"] for arm in state.get("retired") or ()]
    found = roster(policy, sources, here, arms, left)
    return {arm: str(stands) for arm, stands in found.items()}


def _policy(run: Path, number: int) -> tuple[str, ...]:
    """The arms that a policy has, whether or not their sources were ever there."""
    try:
        text = (run / "policies" / f"{number:04d}.toml").read_text("utf-8")
        return tuple(tomllib.loads(text).get("arms", {}))
    except (OSError, ValueError):
        return ()
