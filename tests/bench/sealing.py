"""What sealing costs the loop: a ``.bin`` of 1.2 GB is read back while 100 steps/s come in.

The delay is from a step's report to its visible ledger line. A step whose report falls between a
checkpoint's report and its seal counts as one during sealing; the trainer's own pause over the
save counts for nobody, since no step is reported in it. The second after a seal counts too: from
the third seal on an old checkpoint is deleted in it.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from statistics import quantiles

from tests.bench.figures import Figure, say, table
from tests.bench.watching import Tail, started, until
from tests.support.runs import Run, make_run, scripted
from tests.support.scripted_reports import pause

N_PARAMS = 98_698_752  # andrea-120m: 1,184,385,032 bytes
POLL_MS = 50.0
ABOVE_MS = 50.0
RATE = 100
AFTER = 1.0  # seconds


def main(words: list[str]) -> int:
    """1 where the target is missed."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench sealing")
    parser.add_argument("--quick", action="store_true", help="a tenth of the size, one seal")
    options = parser.parse_args(words)
    n_params, seals = (N_PARAMS // 10, 1) if options.quick else (N_PARAMS, 3)
    say(f"sealing: {seals} checkpoints of {(8 + 12 * n_params) / 1e9:.2f} GB ...")
    with tempfile.TemporaryDirectory(prefix="stepkeeper-bench-") as folder:
        return table("sealing", sealing(Path(folder) / "run", n_params, seals))


def sealing(folder: Path, n_params: int, seals: int) -> list[Figure]:
    """Delays at rest and while a checkpoint is read back and sealed, in ms; seconds to a seal."""
    every = 1500  # 15 s at this rate: room to write, read back, seal, and some rest
    trainer = scripted(rate=RATE, every=every, n_params=n_params, no_phases=True)
    run = make_run(folder, trainer, every=every)
    settings = run.path / "run.toml"
    text = settings.read_text()
    settings.write_text(text.replace("[checkpoint]\n", "[checkpoint]\nkeep_last = 2\n"))
    with started(run):
        until(lambda: run.last_step() >= 10, "the first steps", 30)
        ledger, appeared = Tail(run.path / "demo.loss.json"), dict[int, float]()
        told = Tail(run.path / "attempts/000001/reports.jsonl")
        sealed: dict[int, float] = {}
        deadline = time.perf_counter() + 120 * seals
        while time.perf_counter() < deadline:
            lines = ledger.new()
            now = time.perf_counter()
            appeared |= {int(line["step"]): now for line in lines}
            for step in range(every, every * (seals + 1), every):
                if step not in sealed and _seal_of(run, step).exists():
                    sealed[step] = now
            if len(sealed) == seals and now > max(sealed.values()) + 1.0:
                break
            pause(0.0005)
        reports = told.new()
    if len(sealed) < seals:
        raise AssertionError(f"only {len(sealed)} of {seals} checkpoints were sealed")
    return _figures(reports, appeared, sealed)


def _figures(
    reports: list[dict[str, object]], appeared: dict[int, float], sealed: dict[int, float]
) -> list[Figure]:
    written = {int(str(r["step"])): float(str(r["at"])) for r in reports if r["report"] == "step"}
    saved = {
        int(str(r["step"])): float(str(r["at"])) for r in reports if r["report"] == "checkpoint"
    }
    spans = [(saved[step], end + AFTER) for step, end in sealed.items() if step in saved]
    rest: list[float] = []
    during: list[float] = []
    for step, at in written.items():
        if step in appeared:
            inside = any(begin <= at <= end for begin, end in spans)
            (during if inside else rest).append(1000 * (appeared[step] - at))
    most = POLL_MS + ABOVE_MS
    return [
        Figure("report to ledger line, at rest", "ms", rest, None),
        Figure("report to ledger line, while sealing", "ms", during, most),
        Figure("  its 99th percentile", "ms", [quantiles(during, n=100)[98]], most),
        Figure("  its most", "ms", [max(during)], None),
        Figure("checkpoint report to seal", "s", [e - b - AFTER for b, e in spans], None),
    ]


def _seal_of(run: Run, step: int) -> Path:
    return run.path / f"checkpoints/step_{step:06d}.seal.json"
