"""How fast a killed trainer is back, beside a bare spawn measured in between.

Each round waits for a new seal, so that the kill comes after progress and nothing is pending.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.bench.demo import demo_run
from tests.bench.figures import Figure, say, table
from tests.bench.watching import Tail, moment_of_death, started, until
from tests.support.runs import ROOT, Run, make_run, scripted

BARE = [sys.executable, "-S", "-c", "import time; print(time.perf_counter())"]


def main(words: list[str]) -> int:
    """Kill, wait, kill again; 1 where a target is missed."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench restart")
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--no-demo", action="store_true", help="the scripted trainer alone")
    options = parser.parse_args(words)
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="stepkeeper-bench-") as folder:
        say("restart: scripted trainer ...")
        trainer = scripted(rate=200, every=300, say_start=True)
        run = make_run(Path(folder) / "scripted", trainer, every=300)
        kills = _rounds(run, 5 if options.quick else 25)
        figures += [
            Figure("bare spawn to first instruction", "ms", kills["bare"]),
            Figure("pidfd readable to first instruction", "ms", kills["instruction"], 20.0),
            Figure("  kill to pidfd readable", "ms", kills["death"]),
            Figure("kill to first instruction", "ms", kills["from kill"], 40.0),
            Figure("kill to first step, scripted trainer", "ms", kills["step"]),
        ]
        if not options.no_demo:
            say("restart: demo preset ...")
            demo = demo_run(Path(folder) / "demo", every=10)
            kills = _rounds(demo, 2 if options.quick else 7, beside=_bare_start)
            figures += [
                Figure("kill to first step, demo preset", "ms", kills["step"], 1500.0),
                Figure("  the same trainer started bare, from the same .bin", "ms", kills["bare"]),
                Figure("  restarted / bare", "", _ratios(kills["step"], kills["bare"]), 1.1),
            ]
    return table("restart", figures)


def _ratios(some: list[float], others: list[float]) -> list[float]:
    return [one / other for one, other in zip(some, others, strict=True)]


def _rounds(
    run: Run, count: int, beside: Callable[[Run], float] | None = None
) -> dict[str, list[float]]:
    """Milliseconds of each kind, over ``count`` kills in one life of the supervisor."""
    seen: dict[str, list[float]] = {}
    with started(run):
        for _ in range(count):
            sealed = max(run.seals(), default=0)
            attempt = len(run.attempts())
            until(lambda sealed=sealed: _all_sealed(run, sealed), "a new seal", 120, 0.005)
            pid = run.trainer_pid()
            seen.setdefault("bare", []).append(beside(run) if beside else _bare())
            killed = time.perf_counter()
            died = moment_of_death(pid, lambda pid=pid: os.kill(pid, signal.SIGKILL))
            attempt = max(attempt, len(run.attempts()))
            first = _first_step(run, attempt + 1)
            seen.setdefault("death", []).append(1000 * (died - killed))
            seen.setdefault("step", []).append(1000 * (first - killed))
            if (began := _first_instruction(run, attempt + 1)) is not None:
                seen.setdefault("instruction", []).append(1000 * (began - died))
                seen.setdefault("from kill", []).append(1000 * (began - killed))
    return seen


def _all_sealed(run: Run, before: int) -> bool:
    """Whether there is a seal above ``before`` and no checkpoint waits for one."""
    sealed = max(run.seals(), default=0)
    return sealed > before and max(run.checkpoints()) == sealed


def _bare() -> float:
    began = time.perf_counter()
    done = subprocess.run(BARE, capture_output=True, check=True, stdin=subprocess.DEVNULL)
    return 1000 * (float(done.stdout) - began)


def _bare_start(run: Run) -> float:
    """From the start of the same trainer by hand to its first step, while the run's own stands."""
    own = run.trainer_pid()
    newest = run.path / f"checkpoints/step_{max(run.seals()):06d}.bin"
    with tempfile.TemporaryDirectory(prefix="stepkeeper-bench-") as folder:
        reports = Path(folder) / "reports.jsonl"
        env = {
            **os.environ,  # noqa: TID251 - as a supervisor passes it on
            "PYTHONPATH": str(ROOT),
            "STEPKEEPER_RUN": str(run.path),
            "STEPKEEPER_ATTEMPT": "1",
            "STEPKEEPER_REPORTS": str(reports),
            "STEPKEEPER_ORDERS": str(run.path / "orders.json"),
            "STEPKEEPER_RESUME": str(newest),
        }
        os.kill(own, signal.SIGSTOP)
        began = time.perf_counter()
        command = [sys.executable, "-m", "trainer"]
        process = subprocess.Popen(
            command,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            steps = Tail(reports)
            found: list[dict[str, object]] = []

            def stepped() -> bool:
                found.extend(line for line in steps.new() if line["report"] == "step")
                return bool(found)

            until(stepped, "a step of the bare trainer", 60, 0.01)
        finally:
            process.kill()
            process.wait()
            os.kill(own, signal.SIGCONT)
    return 1000 * (float(str(found[0]["at"])) - began)


def _first_step(run: Run, attempt: int) -> float:
    """The trainer's own time of its first step; both clocks are the system's monotonic one."""
    until(lambda: run.reports(attempt, "step"), f"a step of attempt {attempt}", 60, 0.01)
    return float(run.reports(attempt, "step")[0]["at"])


def _first_instruction(run: Run, attempt: int) -> float | None:
    """What the trainer printed first, where it does."""
    output = (run.path / f"attempts/{attempt:06d}/output.log").read_text()
    found = re.match(r"started at ([\d.]+)\n", output)
    return float(found[1]) if found else None
