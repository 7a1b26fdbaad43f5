"""The command ``report``: a run as one page that needs nothing else, for operator and auditor."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from supervisor.cli import printing
from supervisor.cli.interrupts import ends_are_interrupts
from supervisor.cli.parameters import Run, existing
from supervisor.cli.plot import ALPHA
from supervisor.cli.reading_progress import Progress
from supervisor.cli.report_facts import gather, name_of
from supervisor.cli.report_page import page
from supervisor.errors import UsageError
from supervisor.perform import reporting


def report(
    run: Run,
    *,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", metavar="FILE", help="Where to; else NAME-report.html here."
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
    claim: Annotated[
        list[int] | None,
        typer.Option("--claim", metavar="N", min=0, help="A step for the claims; may be repeated."),
    ] = None,
    ema: Annotated[
        float, typer.Option("--ema", metavar="ALPHA", help="Of the moving average.")
    ] = ALPHA,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print the facts; a file is written only where -o is given."),
    ] = False,
) -> int:
    """Look back on a run: one HTML file with its loss, mix, samples, checkpoints and audit.

    The file needs no network and no other file. It holds what the run's own files say, up to one
    line of the ledger; what cannot be read is said in its place. Locks nothing, and may be asked
    while the run goes on.
    """
    if not 0 < ema <= 1:
        raise UsageError(f"cannot smooth with alpha {ema}: above 0, at most 1")
    folder = existing(run)
    target = _target(folder, output)
    writes = not as_json or output is not None
    if writes:
        reporting.refuse_place(target, force=force)
    with ends_are_interrupts():
        with Progress() as progress, _no_cycles():
            facts = gather(folder, progress, alpha=ema, asked=claim or ())
        if writes:
            data = page(facts)
            reporting.write(target, data, force=force)
            facts |= {"file": str(target), "bytes": len(data)}
    if as_json:
        printing.emit(facts)
        return 0
    unread = sum(map(len, facts["problems"].values()))
    told = f"; {unread} things could not be read, which it says" if unread else ""
    printing.say(f"{target}: {printing.bytes_text(facts['bytes'])}{told}")
    return 0


@contextlib.contextmanager
def _no_cycles() -> Iterator[None]:
    """Millions of rows come and go without a cycle: to look for one takes a fifteenth of all."""
    looked = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if looked:
            gc.enable()


def _target(run: Path, output: Path | None) -> Path:
    if output is not None:
        return output.expanduser().absolute()
    return Path.cwd() / f"{name_of(run)}-report.html"
