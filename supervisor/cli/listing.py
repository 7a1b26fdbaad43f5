"""The command ``list``: a line for each run under the state directory, from the ends of files."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from supervisor import clock, environment
from supervisor.cli import printing, standing
from supervisor.cli.parameters import Json, refuse_unreadable
from supervisor.errors import StepkeeperError

HEAD = ("name", "state", "step", "loss", "last line", "sealed", "")


def list_runs(*, as_json: Json = False) -> int:
    """List the runs under the state directory: life, step, loss, age of the last line, seal.

    Reads the ends of files only, locks nothing, and leaves folders alone that are no runs. Exits
    1 where a run is damaged or cannot be read.
    """
    folder = environment.state_folder()
    rows = [_row(run) for run in _runs(folder)]
    if as_json:
        printing.emit({"folder": str(folder), "runs": rows})
    elif rows:
        printing.say(printing.table(HEAD, [_cells(row) for row in rows]))
    else:
        printing.say(f"no runs in {folder}")
    return 1 if any(row["problem"] for row in rows) else 0


def _runs(folder: Path) -> Iterator[Path]:
    """Sub-folders that hold a run.toml, by name; one that cannot be looked into may be one."""
    try:
        inside = sorted(folder.iterdir())
    except FileNotFoundError:
        return
    for path in inside:
        if path.name.startswith("."):
            continue
        try:
            if (path / "run.toml").is_file():
                yield path
        except PermissionError:
            yield path


def _row(run: Path) -> dict[str, Any]:
    """What there is to say of one run; a damaged one is named with its problem."""
    row: dict[str, Any] = dict.fromkeys(("life", "step", "loss", "age", "sealed"))
    row = {"name": run.name, "run": str(run), **row, "problem": ""}
    problems = []
    try:
        refuse_unreadable(run)
    except (StepkeeperError, OSError) as error:
        return {**row, "problem": str(error)}
    for fill in (_life, _line, _seal):
        try:
            row |= fill(run)
        except (StepkeeperError, OSError, ValueError, KeyError, TypeError) as error:
            text = " ".join(str(error).split()) or type(error).__name__
            if text not in problems:
                problems.append(text)
    row["step"] = row["step"] or row["sealed"] or row["step"]  # a fork that never started
    return {**row, "problem": "; ".join(problems)}


def _life(run: Path) -> dict[str, Any]:
    if standing.supervised(run):
        return {"life": "supervised"}
    if standing.trained(run):
        return {"life": "trainer alive, no supervisor"}
    intent = standing.record(run / "intent.json") or {}
    attempt = standing.last_attempt(run)
    return {"life": standing.at_rest(run, attempt, intent)}


def _line(run: Path) -> dict[str, Any]:
    """The ledger's last line: step, loss, and seconds since it was written."""
    line = standing.last_line(run)
    if line is None:
        return {"step": 0}
    if rewound := standing.rewound(run, standing.last_attempt(run)):
        return {"step": int(rewound["to"]["step"])}
    now, then = (datetime.fromisoformat(text) for text in (clock.wall(), line["time"]))
    age = max(0.0, (now - then).total_seconds())
    return {"step": int(line["step"]), "loss": line["loss"], "age": age}


def _seal(run: Path) -> dict[str, Any]:
    seals = standing.seals(run)
    return {"sealed": seals[0].step if seals else None}


def _cells(row: dict[str, Any]) -> list[str]:
    loss = "-" if row["loss"] is None else f"{row['loss']:.4f}"
    age = "-" if row["age"] is None else f"{printing.duration(row['age'])} ago"
    numbers = ["-" if row[key] is None else str(row[key]) for key in ("step", "sealed")]
    life = row["life"] or "cannot be told"
    name, problem = printing.plain(row["name"]), printing.plain(row["problem"])
    return [name, life, numbers[0], loss, age, numbers[1], problem]
