"""What a pivot would do: bounds before and after, and where the boundary is. Changes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from supervisor.cli import asking, printing, standing
from supervisor.config import Config, load
from supervisor.core.pivot import boundary_after
from supervisor.core.policy import Arm, Policy
from supervisor.errors import SettingsError, StepkeeperError
from supervisor.perform import unattended

_SETTINGS = (
    "algorithm",
    "unit",
    "phase_min",
    "phase_max",
    "exploration",
    "focus",
    "focus_weight",
    "other_weight",
    "ema_alpha",
)


def plan(config: Config, text: str, when: str, *, reset: bool, as_json: bool) -> int:
    """Print it; 1 where the policy would be refused, with every reason."""
    problems: list[str] = []
    facts: dict[str, Any] = {"run": str(config.run)}
    try:
        _, before = unattended.in_force(config)
        facts["before"] = before.number
        number, after = unattended.next_policy(config, text)
        facts |= {
            "after": number,
            "arms": _arms(before, after),
            "settings": _changed(before, after),
        }
        unattended.refuse_the_same(after, before, reset=reset)
    except SettingsError as error:
        problems = list(error.problems) or [str(error)]
    except StepkeeperError as error:
        problems = [str(error)]
    facts["boundary"] = boundary(config.run, last_step(config.run), when)
    facts["problems"] = problems
    if as_json:
        printing.emit(facts)
    else:
        _show(facts)
    return 1 if problems else 0


def last_step(run: Path) -> int:
    """The last step done, whoever has taken note of it."""
    attempt = standing.last_attempt(run)
    report = standing.last_report(run, attempt["attempt"]) if attempt else None
    line = standing.last_line(run)
    return max(int(found["step"]) for found in (report, line, {"step": 0}) if found)


def boundary(run: Path, step: int, when: str) -> dict[str, Any]:
    """Where the pivot would happen: steps and seconds from ``step`` on; ``text`` for people."""
    if not standing.trained(run):
        seals = standing.seals(run)
        at = seals[0].step if seals else 0
        return {"step": at, "steps": 0, "seconds": 0.0, "text": f"at the next start, step {at}"}
    if when == "now":
        return {"step": step + 1, "steps": 1, "seconds": None, "text": "at the end of this step"}
    at = boundary_after(step, load(run).settings.cadence)
    rate = _rate(run)
    seconds = (at - step) / rate if rate else None
    away = f", about {printing.duration(seconds)}" if seconds is not None else ""
    text = f"at the checkpoint of step {at}, {at - step} step{'s' * (at - step != 1)} away{away}"
    return {"step": at, "steps": at - step, "seconds": seconds, "text": text}


def _rate(run: Path) -> float | None:
    """Steps a second, as the supervisor sees them."""
    try:
        answer = asking.ask(run, "status", {}) or {}
    except StepkeeperError:
        return None
    return (answer.get("attempt") or {}).get("rate") or None


def _arms(before: Policy, after: Policy) -> list[dict[str, Any]]:
    old, new = ({arm.name: arm for arm in policy.arms} for policy in (before, after))
    rows = []
    for name in (*new, *(name for name in old if name not in new)):
        was, shall = old.get(name), new.get(name)
        change = "enters" if was is None else "leaves" if shall is None else "stays"
        if change == "stays" and was != shall:
            change = "changes"
        rows.append(
            {"arm": name, "change": change, "before": _bounds(was), "after": _bounds(shall)}
        )
    return rows


def _bounds(arm: Arm | None) -> dict[str, float] | None:
    return None if arm is None else {"floor": arm.floor, "cap": arm.cap, "weight": arm.weight}


def _changed(before: Policy, after: Policy) -> dict[str, list[Any]]:
    pairs = {key: [getattr(before, key), getattr(after, key)] for key in _SETTINGS}
    return {key: pair for key, pair in pairs.items() if pair[0] != pair[1]}


def _show(facts: dict[str, Any]) -> None:
    if "arms" in facts:
        rows = [
            [row["arm"], row["change"], _text(row["before"]), _text(row["after"])]
            for row in facts["arms"]
        ]
        head = ["arm", "", f"policy {facts['before']}", f"policy {facts['after']}"]
        printing.say(printing.table(head, rows))
        for key, (old, new) in facts["settings"].items():
            printing.say(f"{key}: {old} -> {new}")
    printing.say(f"when: {facts['boundary']['text']}")
    printing.say("reset: bandit state, phases, samples; kept: weights, moments, ledger")
    for problem in facts["problems"]:
        printing.say(f"refused: {problem}")
    printing.say("nothing was changed")


def _text(bounds: dict[str, float] | None) -> str:
    return "-" if bounds is None else f"{bounds['floor']:g} to {bounds['cap']:g}"
