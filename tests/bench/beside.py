"""The reference trainer's own step, timed while something saves beside it.

One model for all ways of saving, so that they meet the same machine; batches are ready in memory.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import NamedTuple, Protocol

from torch import Tensor

from tests.bench.trainer import RUN
from trainer.cadence import Due
from trainer.checkpoint import write
from trainer.contract.settings import PRESETS, Background
from trainer.contract.wire import Orders, PhaseOrder, ReportName, format_orders
from trainer.keeper import Keeper, Store
from trainer.launch import Launch
from trainer.loop import advance
from trainer.mixer import Batch
from trainer.preparation import prepare
from trainer.reports import FileReports
from trainer.run import Run
from trainer.signals import Requests

_LR = 1e-5
_ARM = {"first": 1.0}


class Options(NamedTuple):
    """What is trained, and on what: at most ``batch`` sequences of ``context``.

    A step is to last about ``seconds``.
    """

    preset: str
    batch: int
    context: int
    device: str
    seconds: float


class Way(Protocol):
    """One way of saving. ``files`` is where it writes.

    ``wait`` is how long the loop stood still for the last save, ``seconds`` how long that took
    until it was durable.
    """

    files: Path
    wait: float
    seconds: float

    def begin(self) -> None:
        """Begin a save of the state as it stands."""

    def done(self) -> bool:
        """Whether it is durable; asked at the end of every step."""

    def close(self) -> None:
        """Give back what it holds."""


class Noting(FileReports):
    """Reports into a file; keeps how long the last checkpoint took."""

    seconds = 0.0

    def send(self, report: ReportName, **fields: object) -> None:
        super().send(report, **fields)
        if report == "checkpoint":
            self.seconds = float(str(fields["seconds"]))


@dataclass
class Rig:
    """A prepared trainer that works in ``folder``, and the batch of every step."""

    run: Run
    folder: Path
    reports: Noting
    batch: Batch

    def step(self) -> float:
        """One step as the loop makes it, and its seconds."""
        began = time.perf_counter()
        advance(self.run, self.batch, _LR)
        self.run.state.step += 1
        self.run.keeper.collect()
        return time.perf_counter() - began

    def tensors(self) -> dict[str, Tensor]:
        """The state as other savers take it: weights, m and v by name."""
        names = [name for name, _ in self.run.state.shapes()]
        keys = [f"{kind}.{name}" for kind in ("weights", "m", "v") for name in names]
        return dict(zip(keys, self.run.state.arrays(), strict=True))

    @property
    def bytes(self) -> int:
        """Of the state."""
        return 12 * self.run.state.n_params


def build(folder: Path, options: Options) -> Rig:
    """Prepare the trainer, on a text of its own, in ``folder``."""
    words = " ".join(f"{number} {number * number}" for number in range(60_000))
    for name in ("first.txt", "second.txt"):
        (folder / name).write_text(words)
    values = {"preset": options.preset, "steps": 10**6, "batch": options.batch, "mix": "step"}
    settings = RUN.format(**values).replace("[train]", f'[train]\ndevice = "{options.device}"')
    (folder / "run.toml").write_text(settings)
    orders = Orders(1, (PhaseOrder(1, 10**6, tuple(_ARM.items())),), None, None)
    (folder / "orders.json").write_bytes(format_orders(orders))
    launch = Launch(
        run=folder,
        attempt=1,
        reports=folder / "reports.jsonl",
        orders=folder / "orders.json",
        resume=None,
        checkpoints=folder / "checkpoints",
        orphan_after=900.0,
        steps=None,
        every_seconds=None,
        output=None,
    )
    reports = Noting(folder / "reports.jsonl", lambda: False)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    run = prepare(launch, reports, Requests())
    for number, handler in handlers.items():  # no loop here would look at the trainer's requests
        signal.signal(number, handler)
    batch = run.state.mixer.batch(_ARM, options.batch)
    length = min(options.context, PRESETS[options.preset].context) + 1
    rig = Rig(run, folder, reports, batch._replace(sequences=batch.sequences[:, :length]))
    _fit(rig, options.seconds)
    return rig


def _fit(rig: Rig, seconds: float) -> None:
    """Take so many sequences that a step lasts about ``seconds``."""
    whole = rig.batch

    def timed(count: int) -> float:
        rig.batch = whole._replace(sequences=whole.sequences[:count])
        return min(rig.step() for _ in range(2))

    few, more = 1, min(4, len(whole.sequences))
    rig.step()
    least, most = timed(few), timed(more)
    each = max((most - least) / max(1, more - few), 1e-6)
    count = round((seconds - least) / each) + few
    rig.batch = whole._replace(sequences=whole.sequences[: max(1, count)])


class Ours:
    """The trainer's own keeper, with one setting of ``checkpoint.background``."""

    def __init__(self, rig: Rig, background: Background) -> None:
        self.files = rig.folder / background
        self.files.mkdir()
        self.wait = self.seconds = 0.0
        self._rig = rig
        self._idle = rig.run.keeper
        self._keeper = Keeper(
            Store(self.files, write), {}, rig.reports, lambda: False, None, background
        )

    def begin(self) -> None:
        self._rig.run.keeper = self._keeper
        began = time.perf_counter()
        self._keeper.keep(self._rig.run.state, Due("signal", None, ""))
        self.wait = time.perf_counter() - began
        self._keeper.waited = 0.0  # what counts from here on is the wait before an update

    def done(self) -> bool:
        if self._keeper.saving:
            return False
        self._rig.run.keeper = self._idle
        self.wait += self._keeper.waited
        self.seconds = self._rig.reports.seconds
        return True

    def close(self) -> None:
        self._keeper.close()


@dataclass
class Taken:
    """What the saves of one way came to, one number for each: all in seconds but ``memory`` (MB).

    ``extra`` is what training took beyond as many quiet steps, ``memory`` what the process grew by
    at most.
    """

    extra: list[float] = field(default_factory=list)
    wait: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)


class Round:
    """Ways of saving, one after another, and the quiet steps between them."""

    def __init__(self, rig: Rig, grown: Callable[[], float]) -> None:
        """``grown`` tells the growth of memory since it was last asked, in MB."""
        self.quiet = [rig.step()]
        self._rig = rig
        self._grown = grown
        self._spans: list[tuple[Taken, float, int]] = []

    def save(self, way: Way, taken: Taken) -> None:
        """One save, the steps that it overlaps, and one quiet step behind them."""
        self._grown()
        began, steps = time.perf_counter(), 0
        way.begin()
        while True:
            self._rig.step()
            steps += 1
            if way.done():
                break
        self._spans.append((taken, time.perf_counter() - began, steps))
        taken.wait.append(way.wait)
        taken.seconds.append(way.seconds)
        taken.memory.append(self._grown())
        self.quiet.append(self._rig.step())

    def finish(self) -> None:
        """Now that the round's quiet steps are known, tell what each save took beyond them."""
        middle = median(self.quiet)
        for taken, seconds, steps in self._spans:
            taken.extra.append(seconds - steps * middle)
