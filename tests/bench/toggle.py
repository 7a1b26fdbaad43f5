"""What the supervisor's presence costs a trainer at its full speed, within one of its lives.

Lives of a trainer differ by chance more than by supervision. So in every second slot of a few
seconds the supervisor, and in the others an idle process of the same kind, is stopped and
continued each second (each fourth step where steps are slow); the idle one is the toggle's own
control.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from bisect import bisect_right
from itertools import chain, pairwise
from pathlib import Path
from statistics import fmean

from tests.bench.demo import demo_run
from tests.bench.figures import Figure
from tests.bench.watching import started, until
from tests.support.scripted_reports import pause

IDLE = "import signal; signal.pause()"
Slot = tuple[float, float, bool]  # from, to, stopped


def pace(folder: Path, quick: bool) -> list[Figure]:  # noqa: FBT001 - a switch of the command
    """Steps a second with the supervisor running, as a share of those with it stopped."""
    run = demo_run(folder / "run", every=100_000)
    rounds, switches = (2, 4) if quick else (12, 8)
    idle = subprocess.Popen([sys.executable, "-S", "-c", IDLE], stdin=subprocess.DEVNULL)
    slots: dict[str, list[list[Slot]]] = {"supervisor": [], "idle": []}
    try:
        with started(run) as daemon:
            until(lambda: daemon.run.last_step() >= 20, "the first steps", 120)
            first = [float(step["at"]) for step in run.reports(1, "step")][5:20]
            slot = max(1.0, 4 * (first[-1] - first[0]) / (len(first) - 1))
            for _ in range(rounds):
                slots["supervisor"].append(_toggle(daemon.pid, switches, slot))
                slots["idle"].append(_toggle(idle.pid, switches, slot))
            steps = [float(step["at"]) for step in run.reports(1, "step")]
    finally:
        idle.kill()
        idle.wait()
    together = {who: share(steps, [*chain.from_iterable(r)]) for who, r in slots.items()}
    shares = {who: [*filter(None, (share(steps, s) for s in r))] for who, r in slots.items()}
    if not all(together.values()):
        raise ValueError("cannot compare: no whole step in any slot; is the machine busy?")
    speed = [1 / (b - a) for a, b in pairwise(steps[20:])]
    return [
        Figure("steps/s of the demo preset", "1/s", speed),
        Figure("supervised against bare, by round", "ratio", shares["supervisor"]),
        Figure("  the toggle's own control, by round", "ratio", shares["idle"]),
        Figure("  the control over all rounds", "ratio", [together["idle"]]),
        Figure(
            "supervised against bare, over all rounds",
            "ratio",
            [together["supervisor"]],
            target=0.98,
            at_least=True,
        ),
    ]


def _toggle(pid: int, switches: int, seconds: float) -> list[Slot]:
    """Stop and continue a process in turn, for so long each; return when which was the case."""
    slots = []
    try:
        for number in range(switches):
            stopped = number % 2 == 0
            os.kill(pid, signal.SIGSTOP if stopped else signal.SIGCONT)
            began = time.perf_counter()
            pause(seconds)
            slots.append((began, time.perf_counter(), stopped))
    finally:
        os.kill(pid, signal.SIGCONT)
    return slots


def share(steps: list[float], slots: list[Slot]) -> float:
    """Mean step time while stopped over that while running, of whole steps inside; 0: no step."""
    inside: dict[bool, list[float]] = {True: [], False: []}
    for began, ended, stopped in slots:
        own = steps[bisect_right(steps, began) : bisect_right(steps, ended)]
        inside[stopped] += [b - a for a, b in pairwise(own)]
    return fmean(inside[True]) / fmean(inside[False]) if all(inside.values()) else 0.0
