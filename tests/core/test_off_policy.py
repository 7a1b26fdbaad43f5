"""The reward of a mix that was not in force, against simulations in which it is known."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from math import fsum

import pytest

from supervisor.core.off_policy import Estimate, Logged, estimate, logged, means
from supervisor.core.policy import Algorithm, Arm, Policy, Reward, Unit
from trainer.contract.wire import ArmResult, Phase

ARMS = ("a", "b", "c", "d")
MEANS = {"a": 0.2, "b": 0.4, "c": 0.6, "d": 0.8}
TARGET = {"a": 0.5, "b": 0.3, "c": 0.1, "d": 0.1}
TRUTH = fsum(share * MEANS[arm] for arm, share in TARGET.items())
SEEDS = 400
BAND = (0.925, 0.975)  # what 400 tries at 95 % give in 97.8 % of cases


def simulated(seed: int, phases: int = 80) -> list[Logged]:
    """Phases of an adaptive policy that follows what it sees, so that its mixes favour good arms.

    The mean loss of an arm differs from phase to phase beside the noise of its pulls.
    """
    chance = random.Random(seed)  # noqa: S311 - a simulation
    seen = {arm: [0.5, 1.0] for arm in ARMS}
    found = []
    for _ in range(phases):
        scores = {arm: total / count for arm, (total, count) in seen.items()}
        whole = sum(0.05 + score**2 for score in scores.values())
        shares = {arm: (0.05 + score**2) / whole for arm, score in scores.items()}
        pulls = Counter(chance.choices(ARMS, [shares[arm] for arm in ARMS], k=25))
        earned = {}
        for arm, count in pulls.items():
            reward = MEANS[arm] + chance.uniform(-0.1, 0.1) + chance.gauss(0.0, 0.1 / count**0.5)
            earned[arm] = (count, reward)
            seen[arm][0] += count * reward
            seen[arm][1] += count
        found.append(Logged(shares, earned))
    return found


def covers(found: Estimate | str) -> bool:
    assert isinstance(found, Estimate)
    return found.low <= TRUTH <= found.high


def test_the_interval_covers_the_truth_as_often_as_it_says() -> None:
    found = [estimate(TARGET, simulated(seed)) for seed in range(SEEDS)]
    share = sum(map(covers, found)) / SEEDS
    assert BAND[0] <= share <= BAND[1], share
    plain = [e.plain for e in found if isinstance(e, Estimate)]
    assert sum(plain) / SEEDS == pytest.approx(TRUTH, abs=0.005)


def test_without_propensities_the_truth_is_missed() -> None:
    """The control: the mean of the pulls as they came is of the mix in force, not of the other."""
    hits = 0
    for seed in range(40):
        even = [replace(p, shares=dict.fromkeys(ARMS, 1.0)) for p in simulated(seed)]
        hits += covers(estimate(dict.fromkeys(ARMS, 1.0), even))
    assert hits == 0


def test_an_arm_of_the_new_policy_that_was_never_pulled_is_named() -> None:
    told = estimate({**TARGET, "zz": 0.1}, simulated(1))
    assert isinstance(told, str)
    assert "no reward of zz is known" in told


def test_too_few_phases_and_too_few_pulls_are_no_ground() -> None:
    told = estimate(TARGET, simulated(1, 29))
    assert isinstance(told, str)
    assert told.startswith("29 of 29 phases could have pulled")
    scarce = [Logged({"a": 1e-6, "b": 1 - 1e-6}, {"a": (1, 0.5), "b": (9, 0.5)})] * 40
    rare = [scarce[0], *[replace(p, earned={"b": (9, 0.5)}) for p in scarce[1:]]]
    told = estimate({"a": 0.9, "b": 0.1}, rare)
    assert isinstance(told, str)
    assert "the mixes in force were too different" in told


def test_phases_that_could_not_have_pulled_an_arm_are_left_out() -> None:
    phases = simulated(3)
    masked = [replace(p, shares={**p.shares, "d": 0.0}) for p in phases[:20]]
    found = estimate(TARGET, [*masked, *phases[20:]])
    assert isinstance(found, Estimate)
    assert (found.phases, found.of) == (60, 80)
    assert found.effective < found.pulls


def test_the_mix_in_force_is_worth_all_its_pulls() -> None:
    shares = dict.fromkeys(ARMS, 0.25)
    phases = [replace(p, shares=shares) for p in simulated(5)]
    found = estimate(shares, phases)
    assert isinstance(found, Estimate)
    assert found.effective == pytest.approx(found.pulls)
    assert found.value == pytest.approx(found.plain)


def test_rewards_of_the_log_are_those_of_the_new_policy() -> None:
    arms = tuple(Arm(name, target=1.0) for name in ("a", "b"))
    policy = Policy(2, "d", Algorithm.UCB1, Unit.SHARE, arms, ema_alpha=0.5)
    weights = (("a", 0.5), ("b", 0.5))

    def report(number: int, a: float, b: float | None) -> Phase:
        results = (ArmResult("a", 5, 0, a), ArmResult("b", 0 if b is None else 5, 0, b))
        return Phase(1, 1.0, number, 1, 10, repeated=False, weights=weights, arms=results)

    reports = [report(1, 5.0, 3.0), report(2, 4.0, None), report(3, 4.0, 3.0)]
    progress = logged(policy, reports)
    assert [set(phase.earned) for phase in progress] == [set(), {"a"}, {"a", "b"}]
    assert progress[1].earned["a"] == (5, 1.0)
    assert means(progress)["b"] == 0.0
    losses = means(logged(replace(policy, reward=Reward.LOSS), reports))
    assert losses["a"] > losses["b"]
