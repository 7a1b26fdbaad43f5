"""What a storm of kills costs the trainer: its pace while supervisors die, against quiet ones.

Both within one life of the trainer, slot by slot, since lives differ by chance more than by this.
The trainer computes on one thread, so that starting supervisors take CPU from it only where the
machine has a single core.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from itertools import chain, pairwise
from pathlib import Path

from tests.bench.demo import demo_run
from tests.bench.figures import Figure, say, table
from tests.bench.toggle import Slot, share
from tests.bench.watching import started, until
from tests.support.scripted_reports import pause
from tests.support.storm import Storm

SEED = 7


def main(words: list[str]) -> int:
    """Run it; 1 where the target is missed."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench storm")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter slots")
    options = parser.parse_args(words)
    rounds, seconds = (3, 6.0) if options.quick else (12, 20.0)
    say("storm: one run, quiet and killed in turn ...")
    with tempfile.TemporaryDirectory(prefix="stepkeeper-bench-") as folder:
        return table("storm", _figures(Path(folder), rounds, seconds))


def _figures(folder: Path, rounds: int, seconds: float) -> list[Figure]:
    run = demo_run(folder / "run", every=200, more="threads = 1\n")
    slots: list[list[Slot]] = []
    with started(run) as daemon:
        until(lambda: run.last_step() >= 20, "the first steps", 120)
        storm = Storm(daemon, SEED)
        storm.answers()
        trainer = run.trainer_pid()
        for _ in range(rounds):
            slots.append([_quiet(seconds), _killed(storm, seconds)])
            storm.answers()
        if run.trainer_pid() != trainer:
            raise ValueError("cannot compare: the trainer is another one")
        steps = [float(step["at"]) for step in run.reports(1, "step")]
    by_round = [*filter(None, (share(steps, pair) for pair in slots))]
    if not by_round:
        raise ValueError("cannot compare: no whole step in any slot; is the machine busy?")
    killed = sum(ended - began for _, (began, ended, _) in slots)
    return [
        Figure("steps/s of the demo preset, one thread", "1/s", _speeds(steps)),
        Figure("kills", "", [storm.kills]),
        Figure("  seconds between them", "s", [killed / max(1, storm.kills)]),
        Figure("killed against quiet, by round", "ratio", by_round),
        Figure(
            "killed against quiet, over all rounds",
            "ratio",
            [share(steps, [*chain.from_iterable(slots)])],
            target=0.97,
            at_least=True,
        ),
    ]


def _speeds(steps: list[float]) -> list[float]:
    return [1 / (after - before) for before, after in pairwise(steps[20:])]


def _quiet(seconds: float) -> Slot:
    """A slot in which the supervisor is left alone; it counts as the one compared with."""
    began = time.perf_counter()
    pause(seconds)
    return began, time.perf_counter(), True


def _killed(storm: Storm, seconds: float) -> Slot:
    """A slot in which supervisors die one after the other."""
    began = time.perf_counter()
    while time.perf_counter() < began + seconds:
        storm.blow()
    return began, time.perf_counter(), False
