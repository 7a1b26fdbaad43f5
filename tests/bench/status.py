"""How long ``status`` and ``tail`` take, on a short ledger and on one of a million lines."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.bench.figures import Figure, say, table
from tests.bench.watching import started
from tests.support.runs import ROOT, Run, make_run, scripted


def main(words: list[str]) -> int:
    """Make both ledgers by real runs, then ask about each in turn; 1 where a target is missed."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench status")
    parser.add_argument("--quick", action="store_true", help="100,000 lines in place of a million")
    options = parser.parse_args(words)
    sizes = (1_000, 100_000 if options.quick else 1_000_000)
    with tempfile.TemporaryDirectory(prefix="stepkeeper-bench-") as folder:
        runs = {}
        for lines in sizes:
            say(f"status: a ledger of {lines:,} lines ...")
            runs[lines] = _made(Path(folder) / str(lines), lines)
        questions = {
            f"{words[0]}, {lines:,} lines": [sys.executable, "-m", "supervisor", *words]
            for lines, run in runs.items()
            for words in (["status", str(run.path)], ["tail", str(run.path), "-n", "20"])
        }
        questions["an empty Python"] = [sys.executable, "-c", "pass"]
        seen: dict[str, list[float]] = {name: [] for name in questions}
        for _ in range(5 if options.quick else 15):
            for name, command in questions.items():
                seen[name].append(_milliseconds(command))
    asked = [n for n in questions if "lines" in n]
    figures = [Figure(n, "ms", seen[n], 120.0 if n in asked else None) for n in questions]
    return table("status", figures)


def _made(folder: Path, lines: int) -> Run:
    trainer = scripted(steps=lines, every=max(500, lines // 20), buffer=100, no_phases=True)
    with started(make_run(folder, trainer, every=max(500, lines // 20))) as daemon:
        code = daemon.wait(600)
        found = sum(1 for _ in (folder / "demo.loss.json").open("rb"))
        if code != 0 or found != lines:
            raise ValueError(f"cannot go on: exit code {code}, {found} lines")
    return daemon.run


def _milliseconds(command: list[str]) -> float:
    began = time.perf_counter()
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )
    passed = 1000 * (time.perf_counter() - began)
    if done.returncode > 1 or done.stderr:  # 1 is an answer: no trainer is running
        raise ValueError(f"cannot time {command[2:]}: {done.stderr or done.returncode}")
    return passed
