"""A real supervisor and a real trainer live on from a state until the run is finished."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from pathlib import Path

from supervisor.cli import run as stepkeeper
from tests.crashes.life import trainer
from tests.crashes.recovering import STAGES, Broken, Floor, Truth
from tests.support.command import command
from tests.support.daemon import end_all
from tests.support.runs import Run
from tests.support.waiting import wait_until

BEYOND = 50  # steps, enough for a pivot that is under way
RATE = 200
SECONDS = 60.0


def live_on(run: Path, truth: Truth, floor: Floor) -> str:
    """Empty, or the reason of a refusal. Raises Broken."""
    steps = max(*truth.steps, floor.ledger) + BEYOND
    lines = (run / "run.toml").read_text().split("\n")
    words = json.dumps(trainer(steps, truth.form, rate=RATE))
    kept = [f"command = {words}" if line.startswith("command = ") else line for line in lines]
    (run / "run.toml").write_text("\n".join(kept))
    log = run.with_name(f"{run.name}.log")
    code = _supervised(run, log)
    if not code and (Run(run).read("intent.json") or {}).get("want") == "stop":
        code = _supervised(run, log)  # the first one finished a stop of this boot, as it must
    if code == 11:
        return log.read_text().strip().split("\n")[-1]
    if code:
        raise Broken(f"stepkeeper run ended with {code}: {log.read_text()[-2000:]}")
    _hold(run, steps, floor)
    return ""


def _supervised(run: Path, log: Path) -> int:
    """``stepkeeper run`` in a process of its own; its exit code."""
    pid = os.fork()
    if not pid:
        code = 70
        try:
            os.setsid()
            descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o640)
            for standard in (1, 2):
                os.dup2(descriptor, standard)
            sys.stdout = os.fdopen(1, "w", closefd=False)
            sys.stderr = os.fdopen(2, "w", closefd=False)
            code = stepkeeper(["run", str(run)])
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code)
    ended: list[int] = []

    def over() -> bool:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            ended.append(os.waitstatus_to_exitcode(status))
        return bool(found)

    try:
        wait_until(over, "the run's end", SECONDS, log.read_text)
    finally:
        if not ended:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, 9)
            os.waitpid(pid, 0)
        end_all(Run(run))
    return ended[0]


def _hold(run: Path, steps: int, floor: Floor) -> None:
    kept = Run(run)
    if list(kept.canonical()) != list(range(1, steps + 1)):
        raise Broken(f"the canonical ledger is not 1 to {steps}")
    if max(kept.seals()) != steps:
        raise Broken(f"the newest seal is of {max(kept.seals())}, not of the last step {steps}")
    if left := [str(path.relative_to(run)) for path in run.rglob("*.tmp")]:
        raise Broken(f"temporaries are left: {left}")
    if differed := kept.events("replay-differed"):
        raise Broken(f"a replay is not equal: {differed[0]['facts']}")
    if floor.stage >= STAGES.index("requested"):
        if (run / "pivot.json").exists() or not kept.events("pivot-done"):
            raise Broken("a durable pivot is not done at the end")
        if kept.ledger()[-1]["policy"] < floor.policy:
            raise Broken("the policy went back")
    told = command("audit", run)
    if told.code:
        raise Broken(f"the audit finds: {told.err.strip()}")
