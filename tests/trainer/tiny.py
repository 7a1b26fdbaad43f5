"""A run so small that a life of the trainer takes milliseconds, and its reports read back."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from tests.support.runs import ROOT
from tests.support.waiting import wait_until
from trainer.contract.wire import (
    Checkpoint,
    Orders,
    PhaseOrder,
    Report,
    ReportName,
    SaveOrder,
    Step,
    format_orders,
    read_report,
)
from trainer.launch import Launch
from trainer.loop import train
from trainer.preparation import prepare
from trainer.reports import FileReports
from trainer.resume import newest
from trainer.run import Run
from trainer.signals import Requests

R = TypeVar("R", bound=Report)
Sections = dict[str, dict[str, Any]]

MODEL = {"vocabulary": 256, "width": 16, "heads": 2, "layers": 1, "context": 12}
TRAIN = {"steps": 30, "batch": 3, "lr": 0.01, "warmup_steps": 4, "threads": 1, "device": "cpu"}
TEXT = "the quick brown fox jumps over a lazy dog while nobody looks on"
WORDS = TEXT.split()


def toml(sections: Sections) -> str:
    """Nested tables as TOML; JSON's scalars and lists are TOML's."""
    lines = []
    for name, table in sections.items():
        inner = {k: v for k, v in table.items() if isinstance(v, dict)}
        lines.append(f"[{name}]")
        lines += [f"{k} = {json.dumps(v)}" for k, v in table.items() if k not in inner]
        lines.append(toml({f"{name}.{json.dumps(k)}": v for k, v in inner.items()}))
    return "\n".join(lines) + "\n"


def make_run(folder: Path, **changes: dict[str, Any]) -> Path:
    """A run directory with two arms: seven short files, and nineteen records in one file."""
    sections: Sections = {
        "model": MODEL,
        "train": TRAIN,
        "checkpoint": {"every_steps": 1000},
        "sources": {"files": {"path": "files"}, "records": {"path": "records.jsonl"}},
    }
    for name, table in changes.items():
        sections[name] = {**sections.get(name, {}), **table}
    (folder / "files").mkdir(parents=True)
    for number in range(7):
        text = " ".join(WORDS[number:] + WORDS[:number])
        (folder / "files" / f"{number}.txt").write_text(text[: 20 + 6 * number])
    records = [{"text": " ".join(WORDS[number % 5 : number % 11 + 2])} for number in range(19)]
    (folder / "records.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records))
    (folder / "run.toml").write_text(toml(sections))
    give_orders(folder)
    return folder


def phases(steps: int = 7, count: int = 20, **weights: float) -> tuple[PhaseOrder, ...]:
    """Phases 1 to ``count`` of one mix."""
    mix = tuple((weights or {"files": 0.5, "records": 0.5}).items())
    return tuple(PhaseOrder(number, steps, mix) for number in range(1, count + 1))


def give_orders(
    run: Path,
    serial: int = 1,
    ordered: tuple[PhaseOrder, ...] | None = None,
    save: SaveOrder | None = None,
    hold: str | None = None,
) -> None:
    """Replace the orders file in one go."""
    orders = Orders(serial, phases() if ordered is None else ordered, save, hold)
    temporary = run / f"orders.{serial}.tmp"
    temporary.write_bytes(format_orders(orders))
    temporary.rename(run / "orders.json")


def launch(run: Path, attempt: int, resume: Path | None) -> Launch:
    """As a supervisor would start the trainer."""
    return Launch(
        run=run,
        attempt=attempt,
        reports=run / f"reports-{attempt}.jsonl",
        orders=run / "orders.json",
        resume=resume,
        checkpoints=run / "checkpoints",
        orphan_after=900.0,
        steps=None,
        every_seconds=None,
        output=None,
    )


@dataclass
class Life:
    """One life of the trainer in this process, and everything that it reported."""

    run: Run
    reports: list[Report]
    checkpoints: Path
    leave: str = ""

    def of(self, kind: type[R]) -> list[R]:
        """The reports of one kind."""
        return [report for report in self.reports if isinstance(report, kind)]

    def saved(self) -> list[tuple[int, str, int | None]]:
        """Step, reason and order of each checkpoint reported."""
        return [(r.step, r.reason, r.save) for r in self.of(Checkpoint)]

    def last_step(self) -> int:
        """The last step reported."""
        return self.of(Step)[-1].step

    def newest(self) -> Path:
        """The last checkpoint written."""
        found = newest(self.checkpoints)
        assert found is not None
        return found


@dataclass
class Acting:
    """Reports into a file, and an act of the test right behind some of them."""

    file: FileReports
    acts: dict[tuple[str, int], Callable[[], None]] = field(default_factory=dict)

    def send(self, report: ReportName, **fields: object) -> None:
        self.file.send(report, **fields)
        step = fields.get("step", 0)
        act = self.acts.get((report, step if isinstance(step, int) else 0))
        if act is not None:
            act()

    def sync(self) -> None:
        self.file.sync()


def live(
    run: Path,
    *,
    attempt: int = 1,
    resume: Path | None = None,
    stop_after: int | None = None,
    acts: dict[tuple[str, int], Callable[[], None]] | None = None,
    change: Callable[[Run], None] = lambda _run: None,
    **launched: Any,  # noqa: ANN401 - fields of a Launch
) -> Life:
    """Train in this process from ``resume`` on.

    ``stop_after`` sets the request that SIGTERM sets, within that step; ``acts`` happen right
    after the report of that name and step; ``change`` sees the run before its first step.
    ``launched`` are other values of the launch.
    """
    how = launch(run, attempt, resume)._replace(**launched)
    requests = Requests()
    path = run / f"reports-{attempt}.jsonl"
    file = FileReports(path, lambda: requests.stop)
    todo = dict(acts or {})
    if stop_after is not None:
        todo["step", stop_after] = lambda: setattr(requests, "stop", True)
    try:
        built = prepare(how, Acting(file, todo), requests)
        change(built)
        leave = train(built)
    finally:
        file.close()
    return Life(built, read_reports(path), how.checkpoints, leave)


def send(number: signal.Signals) -> Callable[[], None]:
    """Send this process a signal; the handler has run when this returns."""
    return lambda: os.kill(os.getpid(), number)


def read_reports(path: Path) -> list[Report]:
    """All whole lines, read by the contract's reader."""
    return [read_report(line) for line in path.read_bytes().splitlines()]


class Process:
    """A real trainer process under the contract, without a supervisor."""

    def __init__(self, run: Path, attempt: int = 1, **more: str) -> None:
        self.reports_path = run / f"reports-{attempt}.jsonl"
        self.output_path = run / f"output-{attempt}.log"
        given = {
            "STEPKEEPER_RUN": str(run),
            "STEPKEEPER_ATTEMPT": str(attempt),
            "STEPKEEPER_REPORTS": str(self.reports_path),
            "STEPKEEPER_ORDERS": str(run / "orders.json"),
            **more,
        }
        with self.output_path.open("wb") as output:
            self.child = subprocess.Popen(
                [sys.executable, "-m", "trainer"],
                cwd=ROOT,
                env={**os.environ, **given},  # noqa: TID251 - the child inherits the rest
                stdout=output,
                stderr=output,
                stdin=subprocess.DEVNULL,
            )

    def reports(self) -> list[Report]:
        """Those that are whole by now."""
        data = self.reports_path.read_bytes() if self.reports_path.exists() else b""
        return [read_report(line) for line in data.splitlines(keepends=True) if line[-1:] == b"\n"]

    def of(self, kind: type[R]) -> list[R]:
        """The reports of one kind."""
        return [report for report in self.reports() if isinstance(report, kind)]

    def wait_for(self, kind: type[R], step: int = 0) -> R:
        """The first report of a kind at ``step`` or later."""
        found = wait_until(
            lambda: [r for r in self.of(kind) if r.step >= step],
            f"a {kind.__name__} at {step}",
            seconds=40.0,
            describe=self.describe,
        )
        return found[0]

    def wait(self) -> int:
        """The exit status."""
        try:
            return self.child.wait(timeout=40)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running\n{self.describe()}") from None

    def describe(self) -> str:
        """What it said, for a test that fails."""
        return self.output_path.read_text() + "\n".join(map(str, self.reports()[-5:]))

    def finish(self) -> None:
        """End it, whatever happened."""
        if self.child.poll() is None:
            self.child.kill()
        self.child.wait(timeout=20)
