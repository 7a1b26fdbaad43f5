"""The trainers that other tests rely on keep the contract themselves."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.runs import ROOT, scripted
from tests.support.waiting import wait_until
from trainer.contract.wire import Finished, Ready, read_report

PHASES = [
    {"phase": 1, "steps": 7, "weights": {"a": 0.5, "b": 0.5}},
    {"phase": 2, "steps": 90, "weights": {"a": 0.1, "b": 0.9}},
]


class Lives:
    """Lives of a trainer on one run directory, without a supervisor."""

    def __init__(self, run: Path) -> None:
        self.run = run
        self.process: subprocess.Popen[bytes] | None = None
        (run / "checkpoints").mkdir()
        self.order()

    def order(self, **changes: object) -> None:
        orders = {"serial": 1, "phases": PHASES, "save": None, "hold": None, **changes}
        new = self.run / "orders.new"
        new.write_text(json.dumps(orders))
        new.replace(self.run / "orders.json")

    def start(self, command: list[str], attempt: int, resume: int | None = None) -> None:
        folder = self.run / f"attempts/{attempt:06d}"
        folder.mkdir(parents=True)
        point = "" if resume is None else str(self.run / f"checkpoints/step_{resume:06d}.bin")
        environment = os.environ | {  # noqa: TID251 - the trainer's environment is the test's own
            "STEPKEEPER_RUN": str(self.run),
            "STEPKEEPER_ATTEMPT": str(attempt),
            "STEPKEEPER_REPORTS": str(folder / "reports.jsonl"),
            "STEPKEEPER_ORDERS": str(self.run / "orders.json"),
            "STEPKEEPER_RESUME": point,
            "STEPKEEPER_TOKEN": "token",
        }
        self.process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL)

    def end(self) -> int:
        assert self.process is not None
        return self.process.wait(20)

    def live(self, command: list[str], attempt: int, resume: int | None = None) -> int:
        self.start(command, attempt, resume)
        return self.end()

    def reports(self, attempt: int, name: str = "") -> list[dict[str, Any]]:
        path = self.run / f"attempts/{attempt:06d}/reports.jsonl"
        data = path.read_bytes() if path.exists() else b""
        lines = [json.loads(line.replace(b"-nan", b"NaN")) for line in data.split(b"\n")[:-1]]
        return [line for line in lines if not name or line["report"] == name]

    def facts(self, attempt: int) -> list[tuple[object, ...]]:
        names = ("step", "loss", "arm", "lr", "data", "phase")
        return [tuple(line.get(n) for n in names) for line in self.reports(attempt, "step")]


@pytest.fixture
def lives(tmp_path: Path) -> Iterator[Lives]:
    made = Lives(tmp_path)
    yield made
    if made.process is not None and made.process.poll() is None:
        made.process.kill()
        made.process.wait(10)


def test_every_report_of_both_trainers_can_be_read(lives: Lives, c_trainer: str) -> None:
    assert lives.live(scripted(steps=60, every=20, sample_every=20), 1) == 0
    assert lives.live([c_trainer, "60", "0", "20", "64", "33"], 2) == 0
    for attempt in (1, 2):
        path = lives.run / f"attempts/{attempt:06d}/reports.jsonl"
        reports = [read_report(line) for line in path.read_bytes().splitlines()]
        assert [report.seq for report in reports] == list(range(1, len(reports) + 1))
        assert isinstance(reports[-1], Finished)
        ready = next(report for report in reports if isinstance(report, Ready))
        assert ready.companion == (attempt == 1)
    assert [line["step"] for line in lives.reports(2, "checkpoint")] == [20, 40, 60]


def test_a_resumed_life_repeats_the_steps_of_an_uninterrupted_one(lives: Lives) -> None:
    assert lives.live(scripted(steps=90, every=20), 1) == 0
    assert lives.live(scripted(steps=90, every=20, kill_at=57, attempts=2), 2) == -signal.SIGKILL
    assert lives.live(scripted(steps=90, every=20, kill_at=57, attempts=2), 3, resume=40) == 0
    whole = lives.facts(1)
    assert lives.facts(2) == whole[:57]
    assert lives.facts(3) == whole[40:]
    assert lives.reports(3, "phase") == []
    assert [line["arms"] for line in lives.reports(2, "phase")] == [
        line["arms"] for line in lives.reports(1, "phase")
    ]
    assert lives.live(scripted(steps=90, every=20, differ_from=50), 4, resume=40) == 0
    unequal = [a[0] for a, b in zip(lives.facts(4), whole[40:], strict=True) if a != b]
    assert unequal == list(range(50, 91))


def test_a_phase_that_spans_a_resume_is_reported_as_if_nothing_had_been(lives: Lives) -> None:
    assert lives.live(scripted(steps=97, every=20), 1) == 0
    lives.order(phases=PHASES[1:])
    assert lives.live(scripted(steps=97, every=20), 2, resume=60) == 0
    strip = ("seq", "at")
    first = {k: v for k, v in lives.reports(1, "phase")[-1].items() if k not in strip}
    second = {k: v for k, v in lives.reports(2, "phase")[-1].items() if k not in strip}
    assert first == second
    assert (first["phase"], first["first"], first["last"]) == (2, 8, 97)


def test_a_missing_phase_is_repeated_and_said_to_be(lives: Lives) -> None:
    lives.order(phases=PHASES[:1])
    assert lives.live(scripted(steps=14, phase_wait=0.05), 1) == 0
    assert [(p["phase"], p["repeated"]) for p in lives.reports(1, "phase")] == [
        (1, False),
        (2, True),
    ]


@pytest.mark.parametrize("trainer", ["python", "c"])
def test_signals_save_and_stop_at_a_steps_end(lives: Lives, c_trainer: str, trainer: str) -> None:
    python = scripted(rate=200, every=100_000)
    lives.start(python if trainer == "python" else [c_trainer, "9999", "200", "100000", "64"], 1)
    wait_until(lambda: lives.reports(1, "step"), "a step")
    lives.process.send_signal(signal.SIGUSR1)
    saved = wait_until(lambda: lives.reports(1, "checkpoint"), "a checkpoint")[0]
    wait_until(lambda: lives.reports(1, "step")[-1]["step"] > saved["step"], "another step")
    lives.process.send_signal(signal.SIGTERM)
    assert lives.end() == 0
    last = lives.reports(1, "step")[-1]["step"]
    assert [line["step"] for line in lives.reports(1, "checkpoint")] == [saved["step"], last]
    assert lives.reports(1)[-1]["reason"] == "stop"


def test_an_order_is_honoured_once_without_any_signal(lives: Lives) -> None:
    lives.start(scripted(rate=500, every=50), 1)
    wait_until(lambda: lives.reports(1, "step"), "a step")
    lives.order(save={"serial": 9, "align": "step", "then": "go"}, serial=2)
    saves = wait_until(
        lambda: [c for c in lives.reports(1, "checkpoint") if c["save"] == 9], "the ordered save"
    )
    ahead = saves[0]["step"] + 10
    wait_until(lambda: lives.reports(1, "step")[-1]["step"] > ahead, "steps under an old order")
    lives.order(save={"serial": 10, "align": "cadence", "then": "exit"}, serial=3)
    assert lives.end() == 0
    saves = [c for c in lives.reports(1, "checkpoint") if c["save"] is not None]
    assert [c["save"] for c in saves] == [9, 10]
    assert saves[-1]["step"] % 50 == 0
    assert lives.reports(1)[-1]["reason"] == "order"


def test_a_hold_waits_at_a_steps_end_and_still_obeys(lives: Lives) -> None:
    lives.order(hold="no room")
    lives.start(scripted(), 1)
    wait_until(lambda: lives.reports(1, "doing")[-1:] and lives.reports(1, "step"), "a hold")
    wait_until(lambda: lives.reports(1, "doing")[-1]["what"] == "wait", "a wait")
    lives.process.send_signal(signal.SIGTERM)
    assert lives.end() == 0
    assert [line["step"] for line in lives.reports(1, "step")] == [1]
    assert [line["step"] for line in lives.reports(1, "checkpoint")] == [1]


def test_a_save_that_is_killed_leaves_no_visible_checkpoint(lives: Lives) -> None:
    assert lives.live(scripted(steps=90, every=20, die_in_save=40), 1) == -signal.SIGKILL
    assert lives.live(scripted(steps=90, every=20, die_before_publish=20), 2) == -signal.SIGKILL
    visible = sorted(path.name for path in (lives.run / "checkpoints").glob("step_*.bin"))
    assert visible == ["step_000020.bin"]
    assert len(list((lives.run / "checkpoints").glob(".*.tmp"))) == 2


def test_the_scripted_trainer_loads_little_before_its_first_step() -> None:
    """It stands for the trainer in every figure of a restart, so its own start must be small."""
    code = "import tests.support.scripted_life, sys; print(*sys.modules)"
    command = [sys.executable, "-S", "-c", code]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    slow = {"argparse", "hashlib", "numpy", "pathlib", "pydantic_core", "secrets", "subprocess"}
    assert slow & set(done.stdout.split()) == set()
