"""The command ``attempts``: every life of the trainer, why it ended, and what it cost."""

from __future__ import annotations

from typing import Any

from supervisor.cli import printing
from supervisor.cli.attempts_facts import gather
from supervisor.cli.parameters import Json, Run, existing
from supervisor.errors import UnknownError

_HEAD = ("attempt", "policy", "started", "ended", "cause", "steps", "replayed", "proved", "lost")


def attempts(run: Run, *, as_json: Json = False) -> int:
    """List the attempts of a run: when, why they ended, their steps, and the seconds lost.

    The summary says what share of the time went into steps that count (goodput), and where the
    rest went. Works on files alone, also while the run goes on.
    """
    folder = existing(run)
    facts = gather(folder)
    for problem in facts["problems"]:
        text = printing.plain(problem)
        printing.complain(text if text.startswith("cannot") else f"cannot read all: {text}")
    if as_json:
        printing.emit(facts)
        return 0
    if not facts["attempts"]:
        raise UnknownError(f"cannot show attempts of {folder}: none has begun")
    printing.say(printing.table(_HEAD, [_cells(row) for row in facts["attempts"]]))
    for line in _summary(facts["summary"]):
        printing.say(line)
    return 0


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    steps = f"{row['resumed'] + 1}-{row['last']}" if row["last"] > row["resumed"] else "-"
    proved = str(row["proved"]) if row["replayed"] else "-"
    if row["consistent"]:
        proved += f" +{row['consistent']} consistent"
    if row["differed"] is not None:
        proved += f", differed at {row['differed']}"
    return (
        str(row["attempt"]),
        str(row["policy"]),
        _moment(row["started"]),
        _moment(row["ended"]) if row["ended"] else "goes on",
        printing.plain(row["cause"] or "-"),
        steps,
        str(row["replayed"] or "-"),
        proved,
        printing.duration(row["lost"]),
    )


def _moment(time: str) -> str:
    """To the second; the record has the rest."""
    return printing.plain(time)[:19] + "Z"


def _summary(summary: dict[str, Any]) -> list[str]:
    seconds, share = summary["seconds"], summary["goodput"]
    lines = [
        "",
        "goodput   "
        + (
            f"{share:.1%}: {printing.duration(seconds['in_steps'])} in "
            f"{summary['canonical_steps']} canonical steps, of {printing.duration(summary['wall'])}"
            if share is not None
            else "unknown: no time has passed"
        ),
        "lost      "
        + ", ".join(
            f"{name} {printing.duration(seconds[part])}"
            for part, name in (
                ("starting", "starting, replaying and ending"),
                ("between", "between attempts"),
                ("waiting", "waiting"),
                ("voided", "steps taken back"),
            )
        ),
    ]
    if seconds["paused"] >= 1:
        lines.append(f"paused    {printing.duration(seconds['paused'])}, which count as no loss")
    return lines
