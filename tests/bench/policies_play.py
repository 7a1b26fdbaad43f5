"""One player in one world: what it earns each step, held against the best fixed mix.

Regret per step is (what the best fixed mix within the bounds earns, less what the player's shares
earn) / steps. The mix is chosen knowing all gains, one for each stretch in which the bounds and the
sources stay the same: for the whole run where nothing changes (where gains drift, too, so that a
player who follows them may earn more than it, and its regret be below 0), for each policy's period
where there is a pivot, and between two comings or goings where sources sleep, since no mix is to be
blamed for a source that is not there.

A phase in which a source goes ends with the shares of the others, as a trainer draws again when a
pull fails; a phase in which a pivot falls is given up without a report.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from supervisor.core.prices import best_mix
from tests.bench.policies_players import Player
from tests.bench.policies_world import EASY, EASY_PULLS, NAMES, NATS, SPILL, START, Floats, World
from trainer.contract.wire import ArmResult, Phase, PhaseOrder, Step


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run came to; ``pulls`` is of shape (16,).

    ``outside`` is the part of its steps in which a bound was broken by more than rounding, and
    ``worst`` by how much share at most. Where a source goes or comes back amid a phase, every
    policy breaks bounds until the next one.
    """

    regret: float
    outside: float
    worst: float
    pulls: tuple[int, ...]


@dataclass
class _Learner:
    """The losses as a trainer would see them, and the chance of its draws."""

    world: World
    rng: random.Random
    pulled: Floats = field(default_factory=lambda: np.zeros(len(NAMES)))
    fallen: Floats = field(default_factory=lambda: np.zeros(len(NAMES)))

    def losses(self, gains: Floats, pulls: Floats) -> list[float | None]:
        """The mean loss of each arm's pulls, None without any; and learn from them.

        Each pull gains what its arm's steps gained on average.
        """
        own = NATS * gains * pulls
        spilt = SPILL * (own.sum() - own)
        honest = START - self.fallen - own / 2 - spilt / 2
        easy = EASY + (START - EASY) * np.exp(-(self.pulled + pulls / 2) / EASY_PULLS)
        level = np.where(self.world.easy, easy, honest)
        self.pulled += pulls
        self.fallen += own + spilt
        spread = np.where(self.world.easy, 0.01, self.world.noise)
        return [
            float(level[arm] + spread[arm] / count**0.5 * self.rng.gauss(0.0, 1.0))
            if count
            else None
            for arm, count in enumerate(pulls)
        ]


def play(player: Player, world: World, seed: int) -> Outcome:
    """Run the player through the world; the same arguments give the same outcome."""
    learner = _Learner(world, random.Random(f"learner/{seed}"))  # noqa: S311 - can be repeated
    tally = _Tally(world)
    at, stretch = 0, 0
    player.begin(world.bounds[0], world.live[0], 0)
    while at < world.steps:
        order = player.next_phase()
        end = at + order.steps
        pulls, gains = np.zeros(len(NAMES)), np.zeros(len(NAMES))
        failed = np.zeros(len(NAMES))
        first, pivoted = at, False
        while at < end and at < world.steps and not pivoted:
            until = min(end, world.cuts[stretch + 1])
            shares = _served(order, world.live[stretch])
            drawn = learner.rng.choices(range(len(NAMES)), shares.tolist(), k=until - at)
            pulls += np.bincount(drawn, minlength=len(NAMES))
            gained = world.earned[until] - world.earned[at]
            gains += gained
            tally.add(shares, gained, until - at, stretch)
            failed += _missed(order, world.live[stretch], until - at)
            at = until
            if at == world.cuts[stretch + 1] and at < world.steps:
                stretch += 1
                pivoted = world.bounds[stretch] != world.bounds[stretch - 1]
        if pivoted:
            learner.losses(gains / (at - first), pulls)
            player.begin(world.bounds[stretch], world.live[stretch], at)
            continue
        report, steps = _reported(learner, order, (first, at), (pulls, failed, gains))
        player.learn(report, steps)
        player.sources(world.live[stretch], at)
    return tally.outcome()


def _reported(
    learner: _Learner, order: PhaseOrder, span: tuple[int, int], what: tuple[Floats, Floats, Floats]
) -> tuple[Phase, list[Step]]:
    """The report of a phase, and all its steps as one that tells of their arms together."""
    first, end = span
    pulls, failed, gains = what
    losses = learner.losses(gains / (end - first), pulls)
    results = tuple(
        ArmResult(name, int(pulls[arm]), int(failed[arm]), losses[arm])
        for arm, name in enumerate(NAMES)
        if pulls[arm] or failed[arm]
    )
    report = Phase(1, 1.0, order.phase, first + 1, end, False, order.weights, results)  # noqa: FBT003 - a report
    text = " ".join(f"{name}={int(pulls[arm])}" for arm, name in enumerate(NAMES) if pulls[arm])
    return report, [Step(1, 1.0, end, None, "", text, 0.0, "", order.phase, ())]


def _served(order: PhaseOrder, live: frozenset[str]) -> Floats:
    """The ordered shares without arms that are gone, of shape (16,); even ones if none is left."""
    ordered = dict(order.weights)
    shares = np.array([ordered.get(name, 0.0) if name in live else 0.0 for name in NAMES])
    if not shares.sum():
        shares = np.array([float(name in live) for name in NAMES])
    return shares / shares.sum()


def _missed(order: PhaseOrder, live: frozenset[str], steps: int) -> Floats:
    ordered = dict(order.weights)
    return np.array(
        [0 if name in live else round(ordered.get(name, 0.0) * steps) for name in NAMES]
    )


class _Tally:
    """What was earned, and how far out of bounds."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._earned = 0.0
        self._outside = 0
        self._worst = 0.0
        self._pulls = np.zeros(len(NAMES))
        stretches = range(len(world.live))
        self._low = [_bounds(world, s, "floor") for s in stretches]
        self._high = [_bounds(world, s, "cap") for s in stretches]

    def add(self, shares: Floats, gained: Floats, steps: int, stretch: int) -> None:
        """Steps with these shares, in which the arms gained this in all."""
        self._earned += float(shares @ gained)
        self._pulls += shares * steps
        low, high = self._low[stretch], self._high[stretch]
        out = float(max((low - shares).max(), (shares - high).max()))
        if out > 1e-6:
            self._outside += steps
            self._worst = max(self._worst, out)

    def outcome(self) -> Outcome:
        """Regret per step, and the rest."""
        world = self._world
        best = 0.0
        periods = list(pairwise(world.cuts))
        for stretch, (begin, end) in enumerate(periods):
            gains = world.earned[end] - world.earned[begin]
            low, high = self._low[stretch], self._high[stretch]
            live = [arm for arm, name in enumerate(NAMES) if name in world.live[stretch]]
            mix = best_mix(gains[live].tolist(), low[live].tolist(), high[live].tolist())
            best += float(np.array(mix) @ gains[live])
        steps = world.steps
        pulls = tuple(round(value) for value in self._pulls)
        return Outcome((best - self._earned) / steps, self._outside / steps, self._worst, pulls)


def _bounds(world: World, stretch: int, which: str) -> Floats:
    live = world.live[stretch]
    arms = world.bounds[stretch]
    return np.array([getattr(arm, which) if arm.name in live else 0.0 for arm in arms])
