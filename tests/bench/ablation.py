"""Held-out loss of each policy against static shares, on real text: same tokens, paired by seed.

``python -m tests.bench ablation`` makes the text from Debian's packages, keeps one run for each
policy and seed by the real supervisor, two at a time, and prints the table whichever way it falls.
Interrupted, it ends all it started; the next call goes on, and runs no finished life again.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shlex
import sys
import time
from pathlib import Path

from tests.bench.ablation_life import STATIC, Life, terms
from tests.bench.ablation_table import results, tabulated
from tests.bench.corpora import CorpusError, build
from tests.bench.figures import say
from tests.support.scripted_reports import pause
from trainer.contract.durable import replace_file

INTERRUPTED = 130
POLICIES = ("static", "ucb1", "exp3s", "ducb", "thompson")


def main(words: list[str]) -> int:
    """0 where every life asked for is in the table, 1 where one is missing, 2 where none can be."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench ablation", description=__doc__)
    parser.add_argument("--steps", type=int, default=1200, metavar="N", help="of each life")
    parser.add_argument("--batch", type=int, default=16, metavar="N", help="sequences a step")
    parser.add_argument("--seeds", type=int, default=3, metavar="N", help="lives of each policy")
    parser.add_argument("--policies", nargs="+", choices=POLICIES, default=POLICIES)
    parser.add_argument("--together", type=int, default=2, metavar="N", help="lives at a time")
    parser.add_argument("--data", type=Path, default=_cache(), metavar="DIR", help="text and runs")
    parser.add_argument("--out", type=Path, metavar="FILE", help="results: FILE.txt and FILE.json")
    parser.add_argument("--again", action="store_true", help="rerun lives of other decisions")
    parser.add_argument("--quick", action="store_true", help="120 steps of one seed")
    options = parser.parse_args(words)
    steps, seeds = (120, 1) if options.quick else (options.steps, options.seeds)
    try:
        arms = build(options.data)
    except (CorpusError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    common = terms(steps, options.batch, arms)
    folder = options.data / "lives"
    policies = [STATIC, *(name for name in options.policies if name != STATIC)]
    lives = [Life(folder, p, seed, common) for seed in range(1, seeds + 1) for p in policies]
    if options.again:
        for life in lives:
            if life.record.exists() and not life.good():
                life.forget()
    try:
        keep([life for life in lives if not life.record.exists()], options.together)
    except KeyboardInterrupt:
        sys.stderr.write("\ninterrupted; the same command goes on from here\n")
        return INTERRUPTED
    good = [life for life in lives if life.good()]
    found = results(
        [(life.policy, life.seed, json.loads(life.record.read_bytes())) for life in good],
        [_missing(life) for life in lives if life not in good],
        common,
        arms,
    )
    command = _command(words)
    text = f"$ {command}\n\n{tabulated(found)}"
    say(text)
    if options.out:
        record = json.dumps({"command": command, **found}, indent=1, allow_nan=False)
        options.out.parent.mkdir(parents=True, exist_ok=True)
        replace_file(options.out.with_suffix(".txt"), text.encode(), 0o644)
        replace_file(options.out.with_suffix(".json"), record.encode() + b"\n", 0o644)
    return 0 if len(good) == len(lives) else 1


def _command(words: list[str]) -> str:
    """What was asked, without the places of this machine."""
    kept: list[str] = []
    skip = False
    for word in words:
        place = word.partition("=")[0] in {"--data", "--out"}
        if not place and not skip:
            kept.append(word)
        skip = place and "=" not in word
    return shlex.join(["python", "-m", "tests.bench", "ablation", *kept])


def _missing(life: Life) -> str:
    """Its name; of one that is over, why it does not count."""
    decided = "ran with code that decided otherwise than the present: --again runs it anew"
    return f"{life.name}: {decided}" if life.record.exists() else life.name


def keep(lives: list[Life], together: int) -> None:
    """Run these; one that fails is told and left out. However this ends, none of them runs on."""
    waiting = list(lives)
    running: list[Life] = []
    progress = Progress(lives)
    with contextlib.ExitStack() as ending:
        while waiting or running:
            while waiting and len(running) < together:
                life = waiting.pop(0)
                ending.callback(life.finish)
                running.append(life)
                life.begin()
            for life in list(running):
                try:
                    if life.over():
                        running.remove(life)
                except ValueError as error:
                    sys.stderr.write(f"\n{error}\n")
                    running.remove(life)
            progress.show(", ".join(life.name for life in running))
            pause(0.5)


class Progress:
    """Steps of all lives on one line of a terminal; elsewhere a line every minute."""

    def __init__(self, lives: list[Life]) -> None:
        self._lives = lives
        self._whole = sum(life.terms.steps for life in lives)
        self._first = self._steps()
        self._began = time.perf_counter()
        self._told = -60.0

    def _steps(self) -> int:
        return sum(life.steps() for life in self._lives)

    def show(self, what: str) -> None:
        """How far all of it is, and how long the rest takes at the pace since the start."""
        spent = time.perf_counter() - self._began
        live = sys.stderr.isatty()
        if spent < self._told + (0.5 if live else 60.0):
            return
        self._told = spent
        steps = self._steps()
        left = ""
        if steps > self._first:
            seconds = (self._whole - steps) * spent / (steps - self._first)
            left = f", {seconds / 60:.0f} min left"
        part = steps / self._whole
        bar = "#" * round(30 * part) + "." * (30 - round(30 * part))
        line = f"[{bar}] {steps:,} of {self._whole:,} steps{left}: {what or 'done'}"
        sys.stderr.write(f"\r{line}\x1b[K" if live else f"{line}\n")
        sys.stderr.flush()


def _cache() -> Path:
    root = os.environ.get("XDG_CACHE_HOME")  # noqa: TID251 - a program's own cache
    return (Path(root) if root else Path.home() / ".cache") / "stepkeeper" / "ablation"
