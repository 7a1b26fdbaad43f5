"""What supervising costs: memory over a million steps, intake, CPU, latency, the trainer's pace.

Every figure is of the real supervisor over a real trainer process on this machine.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from statistics import quantiles

from tests.bench.figures import Figure, say, table
from tests.bench.toggle import pace
from tests.bench.watching import Tail, cpu_seconds, resident, started, until
from tests.support.runs import make_run, scripted
from tests.support.scripted_reports import pause

NEVER = 1_000_000_000


def main(words: list[str]) -> int:
    """Run all parts, or those named; 1 where a target is missed."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench supervisor")
    parser.add_argument("parts", nargs="*", help="memory, cpu, latency, pace; all by default")
    parser.add_argument("--quick", action="store_true", help="fewer steps, shorter spans")
    options = parser.parse_args(words)
    known = {"memory": memory, "cpu": cpu, "latency": latency, "pace": pace}
    figures: list[Figure] = []
    for name in options.parts or known:
        say(f"supervisor: {name} ...")
        with tempfile.TemporaryDirectory(prefix="stepkeeper-bench-") as folder:
            figures += known[name](Path(folder), options.quick)
    return table("supervisor", figures)


def memory(folder: Path, quick: bool) -> list[Figure]:  # noqa: FBT001 - a switch of the command
    """Resident memory and steps taken in: live, in catch-up, and without any seal."""
    steps = 100_000 if quick else 1_000_000
    figures = []
    for name, every, absent in (
        ("live", 10_000, False),
        ("in catch-up", 10_000, True),
        ("without a seal", NEVER, False),
        ("in catch-up without a seal", NEVER, True),
    ):
        seen, rate = _pass_through(folder / name.replace(" ", "-"), steps, every, absent=absent)
        growth = max(seen) - seen[0]
        figures += [
            Figure(f"resident memory, {name}", "MB", seen, None),
            Figure(f"  its most over {steps:,} steps", "MB", [max(seen)], 45.0),
            Figure("  its growth since the first steps", "MB", [growth], 6.0),
            Figure("  steps taken in", "1/s", [rate], 30_000 if absent else None, at_least=True),
        ]
    return figures


def _pass_through(
    folder: Path, steps: int, every: int, *, absent: bool
) -> tuple[list[float], float]:
    """Memory seen from the first lines to the last, and steps recorded a second between them."""
    trainer = scripted(
        steps=steps, every=every, buffer=100, no_phases=True, no_final=every == NEVER
    )
    with started(make_run(folder, trainer, every=every)) as daemon:
        run, before = daemon.run, 0
        if absent:
            until(run.trainer_pid, "the trainer", 30)
            daemon.kill()
            until(lambda: not run.pids(), "the trainer's end", 600)
            before = run.last_step()
            daemon.start()
        until(lambda: run.last_step() > before, "the first step", 30, 0.002)
        began, first = time.perf_counter(), run.last_step()
        seen = [resident(daemon.pid)]

        def passed() -> bool:
            done = run.last_step() >= steps
            if not done:
                seen.append(resident(daemon.pid))
            return done

        until(passed, f"step {steps}", 600, 0.05)
        return seen, (steps - first) / (time.perf_counter() - began)


def cpu(folder: Path, quick: bool) -> list[Figure]:  # noqa: FBT001 - a switch of the command
    """Share of one core that the supervisor uses while nothing but steps happens."""
    figures = []
    for rate, target in ((100, 1.5), (1, 0.4)):
        with started(make_run(folder / str(rate), scripted(rate=rate, every=NEVER))) as daemon:
            until(lambda run=daemon.run: run.last_step() >= 2, "the first steps", 30)
            shares = []
            for _ in range(3 if quick else 6):
                before, began = cpu_seconds(daemon.pid)[0], time.perf_counter()
                pause(5.0 if quick else 10.0)
                used = cpu_seconds(daemon.pid)[0] - before
                shares.append(100 * used / (time.perf_counter() - began))
            figures.append(Figure(f"CPU at {rate} steps/s", "% of a core", shares, target))
    return figures


def latency(folder: Path, quick: bool) -> list[Figure]:  # noqa: FBT001 - a switch of the command
    """From a step's report to its visible ledger line, looked for every half millisecond."""
    with started(make_run(folder / "run", scripted(rate=100, every=500))) as daemon:
        until(lambda: daemon.run.last_step() >= 50, "the first steps", 30)
        ledger = Tail(daemon.run.path / "demo.loss.json")
        reports = Tail(daemon.run.path / "attempts/000001/reports.jsonl")
        appeared: dict[object, float] = {}
        ended = time.perf_counter() + (5 if quick else 30)
        while time.perf_counter() < ended:
            lines = ledger.new()
            now = time.perf_counter()
            appeared |= {line["step"]: now for line in lines}
            pause(0.0005)
        written = {r["step"]: r["at"] for r in reports.new() if r["report"] == "step"}
    delays = [1000 * (appeared[s] - written[s]) for s in appeared if s in written]
    cuts = quantiles(delays, n=100)
    return [
        Figure("report to ledger line at 100 steps/s", "ms", delays, None),
        Figure("  its 99th percentile", "ms", [cuts[98]], 60.0),
    ]
