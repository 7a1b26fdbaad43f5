"""What checkpoints need and cost: ``checkpoints --plan``."""

from __future__ import annotations

import json
import shutil
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from supervisor import clock
from supervisor.cli import printing, standing
from supervisor.config import Config, RunFile, load, read_text
from supervisor.config.parsing import parse
from supervisor.core.cadence import best_interval, overhead, round_steps, waste
from supervisor.core.retention import Retention
from supervisor.sidecars import archive, attempts
from supervisor.sidecars.checkpoints import marks, scan
from supervisor.sidecars.checkpoints.holdings import holdings
from trainer.contract.checkpoint_format import HEADER_BYTES

_BLOCK = 4 << 20  # bytes of reports that are looked at
_LIVES = 5  # newest attempts whose reports are looked at
_ASSUMED = 86_400.0  # seconds between failures where none was seen: one a day
_IN_ORDER = ("finished", "stopped")


class Measured(NamedTuple):
    """What the run's own records say; None where they say nothing yet. Seconds, steps/s."""

    save: float | None
    saves: int
    rate: float | None
    failures: int
    hours: float


def plan(run: Path, *, as_json: bool) -> int:
    """Print what checkpoints need and cost; 0. Raises StepkeeperError, OSError."""
    config = load(run)
    measured = measure(run)
    facts = {**_space(run, config), **_pace(config, run, measured)}
    if as_json:
        printing.emit(facts)
    else:
        printing.say("\n".join(_lines(facts, config.settings.retention)))
    return 0


def _space(run: Path, config: Config) -> dict[str, Any]:
    newest = scan(run / "checkpoints").newest()
    size = newest[0].bin.bytes if newest else HEADER_BYTES + 12 * _file(run).model.shape.n_params
    held = holdings(run / "checkpoints") if (run / "checkpoints").is_dir() else ()
    rules = config.settings.retention
    kept_for_ever = len(marks.pins(run / "checkpoints")) + len(archive.pinned_seals(run))
    every = config.steps // rules.keep_every if rules.keep_every else 0
    left = sum(bool(one.left) for one in held)
    # And what the attempt resumed from, and the one that is being written.
    most = rules.keep_last + rules.keep_audit + every + kept_for_ever + left + 2
    free = shutil.disk_usage(run).free
    used = sum(one.bytes for one in held)
    return {
        "bytes": size,
        "from": "the newest checkpoint" if newest else "the settings",
        "free": free,
        "fit": free // size,
        "held": len(held),
        "used": used,
        "most": most,
        "most_bytes": most * size,
        "enough": most * size <= free + used,
    }


def measure(run: Path) -> Measured:
    """Save times and pace from the reports, failures from the attempts' records."""
    numbers = attempts.numbers(run)
    saves: list[float] = []
    rate = None
    for number in reversed(numbers[-_LIVES:]):
        seconds, pace = _reports(run, number)
        saves += seconds
        rate = rate or pace
    records = [attempts.read(run, number) for number in numbers]
    ends = [record.ended.time if record.ended else clock.wall() for record in records]
    hours = sum(_hours(record.started, end) for record, end in zip(records, ends, strict=True))
    failures = sum(r.ended is not None and r.ended.cause not in _IN_ORDER for r in records)
    return Measured(median(saves) if saves else None, len(saves), rate, failures, hours)


def _reports(run: Path, number: int) -> tuple[list[float], float | None]:
    """Seconds of each save, and steps a second, at the end of an attempt's reports."""
    path = standing.reports_path(run, number)
    if not path.is_file():
        return [], None
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _BLOCK))
        lines = file.read().split(b"\n")[1 if file.tell() > _BLOCK else 0 : -1]
    saves: list[float] = []
    steps: list[tuple[int, float]] = []
    for line in lines:
        try:
            report = json.loads(line)
            if report["report"] == "checkpoint":
                saves.append(float(report["seconds"]))
            elif report["report"] == "step":
                steps.append((int(report["step"]), float(report["at"])))
        except (ValueError, KeyError, TypeError):
            continue
    # The middle of the times between steps: neither saves and waits nor a slow start count.
    between = [(later[1] - at) / (later[0] - step) for (step, at), later in pairwise(steps)]
    return saves, 1 / median(between) if between and median(between) > 0 else None


def _hours(start: str, end: str) -> float:
    seconds = (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds()
    return max(0.0, seconds) / 3600


def _pace(config: Config, run: Path, measured: Measured) -> dict[str, Any]:
    """What the cadence costs now, and the one that the measured times suggest."""
    save, rate = measured.save, measured.rate
    facts: dict[str, Any] = {
        "every_steps": config.settings.cadence,
        "save_seconds": save,
        "saves": measured.saves,
        "steps_per_second": rate,
        "failures": measured.failures,
        "hours": measured.hours,
    }
    if save is None or rate is None:
        return facts
    by_clock = _file(run).checkpoint.every_seconds or float("inf")
    interval = min(config.settings.cadence / rate, by_clock)
    seen = measured.hours * 3600 / measured.failures if measured.failures else None
    between = seen or _ASSUMED
    best = best_interval(max(save, 1e-6), between)
    return {
        **facts,
        "interval_seconds": interval,
        "overhead": overhead(save, interval),
        "lost_steps": round(interval * rate),
        "lost_seconds": interval + save,
        "between_failures": between,
        "assumed": seen is None,
        "best_seconds": best,
        "best_steps": round_steps(best * rate),
        "waste": waste(save, interval, between),
        "best_waste": waste(save, best, between),
    }


def _file(run: Path) -> RunFile:
    path = run / "run.toml"
    file: RunFile = parse(RunFile, read_text(path), path)
    return file


def _lines(facts: dict[str, Any], rules: Retention) -> list[str]:
    told = {**_room_in_words(facts, rules), **_cost_in_words(facts)}
    width = max(map(len, told)) + 2
    return [f"{name:<{width}}{text}" for name, text in told.items()]


def _room_in_words(facts: dict[str, Any], rules: Retention) -> dict[str, str]:
    size = printing.bytes_text
    verdict = "enough room" if facts["enough"] else "MORE THAN THERE IS ROOM FOR"
    kept = (
        f"keep_last {rules.keep_last}, keep_audit {rules.keep_audit}, keep_every "
        f"{rules.keep_every}, pins, pivots, superseded ones, the resume point, one being written"
    )
    held = f"{facts['held']} are there now, {size(facts['used'])}"
    return {
        "one checkpoint": f"{size(facts['bytes'])} (as {facts['from']})",
        "free": f"{size(facts['free'])}: {facts['fit']} more fit; {held}",
        "needed at most": f"{size(facts['most_bytes'])} for {facts['most']} ({kept}): {verdict}",
    }


def _cost_in_words(facts: dict[str, Any]) -> dict[str, str]:
    if "interval_seconds" not in facts:
        return {"cadence": "nothing is measured yet: no save was reported"}
    number, hours = facts["failures"], facts["hours"]
    seen = f"{number} failure{'s' * (number != 1)} in {printing.duration(hours * 3600)}"
    failures = "no failure seen: one a day is assumed" if facts["assumed"] else seen
    now, lost, best = (
        printing.duration(facts[key])
        for key in ("interval_seconds", "lost_seconds", "best_seconds")
    )
    save = f"{facts['save_seconds']:.2f} s (median of {facts['saves']})"
    share = f"{facts['best_waste']:.1%} lost to saves and crashes, {facts['waste']:.1%} now"
    return {
        "a save takes": f"{save}, at {facts['steps_per_second']:.4g} steps/s",
        "cadence now": f"{facts['every_steps']} steps, {now}: {facts['overhead']:.1%} for saves",
        "a crash costs": f"at most {facts['lost_steps']} steps, {lost}, and the restart",
        "suggested": f"{facts['best_steps']} steps ({best}, Daly 2006; {failures}): {share}",
    }
