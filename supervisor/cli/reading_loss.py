"""The command ``loss``: the canonical losses as a summary, evidence for one step, CSV or a plot.

Smoothed values are computed from the raw ones each time and shown with their parameters.
"""

from __future__ import annotations

import csv
import re
import shutil
import sys
from array import array
from pathlib import Path
from typing import Annotated, Any

import typer

from supervisor.cli import printing, standing
from supervisor.cli.parameters import Json, Run, existing
from supervisor.cli.plot import ALPHA, Mark, plot
from supervisor.cli.reading_evidence import Evidence, evidence, span
from supervisor.cli.reading_series import BadLines, Smoothing, Summary, points, smoothed
from supervisor.errors import StepkeeperError, UnknownError, UsageError
from supervisor.sidecars.events import read

_LOSS = re.compile(rb'"loss":([^,]*),')
_QUIET_ENDS = ("finished", "stopped")


def loss(  # noqa: PLR0913 - one parameter for each option of the command
    run: Run,
    *,
    step: Annotated[
        int | None, typer.Option("--step", metavar="N", min=0, help="The evidence for one step.")
    ] = None,
    ema: Annotated[
        float | None, typer.Option("--ema", metavar="ALPHA", help="Exponential moving average.")
    ] = None,
    smma: Annotated[
        int | None, typer.Option("--smma", metavar="N", help="Wilder's smoothed moving average.")
    ] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Every step as CSV.")] = False,
    as_plot: Annotated[
        bool, typer.Option("--plot", help="A plot; pivots and crashes are marked.")
    ] = False,
    as_json: Json = False,
) -> int:
    """Show the loss: a summary, the evidence for one step, CSV, or a plot.

    Always the canonical view: of a step that was run again with another result, the newest line.
    """
    if sum((step is not None, as_csv, as_plot)) > 1 or (as_json and (as_csv or as_plot)):
        raise UsageError("cannot show the loss in several ways: give one of --step, --csv, --plot")
    if as_plot and ema is not None and smma is not None:
        raise UsageError("cannot plot two averages: give --ema or --smma")
    folder = existing(run)
    path = standing.ledger_path(folder)
    smoothing = Smoothing(ema, smma)
    if not path.is_file() or not path.stat().st_size:
        raise UnknownError(
            f"cannot show the loss of {folder}: {path.name} holds no step yet; the first one is "
            "recorded by stepkeeper run"
        )
    bad = BadLines(path)
    if step is not None:
        _show_step(path, step, smoothing, bad, as_json=as_json)
    elif as_csv:
        _write_csv(path, smoothing, bad)
    elif as_plot:
        _plot(folder, path, smoothing, bad)
    else:
        _summarise(path, smoothing, bad, as_json=as_json)
    bad.tell_rest()
    return 0


def _show_step(
    path: Path, step: int, smoothing: Smoothing, bad: BadLines, *, as_json: bool
) -> None:
    """Print the evidence. Raises StepkeeperError where there is none, or it does not hold."""
    found = evidence(path, step)
    if found is None:
        ends = span(path)
        held = f"its last line is of step {ends[1]}" if ends else "it holds none"
        raise StepkeeperError(
            f"cannot show step {step}: {path.name} has no line for it that can be read; {held}"
        )
    averages = smoothing.at(path, step, bad)
    if as_json:
        facts = {name: value for name, value in found.fields.items() if name != "step"}
        proof = {"line": found.line, "holds": found.holds, "voided_lines": found.others}
        text = found.text.decode("ascii", "replace")
        printing.emit({"step": step, **facts, **averages, **proof, "text": text})
    else:
        _print_step(path, found, averages)
    if not found.holds:
        raise StepkeeperError(
            f"cannot vouch for line {found.line} of {path.name}: it does not match its chain; "
            "run stepkeeper audit"
        )


def _print_step(path: Path, found: Evidence, averages: dict[str, Any]) -> None:
    fields = found.fields
    exact = _LOSS.search(found.text)
    said = exact[1].decode("ascii", "replace") if exact else "?"
    holds = "follows" if found.holds else "does NOT follow"
    rows = [
        ("step", str(fields.get("step"))),
        ("loss", f"{said} {fields.get('nonfinite', '')}".rstrip()),
        ("line", f"{found.line} of {path}"),
        ("chain", f"{fields.get('chain')}  ({holds} from the bytes before it)"),
    ]
    if found.others:
        rows.append(("voids", f"line {', '.join(map(str, found.others))}, of the same step"))
    known = {"step", "loss", "nonfinite", "chain"}
    rows += [(name, str(value) or "-") for name, value in fields.items() if name not in known]
    for name, average in averages.items():
        given = ", ".join(f"{key} {value}" for key, value in average.items() if key != "value")
        rows.append((name, f"{average['value']}  ({given})"))
    rows.append(("text", found.text.decode("ascii", "replace")))
    width = max(len(name) for name, _ in rows)
    printing.say(
        "\n".join(f"{printing.plain(name):<{width}}  {printing.plain(text)}" for name, text in rows)
    )


def _write_csv(path: Path, smoothing: Smoothing, bad: BadLines) -> None:
    """Every canonical step, numbers as exactly as they stand."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    names = ("step", "loss", "nonfinite", "arm", "lr", "policy", "attempt")
    writer.writerow(("line", *names, *smoothing.names()))
    for entry, averages in smoothed(points(path, bad), smoothing):
        writer.writerow((entry.line, *(entry.fields.get(n) for n in names), *averages))


def _plot(folder: Path, path: Path, smoothing: Smoothing, bad: BadLines) -> None:
    steps, losses = array("q"), array("d")
    marks: list[Mark] = []
    policy: object = None
    for entry in points(path, bad):
        value = entry.fields["loss"]
        steps.append(entry.fields["step"])
        losses.append(float("nan") if value is None else value)
        if entry.fields.get("policy") != policy:
            if policy is not None:
                text = f"pivot to policy {printing.plain(entry.fields.get('policy'))}"
                marks.append(Mark(entry.fields["step"], "P", text))
            policy = entry.fields.get("policy")
    marks += _crashes(folder)
    printing.say(
        plot(
            zip(steps, (None if x != x else x for x in losses), strict=True),  # noqa: PLR0124 - NaN alone differs from itself
            width=shutil.get_terminal_size().columns - 1,
            alpha=ALPHA if smoothing.alpha is None else smoothing.alpha,
            over=smoothing.over,
            marks=sorted(marks),
        )
    )


def _crashes(folder: Path) -> list[Mark]:
    """Where attempts ended that nobody had ended, from the journal."""
    marks = []
    try:
        for line in read(folder / "events.jsonl"):
            if isinstance(line, str):
                printing.complain(f"cannot read all of events.jsonl: {line}")
            elif line.event == "attempt-ended" and line.facts.get("cause") not in _QUIET_ENDS:
                cause = printing.plain(line.facts.get("cause"))
                marks.append(Mark(line.facts.get("last_step", 0), "T", f"trainer {cause}"))
    except FileNotFoundError:
        printing.complain(f"cannot mark crashes: there is no {folder / 'events.jsonl'}")
    return marks


def _summarise(path: Path, smoothing: Smoothing, bad: BadLines, *, as_json: bool) -> None:
    if smoothing.alpha is None and smoothing.over is None:
        smoothing = Smoothing(ALPHA, None)
    summary = Summary()
    averages: tuple[float | None, ...] = ()
    for entry, averages in smoothed(points(path, bad), smoothing):  # noqa: B007 - the last ones count
        summary.add(entry)
    if summary.last is None or summary.first is None:
        raise UnknownError(f"cannot show the loss: no line of {path} can be read")
    named = dict(zip(smoothing.names(), averages, strict=True))
    if as_json:
        printing.emit({**summary.facts(), **named})
        return
    printing.say(
        "\n".join(
            [
                *summary.lines(),
                *(f"{n:<10}  {'- (too few values)' if v is None else v}" for n, v in named.items()),
            ]
        )
    )
