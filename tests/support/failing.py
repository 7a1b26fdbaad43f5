"""Streams of outcomes that fail by chance, run through the gate's own fold."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

from supervisor.core.coherence.gate import WATCHING, Outcome, Rules, with_outcome

EVERY = 200  # steps between samples, of the run that collapsed
COLLAPSE, SHARE = 80_000, 0.36  # its step, and the share of samples that failed from there on
HEALTHY, SAMPLES = 0.02, 2000
WITHIN = 40  # samples

_OFF = replace(WATCHING, after=0, in_a_row=0, failing=0, cusum=0.0)
RULES = {
    "7 of 25": replace(_OFF, failing=7, window=25),
    "cusum 9": replace(_OFF, cusum=9.0),
    "all three": replace(WATCHING, after=0),
    "5 of 10": replace(_OFF, failing=5, window=10),
    "5 in a row": replace(_OFF, in_a_row=5),
}


def fires_at(rules: Rules, fails: Callable[[int], bool], samples: int) -> int | None:
    """The number, from 1, of the outcome with which an episode begins, or None."""
    outcomes: tuple[Outcome, ...] = ()
    for n in range(1, samples + 1):
        verdict = "fail" if fails(n) else "pass"
        last = outcomes[-1].sum if outcomes else 0.0
        one = Outcome(n * EVERY, 1, 1, verdict == "fail", 50.0, verdict, True, last, "", ())  # noqa: FBT003 - counts
        outcomes = with_outcome(outcomes[-rules.window :], one, rules)
        if outcomes[-1].firing:
            return n
    return None


def false_alarm(rules: Rules, seed: int, samples: int = SAMPLES) -> bool:
    """Whether the rules fire on healthy samples."""
    rng = random.Random(seed)  # noqa: S311 - chance that can be repeated
    return fires_at(rules, lambda _: rng.random() < HEALTHY, samples) is not None


def wait(rules: Rules, seed: int, most: int) -> int | None:
    """Samples from the collapse on until the rules fire; None where not within ``most``."""
    rng = random.Random(seed)  # noqa: S311 - chance that can be repeated
    before = COLLAPSE // EVERY

    def fails(n: int) -> bool:
        return rng.random() < (SHARE if n > before else HEALTHY)

    at = fires_at(rules, fails, before + most)
    return None if at is None else max(1, at - before)
