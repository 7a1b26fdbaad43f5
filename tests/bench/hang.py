"""How soon a trainer that stands still is called hung, and how often one that does not.

The second part stops the supervisor, or the supervisor and its trainer as a machine's sleep does,
again and again for up to three times the budget: not one verdict may come of it.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import tempfile
import time
from pathlib import Path

from tests.bench.figures import Figure, say, table
from tests.bench.watching import started, until
from tests.support.daemon import Daemon
from tests.support.runs import Run, make_run, scripted
from tests.support.scripted_reports import pause

BUDGET = 2.0
SETTINGS = f"[hang]\nleast = {BUDGET}\nfirst_step = {BUDGET}\nfactor = 1.5\n[stop]\ngrace = 30.0\n"


def main(words: list[str]) -> int:
    """Stop trainers, then supervisors; 1 where a target is missed."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench hang")
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--minutes", type=float, default=1.0, help="of stopping the supervisor")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(words)
    minutes = min(options.minutes, 0.2) if options.quick else options.minutes
    with tempfile.TemporaryDirectory(prefix="stepkeeper-bench-") as folder:
        trainer = scripted(rate=100, every=200)
        say("hang: stopped trainers ...")
        run = make_run(Path(folder) / "hung", trainer, every=200, settings=SETTINGS)
        late = _verdicts(run, 2 if options.quick else 10)
        say(f"hang: {minutes:g} minutes of stopped supervisors, seed {options.seed} ...")
        run = make_run(Path(folder) / "stopped", trainer, every=200, settings=SETTINGS)
        stops, false = _false_verdicts(run, 60 * minutes, random.Random(options.seed))  # noqa: S311 - no secret
    figures = [
        Figure("verdict after, in budgets of 2 s", "x", late, 2.0),
        Figure(f"false verdicts in {minutes:g} minutes of stopping", "n", [false], 0.0),
        Figure("  stops of the supervisor", "n", [stops]),
    ]
    return table("hang", figures)


def _verdicts(run: Run, count: int) -> list[float]:
    """From the last report to the verdict in the journal, over the budget."""
    late = []
    with started(run) as daemon:
        for number in range(1, count + 1):
            _training(daemon)
            os.kill(run.trainer_pid(), signal.SIGSTOP)
            attempt = len(run.attempts())
            until(lambda n=number: len(run.events("hang")) >= n, "a verdict", 60, 0.01)
            now = time.perf_counter()
            late.append((now - float(run.reports(attempt)[-1]["at"])) / BUDGET)
            until(lambda n=attempt: len(run.attempts()) > n, "the next attempt", 60)
    return late


def _training(daemon: Daemon) -> None:
    """Wait until the newest attempt has done enough steps for a budget that was learned."""
    run = daemon.run
    until(lambda: len(run.reports(len(run.attempts()), "step")) > 20, "steps", 60)


def _false_verdicts(run: Run, seconds: float, rng: random.Random) -> tuple[int, int]:
    """How many stops there were, and how many verdicts."""
    stops, end = 0, time.perf_counter() + seconds
    with started(run) as daemon:
        _training(daemon)
        trainer = run.trainer_pid()
        while time.perf_counter() < end:
            asleep = rng.random() < 0.5
            if asleep:
                os.kill(trainer, signal.SIGSTOP)
            daemon.signal(signal.SIGSTOP)
            pause(rng.uniform(0.1, 3 * BUDGET))
            daemon.signal(signal.SIGCONT)
            pause(rng.uniform(0.0, 0.3 * BUDGET))
            if asleep:
                os.kill(trainer, signal.SIGCONT)
            pause(rng.uniform(0.0, 1.0))
            stops += 1
        _training(daemon)
        if run.trainer_pid() != trainer:
            say(f"another trainer runs: pid {run.trainer_pid()} instead of {trainer}")
        return stops, len(run.events("hang"))
