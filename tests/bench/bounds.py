"""How long a projection onto floors and caps takes, for few arms and for many."""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable

from supervisor.core.bounds import project, project_euclidean
from supervisor.core.prices import prices
from tests.bench.figures import Figure, say, table
from tests.support.projections import Case, a_case

TARGET = 20.0  # microseconds of the KL projection, which every decision makes, at 16 arms


def main(words: list[str]) -> int:
    """Project the same hundred cases of each size again and again; 1 where the target is missed."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench bounds")
    parser.add_argument("--quick", action="store_true", help="a fifth of the rounds")
    rounds = 3 if parser.parse_args(words).quick else 15
    say("bounds: 100 random cases of each number of arms, microseconds for one ...")
    figures = []
    for count in (4, 16, 100, 1000):
        rng = random.Random(count)  # noqa: S311 - chance that can be repeated
        cases = [a_case(rng, count, "plain") for _ in range(100)]
        for name, one in (
            ("KL", lambda case: project(*case)),
            ("Euclidean", lambda case: project_euclidean(*case)),
            ("KL with prices", lambda case: prices(*case, case.values)),
        ):
            if count == 1000 and name == "KL with prices":
                continue  # a plan makes one
            target = TARGET if (name, count) == ("KL", 16) else None
            seen = [_timed(one, cases) for _ in range(rounds)]
            figures.append(Figure(f"{name}, {count} arms", "us", seen, target))
    return table("bounds", figures)


def _timed(one: Callable[[Case], object], cases: list[Case]) -> float:
    began = time.perf_counter()
    for case in cases:
        one(case)
    return 1e6 * (time.perf_counter() - began) / len(cases)
