"""How long ``explain`` takes on a long run: 200,000 steps of sixteen arms, a seal every 100."""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from hashlib import sha256
from pathlib import Path
from typing import Any

from supervisor.config import recorded_policy
from supervisor.core.bandit import BanditState, finish_phase, fresh
from supervisor.sidecars import attempts, bandit_state
from supervisor.sidecars.attempts import AttemptModel
from supervisor.sidecars.checkpoints import seals
from supervisor.sidecars.kept_settings import digest_of
from tests.bench.figures import Figure, say, table
from tests.support.runs import ROOT
from trainer.contract.wire import ArmResult, Phase

NAMES = tuple(f"arm{number:02d}" for number in range(16))
TARGET = 1000.0  # ms
NOTHING = "0" * 32


def main(words: list[str]) -> int:
    """Write such a run's files, then ask about steps of it; 1 where the target is missed."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench explain")
    parser.add_argument("--quick", action="store_true", help="20,000 steps in place of 200,000")
    options = parser.parse_args(words)
    steps = 20_000 if options.quick else 200_000
    with tempfile.TemporaryDirectory(prefix="stepkeeper-bench-") as folder:
        run = Path(folder) / "run"
        say(f"explain: a run of {steps:,} steps ...")
        _Written(run).train(steps)
        seen = {
            f"explain --step {step:,}": [_milliseconds(run, step) for _ in range(5)]
            for step in (5, steps // 2, steps - 50)
        }
    return table("explain", [Figure(name, "ms", took, TARGET) for name, took in seen.items()])


class _Written:
    """The files of a run that nobody trained, as supervisor and trainer would have left them."""

    def __init__(self, run: Path) -> None:
        for folder in ("policies", "settings", "checkpoints", "attempts/000001"):
            (run / folder).mkdir(parents=True)
        settings = 'schema = "stepkeeper.run/1"\nname = "demo"\n'
        settings += "".join(f'[sources.{name}]\npath = "."\n' for name in NAMES)
        bounds = "".join(f"[arms.{name}]\nfloor = 0.01\ncap = 0.4\n" for name in NAMES)
        text = f'schema = "stepkeeper.policy/2"\nalgorithm = "thompson"\n{bounds}'.encode()
        (run / "run.toml").write_text(settings)
        (run / "settings/0001.toml").write_text(settings)
        (run / "policies/0001.toml").write_bytes(text)
        record = AttemptModel(
            attempt=1,
            policy=1,
            token="t",  # noqa: S106 - of a trainer that never lived
            command=(),
            settings=digest_of(settings.encode()),
            resume=None,
            ledger_step=0,
            started="2026-01-01T00:00:00.000Z",
        )
        attempts.write(run, record, durably=False)
        self.run = run
        self.policy = recorded_policy(text, 1, "here")
        self.chance = random.Random(1)  # noqa: S311 - a simulation
        self.seq = self.bytes = 0
        self.previous = ""

    def train(self, steps: int) -> None:
        """All steps, phase by phase; a seal every 100."""
        state = fresh(self.policy, frozenset(NAMES), 1)
        losses: dict[str, list[float]] = {}
        done = 0
        reports = self.run / "attempts/000001/reports.jsonl"
        with (self.run / "demo.loss.json").open("w") as ledger, reports.open("w") as told:
            for step in range(1, steps + 1):
                order = state.phases[0]
                fields = self._step(step, dict(order.weights))
                losses.setdefault(fields["arm"], []).append(fields["loss"])
                told.write(self._report("step", {**fields, "phase": order.phase}))
                ledger.write(_line(fields))
                done += 1
                if done == order.steps:
                    report = _phase(state, losses)
                    told.write(self._report("phase", _fields(report)))
                    state, losses, done = finish_phase(state, self.policy, report), {}, 0
                if step % 100 == 0:
                    self._seal(step, ledger.tell(), state)

    def _step(self, step: int, weights: dict[str, float]) -> dict[str, Any]:
        draw, total = self.chance.random(), sum(weights.values())
        point, arm = draw * total, NAMES[-1]
        for name, weight in weights.items():
            point -= weight
            if point < 0:
                arm = name
                break
        loss = 3.0 + self.chance.random()
        rest = {"arm": arm, "lr": 3e-4, "data": f"{step:016x}", "draw": draw}
        return {"step": step, "loss": loss, **rest, "propensity": weights[arm] / total}

    def _report(self, name: str, fields: dict[str, Any]) -> str:
        self.seq += 1
        head = {"seq": self.seq, "report": name, "at": float(self.seq)}
        line = json.dumps({**head, **fields}, separators=(",", ":")) + "\n"
        self.bytes += len(line)
        return line

    def _seal(self, step: int, size: int, state: BanditState) -> None:
        record = seals.SealRecord(
            step,
            1,
            seals.Bin(f"step_{step:06d}.bin", NOTHING * 2, 8),
            "",
            self.previous,
            seals.LedgerAt(step, size, NOTHING, step),
            seals.ReportsAt(1, self.seq, self.bytes),
            seals.EventsAt(0, 0, NOTHING),
            1,
            bandit_state.to_record(state),
            None,
            "cadence",
            None,
            seals.Replay(0, 0),
            "2026-01-01T00:00:00.000Z",
        )
        data = record.encode()
        self.previous = sha256(data).hexdigest()
        (self.run / f"checkpoints/step_{step:06d}.seal.json").write_bytes(data)


def _line(fields: dict[str, Any]) -> str:
    rest = {"policy": 1, "attempt": 1, "nonfinite": "", "mark": "", "time": "", "chain": NOTHING}
    return json.dumps({**fields, **rest}, separators=(",", ":")) + "\n"


def _phase(state: BanditState, losses: dict[str, list[float]]) -> Phase:
    order = state.phases[0]
    arms = tuple(
        ArmResult(name, len(found), 0, sum(found) / len(found))
        for name, found in sorted(losses.items())
    )
    span = (state.step + 1, state.step + order.steps)
    return Phase(1, 1.0, order.phase, *span, repeated=False, weights=order.weights, arms=arms)


def _fields(report: Phase) -> dict[str, Any]:
    fields = report._asdict()
    arms = [result._asdict() for result in report.arms]
    kept = {key: fields[key] for key in ("phase", "first", "last", "repeated")}
    return {**kept, "weights": dict(report.weights), "arms": arms}


def _milliseconds(run: Path, step: int) -> float:
    command = [sys.executable, "-m", "supervisor", "explain", str(run), "--step", str(step)]
    began = time.perf_counter()
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    passed = 1000 * (time.perf_counter() - began)
    if done.returncode or "equal to the last bit" not in done.stdout:
        raise ValueError(f"cannot time step {step}: {done.stdout}{done.stderr}")
    return passed
