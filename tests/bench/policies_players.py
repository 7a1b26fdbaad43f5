"""Who plays: the policies of the core as they are, and two rivals that do what others do.

A player decides phases, two ahead, learns from their reports, and is told who is there.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from supervisor.core.bandit import BanditState, count_steps, finish_phase, fresh, reconcile
from supervisor.core.bounds import project
from supervisor.core.policy import Arm, Policy
from tests.support.projections import Case, clamped_and_divided
from trainer.contract.wire import Phase, PhaseOrder, Step

Live = frozenset[str]
RAW_SCALE = 2e4  # of nats: brings the best arms to the rewards of 340 to 453 of a first run


class Player(Protocol):
    """What the play asks of a player."""

    def begin(self, arms: tuple[Arm, ...], live: Live, step: int) -> None:
        """Start under these bounds with nothing known."""

    def sources(self, live: Live, step: int) -> None:
        """Learn who is there now."""

    def next_phase(self) -> PhaseOrder:
        """The phase that runs next, its shares those that the trainer draws by."""

    def learn(self, report: Phase, steps: Sequence[Step]) -> None:
        """Learn from the phase that ended."""


@dataclass
class Core:
    """A policy of the core. ``spoil``, if given, stands between its weights and the trainer."""

    policy: Policy
    seed: int
    spoil: Callable[[Sequence[float], Sequence[Arm]], list[float]] | None = None
    number: int = 0
    bounds: tuple[Arm, ...] = ()
    state: BanditState | None = field(default=None, repr=False)

    def begin(self, arms: tuple[Arm, ...], live: Live, step: int) -> None:
        """As an installed policy begins: an empty state, numbered on."""
        self.number += 1
        self.bounds = arms
        kept = tuple(Arm(arm.name) for arm in arms) if self.spoil else arms
        self.policy = replace(self.policy, number=self.number, arms=kept)
        seed = self.seed + self.number
        self.state = fresh(self.policy, live, seed, self.state, step)

    def sources(self, live: Live, step: int) -> None:
        """Reconcile, as the supervisor does when a source goes or comes back."""
        self.state, _ = reconcile(self._known, self.policy, live, step)

    def next_phase(self) -> PhaseOrder:
        """The first of those decided and not finished."""
        order = self._known.phases[0]
        if self.spoil is None:
            return order
        bounds = {arm.name: arm for arm in self.bounds}
        names = [name for name, _ in order.weights]
        shares = self.spoil([share for _, share in order.weights], [bounds[n] for n in names])
        return order._replace(weights=tuple(zip(names, shares, strict=True)))

    def learn(self, report: Phase, steps: Sequence[Step]) -> None:
        """Count, learn, decide."""
        self.state = finish_phase(count_steps(self._known, steps), self.policy, report)

    @property
    def _known(self) -> BanditState:
        if self.state is None:
            raise ValueError("cannot play: the player has not begun")
        return self.state


def clamped(shares: Sequence[float], arms: Sequence[Arm]) -> list[float]:
    """Clamp to the bounds and divide by the sum, ten times, in place of projecting."""
    return clamped_and_divided(
        Case(list(shares), [arm.floor for arm in arms], [arm.cap for arm in arms])
    )


@dataclass
class RawUcb1:
    """UCB1 on raw rewards: smoothed loss minus loss, in the unit that a first run reported.

    Its mean, bonus and choice are those of the textbook; the arm of the highest score gets all that
    the bounds leave. Its phases are as long and as far ahead as everybody's.
    """

    seed: int
    scale: float = RAW_SCALE
    arms: tuple[Arm, ...] = ()
    live: Live = frozenset()
    count: dict[str, int] = field(default_factory=dict)
    total: dict[str, float] = field(default_factory=dict)
    loss: dict[str, float] = field(default_factory=dict)
    phases: list[PhaseOrder] = field(default_factory=list)
    decided: int = 0

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)  # noqa: S311 - chance that can be repeated

    def begin(self, arms: tuple[Arm, ...], live: Live, step: int) -> None:
        """Start with nothing known; when does not matter."""
        del step
        self.arms, self.live = arms, live
        for known in (self.count, self.total, self.loss, self.phases):
            known.clear()
        self._fill()

    def sources(self, live: Live, step: int) -> None:
        """Forget who left; what is decided is decided anew."""
        del step
        if live == self.live:
            return
        for name in self.live - live:
            for known in (self.count, self.total, self.loss):
                known.pop(name, None)
        self.live = live
        self.phases.clear()
        self._fill()

    def next_phase(self) -> PhaseOrder:
        """The first of the two that are decided."""
        return self.phases[0]

    def learn(self, report: Phase, steps: Sequence[Step]) -> None:
        """Take each arm's raw loss reduction as its reward."""
        del steps
        self.phases.pop(0)
        for result in report.arms:
            if result.loss is None:
                continue
            before = self.loss.setdefault(result.arm, result.loss)
            self.reward(result.arm, (before - result.loss) * self.scale, result.pulls)
            self.loss[result.arm] = before + 0.1 * (result.loss - before)
        self._fill()

    def reward(self, arm: str, reward: float, pulls: int = 1) -> None:
        """Count pulls that each earned this."""
        self.count[arm] = self.count.get(arm, 0) + pulls
        self.total[arm] = self.total.get(arm, 0.0) + pulls * reward

    def best(self) -> str:
        """The arm of the highest score among those that are there."""
        log = math.log(max(sum(self.count.values()), 1))
        scores = {
            arm.name: self.total[arm.name] / n + math.sqrt(2.0 * log / n)
            if (n := self.count.get(arm.name, 0))
            else math.inf
            for arm in self.arms
            if arm.name in self.live
        }
        return max(scores, key=scores.__getitem__)

    def _fill(self) -> None:
        there = [arm for arm in self.arms if arm.name in self.live]
        while len(self.phases) < 2:
            self.decided += 1
            best = self.best()
            weights = [float(arm.name == best) for arm in there]
            shares = project(weights, [a.floor for a in there], [a.cap for a in there])
            names = [arm.name for arm in there]
            steps = self.rng.randint(7, 42)
            pairs = tuple(zip(names, shares, strict=True))
            self.phases.append(PhaseOrder(self.decided, steps, pairs))
