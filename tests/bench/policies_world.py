"""Worlds to learn in: what each source truly adds at each step, and the losses that it shows.

**The true objective** is the learner's progress, summed over steps. A step on arm k adds gain_k(t),
in parts of the best arm's at its best: what the step lowers the loss on held-out text of that kind
by. No policy sees it. It sees, as it does of a real trainer, the mean loss per arm and phase:

    honest source      loss_k falls by ``NATS`` gain_k for each pull, and by ``SPILL`` of what any
                       other pull gains, with batch noise of ``NOISE`` nats (each arm its own)
    list-like source   trivially easy: its loss falls from 9 to 0.5 within some hundred pulls,
                       fifty times faster than the best honest one's, and stays there without noise
                       to speak of; its gain is 0 from the first pull on

Gains do not depend on what was pulled: no source is used up, so that the best fixed mix within the
bounds is the solution of a linear program and regret is exact. What a policy earns is counted by
the shares that it ordered, not by the arms that were drawn, which leaves less to chance.

    stationary   gains are constant
    drifting     each arm's gain moves in straight lines between values drawn every 4,000 steps
    hacking      stationary, but the three list-like sources are as described
    sleeping     stationary; six sources go and come back at times of their own, the best among them
    pivot        stationary; amid the run floors and caps change and the statistics start anew
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from supervisor.core.policy import Arm

SETTINGS = ("stationary", "drifting", "hacking", "sleeping", "pivot")
LIST_LIKE = ("repo-docs", "repo-docstrings", "unfirehose-chat")
NAMES = (
    "hermes3-general",
    "hermes3-creative",
    "hermes3-roleplay",
    "chat",
    "smoltalk",
    "oasst",
    "gutenberg",
    "dictionary",
    "synthetic-chat",
    *LIST_LIKE,
    "repo-commits",
    "irc",
    "unweapon",
    "sixteenth",
)
START, EASY = 9.04, 0.5  # nats: chance over a vocabulary of 8,449, and a list once it is known
NATS = 0.001  # of loss per pull where the gain is 1
SPILL = 0.02
NOISE = (0.05, 0.15)  # standard deviation of one pull's loss
EASY_PULLS = 150.0  # in which what is left of an easy loss falls to a third
KNOT = 4_000
Floats = npt.NDArray[np.float64]


def arms(floors: dict[str, float], caps: dict[str, float], cap: float) -> tuple[Arm, ...]:
    """The sixteen arms with these bounds, ``cap`` where none is given."""
    return tuple(Arm(name, floors.get(name, 0.0), caps.get(name, cap)) for name in NAMES)


CHATTY = arms(
    {"hermes3-general": 0.1, "chat": 0.1, "dictionary": 0.05, "gutenberg": 0.05},
    dict.fromkeys(LIST_LIKE, 0.1),
    0.3,
)
TOOLED = arms(
    {"repo-docstrings": 0.1, "repo-docs": 0.05, "repo-commits": 0.1, "chat": 0.05},
    {"gutenberg": 0.1, "hermes3-roleplay": 0.05},
    0.25,
)


@dataclass(frozen=True, slots=True)
class World:
    """One draw of a setting. Steps count from 0; arms are in the order of ``NAMES``.

    ``earned`` is of shape (steps + 1, 16): the sum of gains before each step. ``cuts`` are steps at
    which something changes, the first 0 and the last the number of steps; ``live`` and ``bounds``
    say for each stretch between two of them who is there and what binds.
    """

    earned: Floats
    noise: Floats
    easy: npt.NDArray[np.bool_]
    cuts: tuple[int, ...]
    live: tuple[frozenset[str], ...]
    bounds: tuple[tuple[Arm, ...], ...]

    @property
    def steps(self) -> int:
        """How many steps the run has."""
        return self.cuts[-1]


def a_world(setting: str, seed: int, steps: int) -> World:
    """The world that this seed draws."""
    rng = random.Random(f"{setting}/{seed}")  # noqa: S311 - chance that can be repeated
    gains = [rng.uniform(0.0, 0.9) for _ in NAMES]
    gains[rng.randrange(len(NAMES))] = 1.0
    easy = np.zeros(len(NAMES), dtype=np.bool_)
    cuts, live, bounds = (0, steps), [frozenset(NAMES)], [CHATTY]
    if setting == "hacking":
        easy[[NAMES.index(name) for name in LIST_LIKE]] = True
        gains = [0.0 if e else g for g, e in zip(gains, easy, strict=True)]
        honest = [arm for arm in range(len(NAMES)) if not easy[arm]]
        gains[rng.choice(honest)] = 1.0
    elif setting == "sleeping":
        cuts, live = _sleepers(rng, gains, steps)
        bounds = [CHATTY] * len(live)
    elif setting == "pivot":
        cuts, live, bounds = (0, steps // 2, steps), live * 2, [CHATTY, TOOLED]
    rates = np.tile(np.array(gains), (steps, 1))
    if setting == "drifting":
        rates = _drift(rng, steps)
    earned = np.vstack([np.zeros(len(NAMES)), np.cumsum(rates, axis=0)])
    noise = np.array([rng.uniform(*NOISE) for _ in NAMES])
    return World(earned, noise, easy, cuts, tuple(live), tuple(bounds))


def _drift(rng: random.Random, steps: int) -> Floats:
    knots = list(range(0, steps + KNOT, KNOT))
    values = [[rng.uniform(0.0, 1.0) for _ in NAMES] for _ in knots]
    at = np.arange(steps)
    columns = [np.interp(at, knots, [value[arm] for value in values]) for arm in range(len(NAMES))]
    return np.stack(columns, axis=1)


def _sleepers(
    rng: random.Random, gains: list[float], steps: int
) -> tuple[tuple[int, ...], list[frozenset[str]]]:
    """Six sources, each away twice: the best, and five by chance."""
    ranked = sorted(range(len(NAMES)), key=lambda arm: -gains[arm])
    asleep = [ranked[0], *rng.sample(ranked[1:], 5)]
    away: list[tuple[int, int, str]] = []
    for arm in asleep:
        marks = sorted(rng.randrange(1, steps) for _ in range(4))
        away += [(marks[0], marks[1], NAMES[arm]), (marks[2], marks[3], NAMES[arm])]
    cuts = tuple(sorted({0, steps, *(mark for begin, end, _ in away for mark in (begin, end))}))
    live = [
        frozenset(NAMES) - {name for begin, end, name in away if begin <= start < end}
        for start, _ in pairwise(cuts)
    ]
    return cuts, live
