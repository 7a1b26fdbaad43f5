"""A bandit over sixteen arms, the phases that it is told of, and a slow UCB1 to compare it with."""

from __future__ import annotations

import math
from dataclasses import replace

from supervisor.core.bandit import BanditState, decide_phase, finish_phase
from supervisor.core.policy import Algorithm, Arm, Policy, Unit
from trainer.contract.wire import ArmResult, Phase

NAMES = tuple(f"arm{number:02d}" for number in range(16))
UCB1 = Policy(1, "d", Algorithm.UCB1, Unit.SHARE, tuple(Arm(name) for name in NAMES))
LIVE = frozenset(NAMES)


def told(number: int, results: tuple[ArmResult, ...]) -> Phase:
    """The report of a phase with these results."""
    return Phase(1, 1.0, number, 1, 20, False, (), results)  # noqa: FBT003 - a report


def phase(number: int, losses: dict[str, float | None], pulls: int = 5, failed: int = 0) -> Phase:
    """A finished phase in which each of these arms was pulled."""
    arms = tuple(
        ArmResult(name, pulls if loss is not None else 0, failed, loss)
        for name, loss in losses.items()
    )
    return told(number, arms)


def learn(state: BanditState, policy: Policy, rewards: dict[str, list[float]]) -> BanditState:
    """Phases after which each arm has these raw rewards: its smoothed loss falls by each."""
    losses = {arm.name: arm.loss for arm in state.arms}
    for number in range(max(len(values) for values in rewards.values())):
        due = {n: v[number] for n, v in rewards.items() if number < len(v)}
        given = {name: (losses[name] or 1000.0) - value for name, value in due.items()}
        state = finish_phase(state, policy, phase(state.finished + 1, given))
        losses = {arm.name: arm.loss for arm in state.arms}
    return state


def scores(state: BanditState, policy: Policy) -> dict[str, float]:
    """What the next decision ranks each arm by."""
    return dict(decide_phase(replace(state, phases=()), policy)[1].proposal.scores)


class Reference:
    """UCB1 with scaled learning progress, written out slowly from its description."""

    def __init__(self, alpha: float) -> None:
        self.alpha = alpha
        self.loss: dict[str, float] = {}
        self.window: list[float] = []
        self.rewards: dict[str, list[tuple[int, float]]] = {}
        self.ema: dict[str, float] = {}

    def learn(self, report: Phase) -> None:
        """Take a finished phase in."""
        served = [result for result in report.arms if result.loss is not None]
        raw = {r.arm: self.loss[r.arm] - (r.loss or 0.0) for r in served if r.arm in self.loss}
        for name in NAMES:  # the window is filled in the order of the arms
            if name in raw:
                self.window.append(raw[name])
        self.window = self.window[-128:]
        ordered = sorted(self.window)
        for result in served:
            name = result.arm
            if name in raw:
                last = len(ordered) - 1
                low, high = ordered[round(0.2 * last)], ordered[round(0.8 * last)]
                reward = (raw[name] - low) / (high - low) if high > low else 0.5
                if high == low and raw[name] != low:
                    reward = 1.0 if raw[name] > high else 0.0
                reward = min(1.0, max(0.0, reward))
                before = self.rewards.setdefault(name, [])
                smoothed = self.ema.get(name, reward)
                self.ema[name] = smoothed + self.alpha * (reward - smoothed)
                before.append((result.pulls, reward))
            loss = result.loss or 0.0
            known = self.loss.get(name, loss)
            self.loss[name] = known + self.alpha * (loss - known)

    def scores(self, exploration: float) -> dict[str, float]:
        """The score of each arm; infinite before its first reward."""
        total = sum(pulls for values in self.rewards.values() for pulls, _ in values)
        found = {}
        for name in NAMES:
            values = self.rewards.get(name, [])
            n = sum(pulls for pulls, _ in values)
            if not n:
                found[name] = math.inf
                continue
            mean = sum(pulls * reward for pulls, reward in values) / n
            found[name] = mean + exploration * math.sqrt(math.log(total) / n)
        return found
