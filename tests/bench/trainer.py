"""Tokens a second of the reference trainer's loop against a minimal loop written by hand.

Both use the same model, batch, optimizer and text, in one process, in turns of equal length, so
that what else the machine does hits both alike. Ours reads and mixes sources, keeps the digest of
what it consumed, reports every step to a file and looks at orders and signals; the plain loop has
its batches ready in memory and reads the loss.
"""

from __future__ import annotations

import argparse
import pydoc_data.topics
import sys
import tempfile
import time
from pathlib import Path

import torch
import torch.nn.functional as F  # noqa: N812 - the name everyone knows it by

from tests.bench.figures import Figure, table
from trainer.contract.settings import PRESETS
from trainer.contract.wire import Orders, PhaseOrder, ReportName, format_orders
from trainer.launch import Launch
from trainer.loop import train
from trainer.model import Transformer
from trainer.preparation import prepare
from trainer.reports import FileReports
from trainer.signals import Requests

TARGET = 0.97
RUN = """
[model]
preset = "{preset}"
[train]
steps = {steps}
batch = {batch}
warmup_steps = 20
[data]
mix = "{mix}"
[checkpoint]
every_steps = 1000000
[sources.first]
path = "first.txt"
[sources.second]
path = "second.txt"
"""


class PlainLoop:
    """What people write by hand."""

    def __init__(self, model: Transformer, batches: list[torch.Tensor]) -> None:
        self.model = model
        self.batches = batches
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1)

    def steps(self, count: int) -> None:
        """Train for ``count`` steps."""
        for number in range(count):
            batch = self.batches[number % len(self.batches)]
            logits = self.model.logits(batch[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
            self.optimizer.zero_grad()
            loss.item()


class TakingTurns:
    """Reports that, after every turn of our loop, give the plain loop one of the same length."""

    def __init__(self, reports: FileReports, plain: PlainLoop, turn: int) -> None:
        self.ours: list[float] = []
        self.plains: list[float] = []
        self._reports = reports
        self._plain = plain
        self._turn = turn
        self._began = 0.0

    def send(self, report: ReportName, **fields: object) -> None:
        self._reports.send(report, **fields)
        if report == "ready":
            self._plain.steps(self._turn)
            self._began = time.perf_counter()
        step = fields.get("step")
        if report == "step" and isinstance(step, int) and step % self._turn == 0:
            now = time.perf_counter()
            if step > self._turn:  # the first turn of each only warms up
                self.ours.append(now - self._began)
            self._plain.steps(self._turn)
            self._began = time.perf_counter()
            if step > self._turn:
                self.plains.append(self._began - now)

    def sync(self) -> None:
        self._reports.sync()


def measure(run: Path, options: argparse.Namespace) -> TakingTurns:
    """Train in ``run`` and return the seconds of all turns."""
    text = "\n\n".join(pydoc_data.topics.topics.values())
    (run / "first.txt").write_text(text[: len(text) // 2])
    (run / "second.txt").write_text(text[len(text) // 2 :])
    steps = (options.turns + 1) * options.turn
    values = {"preset": options.preset, "steps": steps, "batch": options.batch}
    (run / "run.toml").write_text(RUN.format(**values, mix=options.mix))
    weights = (("first", 0.5), ("second", 0.5))
    phases = tuple(PhaseOrder(number, 42, weights) for number in range(1, steps // 42 + 3))
    (run / "orders.json").write_bytes(format_orders(Orders(1, phases, None, None)))
    launch = Launch(
        run=run,
        attempt=1,
        reports=run / "reports.jsonl",
        orders=run / "orders.json",
        resume=None,
        checkpoints=run / "checkpoints",
        orphan_after=900.0,
        steps=None,
        every_seconds=None,
        output=None,
    )
    requests = Requests()
    reports = FileReports(run / "reports.jsonl", lambda: False)
    plain = PlainLoop(_model(options.preset), _batches(text, options))
    turns = TakingTurns(reports, plain, options.turn)
    train(prepare(launch, turns, requests))
    reports.close()
    return turns


def _model(preset: str) -> Transformer:
    model = Transformer(PRESETS[preset])
    model.initialise(0)
    return model


def _batches(text: str, options: argparse.Namespace) -> list[torch.Tensor]:
    length = PRESETS[options.preset].context + 1
    data = torch.tensor(list(text.encode()), dtype=torch.int64)
    whole = data[: len(data) // length * length].view(-1, length)
    generator = torch.Generator().manual_seed(0)
    order = torch.randperm(len(whole), generator=generator)[: 16 * options.batch]
    return list(whole[order].split(options.batch))


def main(argv: list[str]) -> int:
    """Measure, print, and return 0 where the ratio reaches its target."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench trainer", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="three short turns")
    parser.add_argument("--preset", default="demo")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--mix", choices=("step", "sequence"), default="step")
    parser.add_argument("--turn", type=int, default=20, help="steps in one turn")
    parser.add_argument("--turns", type=int, default=15, help="turns that count, of each loop")
    options = parser.parse_args(argv)
    if options.quick:
        options.turn, options.turns = 5, 3
    with tempfile.TemporaryDirectory() as folder:
        turns = measure(Path(folder), options)
    tokens = options.batch * PRESETS[options.preset].context * options.turn
    pairs = [plain / our for our, plain in zip(turns.ours, turns.plains, strict=True)]
    figures = [
        Figure("this loop", "tokens/s", [tokens / seconds for seconds in turns.ours]),
        Figure("plain loop", "tokens/s", [tokens / seconds for seconds in turns.plains]),
        Figure("this / plain", "", pairs, target=TARGET, at_least=True),
    ]
    return table(f"training loop, {options.preset}, mix by {options.mix}", figures)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
