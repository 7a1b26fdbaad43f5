"""How long a report of a million steps takes, and how large its page is."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.bench.figures import Figure, say, table
from tests.support.made_run import make
from tests.support.runs import ROOT

_SECONDS, _BYTES = 5.0, 2_000_000
_EVERY = 1000


def main(argv: list[str]) -> int:
    """Make a run with a history, then its page by the real command; 1 where a target is missed."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench report")
    parser.add_argument("--quick", action="store_true", help="100,000 steps in place of a million")
    options = parser.parse_args(argv)
    scale = 50 if options.quick else 420
    steps = 2400 * scale
    with tempfile.TemporaryDirectory(prefix="stepkeeper-bench-") as place:
        say(f"report: a run of {steps:,} steps in five attempts, {steps // _EVERY:,} seals ...")
        run = make(Path(place) / "run", scale, _EVERY)
        target = Path(place) / "report.html"
        pages = [_seconds(run.path, "-o", str(target), "--force") for _ in range(3)]
        audits = [_seconds(run.path, word="audit") for _ in range(3)]
        size = target.stat().st_size
        figures = [
            Figure("report, start of the program included", "s", pages, _SECONDS),
            Figure("of it the audit, by itself", "s", audits),
            Figure("the page", "MB", [size / 1e6], _BYTES / 1e6),
        ]
    return table("report", figures)


def _seconds(run: Path, *words: str, word: str = "report") -> float:
    began = time.perf_counter()
    command = [sys.executable, "-m", "supervisor", word, str(run), *words]
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began
