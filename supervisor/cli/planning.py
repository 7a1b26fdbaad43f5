"""What a pivot would do: bounds before and after, and where the boundary is. Changes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from supervisor.cli import asking, plan_record, plan_words, printing, standing
from supervisor.cli.plan_forecast import forecast, over_read
from supervisor.cli.plan_record import Known
from supervisor.config import Config, changed, load
from supervisor.core.pivot import boundary_after, goes_back
from supervisor.core.policy import Arm, Policy
from supervisor.core.roster import roster
from supervisor.errors import SettingsError, StepkeeperError
from supervisor.perform import unattended
from supervisor.sidecars.checkpoints import scan

_NO_SETTINGS = ("number", "digest", "arms")


def plan(config: Config, text: str, when: str, *, reset: bool, as_json: bool) -> int:
    """Print it; 1 where the policy would be refused, with every reason."""
    problems: list[str] = []
    facts: dict[str, Any] = {"run": str(config.run), "unknown": []}
    step = last_step(config.run)
    try:
        _, before = unattended.in_force(config)
        facts["before"] = before.number
        number, after = unattended.next_policy(config, text)
        facts |= {"after": number, "settings": _changed(before, after)}
        _foresee(facts, config, before, after, step)
        problems += over_read(facts)
        unattended.refuse_the_same(after, before, reset=reset)
    except SettingsError as error:
        problems += list(error.problems) or [str(error)]
    except StepkeeperError as error:
        problems.append(str(error))
    if standing.trained(config.run):
        found = scan(config.run / "checkpoints")
        clean, suspect = (
            [seal.step for seal in seals] for seals in (found.newest(), found.quarantined(1))
        )
        problems += filter(None, [goes_back(clean, suspect, step)])
    facts["boundary"] = boundary(config.run, step, when)
    facts["not_in_force"] = [change.facts() for change in changed(config)]
    facts["problems"] = problems
    if as_json:
        printing.emit(facts)
    else:
        printing.say("\n".join(plan_words.lines(facts)))
    return 1 if problems else 0


def _foresee(
    facts: dict[str, Any], config: Config, before: Policy, after: Policy, step: int
) -> None:
    """Add what the run lets be known of arms, shares, rewards and cost."""
    known = plan_record.look(config, before.number)
    facts["arms"] = _arms(before, after, _standing(config, before, known))
    facts |= forecast(config, after, known, step)
    parts = [seconds for seconds in (known.save, known.start) if seconds is not None]
    facts["cost"] = {
        "save": known.save,
        "start": known.start,
        "seconds": sum(parts) if parts else None,
    }
    facts["unknown"] = known.unknown


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
        text = f"at the next start, step {at}"
        return {"step": at, "steps": 0, "seconds": 0.0, "minutes": 0.0, "text": text}
    if when == "now":
        text = "at the end of this step"
        return {"step": step + 1, "steps": 1, "seconds": None, "minutes": None, "text": text}
    at = boundary_after(step, load(run).settings.cadence)
    rate = _rate(run)
    seconds = (at - step) / rate if rate else None
    away = f", about {printing.duration(seconds)}" if seconds is not None else ""
    text = f"at the checkpoint of step {at}, {at - step} step{'s' * (at - step != 1)} away{away}"
    minutes = seconds / 60 if seconds is not None else None
    away_by = {"steps": at - step, "seconds": seconds, "minutes": minutes}
    return {"step": at, **away_by, "text": text}


def _rate(run: Path) -> float | None:
    """Steps a second, as the supervisor sees them."""
    try:
        answer = asking.ask(run, "status", {}) or {}
    except StepkeeperError:
        return None
    return (answer.get("attempt") or {}).get("rate") or None


def _arms(before: Policy, after: Policy, classes: Mapping[str, str]) -> list[dict[str, Any]]:
    """Every arm of either policy, and those that neither has and that are there all the same."""
    old, new = ({arm.name: arm for arm in policy.arms} for policy in (before, after))
    rows = []
    for name in dict.fromkeys((*new, *old, *classes)):
        was, shall = old.get(name), new.get(name)
        change = "enters" if was is None else "leaves" if shall is None else "stays"
        if change == "stays" and was != shall:
            change = "changes"
        if was is None and shall is None:
            change = "outside"
        bounds = {"before": _bounds(was), "after": _bounds(shall)}
        rows.append({"arm": name, "change": change, "class": classes.get(name, ""), **bounds})
    return rows


def _standing(config: Config, before: Policy, known: Known) -> dict[str, str]:
    """Where each arm stands under the policy in force, by its source and the bandit's state."""
    state = known.bandit
    return {
        name: str(found)
        for name, found in roster(
            [arm.name for arm in before.arms],
            config.sources,
            config.live,
            {arm.name: bool(arm.changed) for arm in state.arms} if state else {},
            [gone.arm.name for gone in state.retired] if state else (),
        ).items()
    }


def _bounds(arm: Arm | None) -> dict[str, float | None] | None:
    if arm is None:
        return None
    return {"floor": arm.floor, "cap": arm.cap, "weight": arm.weight, "target": arm.target}


def _changed(before: Policy, after: Policy) -> dict[str, list[Any]]:
    """Every key of the policy but its arms, old and new; an unset one as what it comes to."""
    keys = [field.name for field in fields(Policy) if field.name not in _NO_SETTINGS]
    pairs = {key: [getattr(before, key), getattr(after, key)] for key in keys}
    return {key: pair for key, pair in pairs.items() if pair[0] != pair[1]}
