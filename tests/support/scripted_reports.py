"""The scripted trainer's voice: report lines numbered without gap, and its chance and its pace."""

from __future__ import annotations

import json
import os
import time
from select import select
from types import SimpleNamespace

_MASK = (1 << 64) - 1


def mix(value: int) -> int:
    """Splitmix64: one number of 64 bits from another."""
    value = (value + 0x9E3779B97F4A7C15) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


def pause(seconds: float) -> None:
    """Let time pass inside the trainer: its pace, a wait, a hang."""
    if seconds:
        select([], [], [], seconds)


def choose(weights: dict, share: float) -> str:
    """The arm at ``share`` of the weights' sum."""
    share *= sum(weights.values())
    arm = ""
    for name, weight in weights.items():
        if weight > 0:
            arm = name
            share -= weight
        if share < 0:
            break
    return arm


def ran(phase: dict, last: int) -> dict:
    """What the report of a phase that is over with step ``last`` says: what each arm did in it."""
    arms = [
        {"arm": arm, "pulls": pulls, "failed": 0, "loss": total / pulls}
        for arm, (pulls, total) in sorted(phase["arms"].items())
    ]
    span = {"first": last - phase["steps"] + 1, "last": last}
    return {**{n: phase[n] for n in ("phase", "repeated", "weights")}, **span, "arms": arms}


class Reports:
    """The report file, appended to in whole lines numbered from 1."""

    def __init__(self, path: str, buffer: int) -> None:
        self.descriptor = os.open(
            path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o640
        )
        self.buffer = buffer
        self.lines: list[str] = []
        self.losses: list[float] = []  # of the steps since the last checkpoint
        self.seq = 0

    def send(self, report: str, **fields: object) -> None:
        """Add a line, and write out at once: only steps wait for company."""
        rest = json.dumps(fields, separators=(",", ":"))[1:]
        self.add(f'"report":"{report}","at":{time.perf_counter():.6f},{rest}')
        self.flush()

    def add(self, rest: str, loss: float | None = None) -> None:
        """Number a line and keep it until there are enough; a step has a loss."""
        if loss is not None:
            self.losses.append(loss)
        self.seq += 1
        self.lines.append(f'{{"seq":{self.seq},{rest}\n')
        if len(self.lines) >= self.buffer:
            self.flush()

    def flush(self) -> None:
        """Write what is kept; where the disk refuses, try again before the next step."""
        data = memoryview("".join(self.lines).encode("ascii"))
        self.lines.clear()
        while data:
            try:
                data = data[os.write(self.descriptor, data) :]
            except OSError:
                pause(0.05)


class Draws:
    """The data in its order: the state of its generator, and how many steps' were taken."""

    def __init__(self, draws: int, count: int = 0) -> None:
        self.draws = draws
        self.count = count

    def record(self) -> dict[str, int]:
        """As a companion holds it."""
        return {"draws": self.draws, "count": self.count}

    def skip(self, steps: int) -> None:
        """Take the data of so many steps."""
        for _ in range(steps):
            self.draws = mix(self.draws)
        self.count += steps

    def told(self, options: SimpleNamespace) -> str:
        """The number that drew the step's arm, as a field more of its report where asked for."""
        return f',"draw":{self.draws / (1 << 64)!r}' if options.tell_draws else ""

    def within(self, span: str) -> bool:
        """Whether what was taken last is in a span such as ``150-152``; nothing is in ``""``."""
        first, _, last = span.partition("-")
        return bool(first) and int(first) <= self.count <= int(last or first)
