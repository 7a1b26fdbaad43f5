"""Which policy loses least: regret per step of each in five settings, 40 seeds, with intervals.

    python -m tests.bench policies [--json] [--quick] [--seeds 40] [--steps 20000] [--jobs 2]

``policies_world`` says what is simulated and what the true objective is, ``policies_play`` how
regret is defined, ``policies_players`` who plays. Each policy is what a ``policy.toml`` that names
nothing but its algorithm and the bounds gets.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Callable, Iterable
from multiprocessing import Pool
from statistics import fmean, stdev
from typing import NamedTuple

from supervisor.config.policy_file import POLICY_SCHEMA, _policy, parse_policy
from supervisor.core.policy import Algorithm, Policy
from tests.bench.figures import say
from tests.bench.policies_play import Outcome, play
from tests.bench.policies_players import Core, Player, RawUcb1, clamped
from tests.bench.policies_world import SETTINGS, a_world

CLAMPED, RAW = "clamped", "raw ucb1"
TUNED = "from 1000 on"
ENOUGH = 4  # settings of the five in which the default is the lowest, or within its interval


class Cell(NamedTuple):
    """One player in one setting: regret per step with its 95 % interval, and bounds broken."""

    mean: float
    half: float
    outside: float
    worst: float


Table = dict[str, dict[str, Cell]]  # by setting, then by player


def policy_of(algorithm: str) -> Policy:
    """What a file with this algorithm alone says; empty: with none, which is the default."""
    line = f'algorithm = "{algorithm}"\n' if algorithm else ""
    text = f'schema = "{POLICY_SCHEMA}"\n{line}[arms.any]\n'
    return _policy(parse_policy(text.encode(), "policy.toml"), 1, "0" * 32)


def player(name: str, seed: int) -> Player:
    """The player of this name."""
    if name == RAW:
        return RawUcb1(seed)
    if name == CLAMPED:
        return Core(policy_of(""), seed, clamped)
    return Core(policy_of(name), seed)


def one(job: tuple[str, str, int, int]) -> Outcome:
    """One run: setting, player, seed, steps."""
    setting, name, seed, steps = job
    return play(player(name, seed), a_world(setting, seed, steps), seed)


def measure(
    settings: Iterable[str],
    players: Iterable[str],
    seeds: range,
    steps: int,
    outcomes: Callable[[list[tuple[str, str, int, int]]], list[Outcome]],
) -> Table:
    """Every player in every setting, with the same worlds for all."""
    cells = [(setting, name) for setting in settings for name in players]
    jobs = [(setting, name, seed, steps) for setting, name in cells for seed in seeds]
    found = outcomes(jobs)
    table: Table = {}
    for at, (setting, name) in enumerate(cells):
        mine = found[at * len(seeds) : (at + 1) * len(seeds)]
        table.setdefault(setting, {})[name] = _cell(mine)
    return table


def main(words: list[str]) -> int:
    """Measure, print the table; 1 where the default is not the policy that the rule names."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench policies")
    parser.add_argument("--quick", action="store_true", help="6 seeds")
    parser.add_argument("--json", action="store_true", help="the table as one JSON object")
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args(words)
    count = 6 if options.quick else max(2, options.seeds)
    players = (*(str(algorithm) for algorithm in Algorithm), CLAMPED, RAW)
    began = time.perf_counter()

    def outcomes(jobs: list[tuple[str, str, int, int]]) -> list[Outcome]:
        with Pool(options.jobs) as pool:
            found = []
            for done, outcome in enumerate(pool.imap(one, jobs, chunksize=4), 1):
                found.append(outcome)
                _progress(done, len(jobs), time.perf_counter() - began)
            return found

    table = measure(SETTINGS, players, range(1, count + 1), options.steps, outcomes)
    good = reached(table)
    default = str(policy_of("").algorithm)
    if options.json:
        facts = {
            "seeds": count,
            "steps": options.steps,
            "default": default,
            "reached": good,
            "regret": {s: {p: c._asdict() for p, c in row.items()} for s, row in table.items()},
        }
        say(json.dumps(facts))
    else:
        say(text_of(table, count, options.steps))
    return 0 if good[default] >= ENOUGH else 1


def reached(table: Table) -> dict[str, int]:
    """In how many settings each policy has the lowest mean regret or is within its interval."""
    return {
        name: sum(row[name].mean <= _most(row) for row in table.values())
        for name in (str(algorithm) for algorithm in Algorithm)
        if all(name in row for row in table.values())
    }


def text_of(table: Table, seeds: int, steps: int) -> str:
    """The table as it is printed: lower is better, * marks the lowest and what is within it."""
    default = str(policy_of("").algorithm)
    players = list(next(iter(table.values())))
    lines = [
        "",
        "policies: regret per step against the best fixed mix within the bounds, in parts of what",
        f"the best arm earns; {seeds} seeds of {steps:,} steps, 95 % intervals",
        f"what was tuned of the policies was tuned on other seeds ({TUNED})",
        "* the lowest of the policies, or within its interval",
        f"{CLAMPED}: the default ({default}) without bounds, then clamped and divided ten times",
        f"{RAW}: rewards in the hundreds, not normalised",
        "",
        _line("", list(table)),
    ]
    for name in players:
        marks = ["*" if _marked(row, name) else " " for row in table.values()]
        cells = [row[name] for row in table.values()]
        shown = [f"{c.mean:.4f} ±{c.half:.4f}{m}" for c, m in zip(cells, marks, strict=True)]
        lines.append(_line(f"{name} (default)" if name == default else name, shown))
    lines += ["", _line("steps with a bound broken", list(table))]
    for name in players:
        cells = [row[name] for row in table.values()]
        shown = [f"{c.outside:.1%}, by {c.worst:.3f}" if c.outside else "-" for c in cells]
        lines.append(_line(name, shown))
    good = reached(table)
    lines += ["", "settings of five in which a policy is the lowest or within its interval:"]
    lines.append("  " + ", ".join(f"{name} {count}" for name, count in good.items()))
    verdict = "is" if good[default] >= ENOUGH else "IS NOT"
    lines.append(f"the default, {default}, {verdict} so in at least {ENOUGH}")
    return "\n".join(lines)


def _cell(outcomes: list[Outcome]) -> Cell:
    regrets = [outcome.regret for outcome in outcomes]
    n = len(regrets)
    quantile = 1.96 + 2.4 / (n - 1)  # Student's, close enough from 6 on
    return Cell(
        fmean(regrets),
        quantile * stdev(regrets) / math.sqrt(n),
        fmean(outcome.outside for outcome in outcomes),
        max(outcome.worst for outcome in outcomes),
    )


def _most(row: dict[str, Cell]) -> float:
    """The end of the interval of the policy with the lowest mean."""
    lowest = min((row[a] for a in Algorithm if a in row), key=lambda cell: cell.mean)
    return lowest.mean + lowest.half


def _marked(row: dict[str, Cell], name: str) -> bool:
    return name in tuple(Algorithm) and row[name].mean <= _most(row)


def _line(first: str, cells: list[str]) -> str:
    return f"{first:<26}" + "".join(f"{cell:>18}" for cell in cells)


def _progress(done: int, of: int, seconds: float) -> None:
    """A bar on a terminal; elsewhere a line for each tenth."""
    width = 40 * done // of
    text = f"[{'#' * width}{'.' * (40 - width)}] {done}/{of} runs, {seconds:.0f} s"
    if sys.stderr.isatty():
        sys.stderr.write("\r" + text + ("\n" if done == of else ""))
    elif 10 * done // of > 10 * (done - 1) // of:
        sys.stderr.write(text + "\n")
    sys.stderr.flush()
