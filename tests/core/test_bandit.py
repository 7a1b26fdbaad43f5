"""The bandit: UCB1 against a slow reference, scaled rewards, what a phase holds."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest

from supervisor.core.bandit import (
    ArmState,
    BanditState,
    count_steps,
    finish_phase,
    fresh,
)
from tests.support.ucb1 import LIVE, NAMES, UCB1, Reference, learn, phase, scores, told
from trainer.contract.wire import ArmResult, Step


def step(number: int, arm: str) -> Step:
    return Step(number, 1.0, number, 3.0, "", arm, 3e-4, "", 1, ())


@pytest.mark.parametrize("seed", range(5))
def test_scores_equal_a_slow_reference(seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311 - chance that can be repeated
    state, reference = fresh(UCB1, LIVE, seed), Reference(UCB1.ema_alpha)
    for number in range(1, 200):
        chosen = rng.sample(NAMES, rng.randint(1, 6))
        losses = {name: rng.choice((None, 8.0 - number / 50 + rng.random())) for name in chosen}
        report = phase(number, losses, pulls=rng.randint(1, 20))
        state = finish_phase(state, UCB1, report)
        reference.learn(report)
    expected = reference.scores(UCB1.exploration)
    assert scores(state, UCB1) == pytest.approx(expected, rel=1e-9)
    for arm in state.arms:
        assert arm.ema == pytest.approx(reference.ema.get(arm.name, 0.0), rel=1e-9)
        assert arm.loss == pytest.approx(reference.loss.get(arm.name), rel=1e-9)


def test_a_score_is_the_published_formula() -> None:
    arms = (ArmState("arm00", n=100, mean=0.4), ArmState("arm01", n=25, mean=0.3))
    state = replace(fresh(UCB1, LIVE, 1), arms=arms)
    found = scores(state, UCB1)
    assert found["arm00"] == pytest.approx(0.4 + math.sqrt(2) * math.sqrt(math.log(125) / 100))
    assert found["arm01"] == pytest.approx(0.3 + math.sqrt(2) * math.sqrt(math.log(125) / 25))


def test_raw_rewards_of_340_to_453_leave_exploration_alive() -> None:
    """With raw means the best arm would lead by 113 and no bonus could ever reach it."""
    rng = random.Random(1)  # noqa: S311 - chance that can be repeated
    means = {name: 340.0 + 113.0 * index / 15 for index, name in enumerate(NAMES)}
    state = fresh(UCB1, LIVE, 1)
    pulls = dict.fromkeys(NAMES, 0)
    for number in range(1, 1200):
        order = state.phases[0]
        before = {arm.name: arm.loss or 1000.0 for arm in state.arms}
        weights = dict(order.weights)
        served = {name: max(1, round(weights[name] * order.steps)) for name in NAMES}
        results = tuple(
            ArmResult(name, served[name], 0, before[name] - rng.gauss(means[name], 60.0))
            for name in NAMES
        )
        state = finish_phase(state, UCB1, told(number, results))
        for name, count in served.items():
            pulls[name] += count
    assert all(0.0 <= arm.mean <= 1.0 for arm in state.arms)
    bonus = [
        UCB1.exploration * math.sqrt(math.log(sum(pulls.values())) / n) for n in pulls.values()
    ]
    ranked = scores(state, UCB1)
    assert max(ranked.values()) - min(ranked.values()) < 1.5
    assert max(bonus) > 0.02
    best = sorted(pulls, key=lambda name: -pulls[name])[:6]
    assert NAMES[-1] in best
    assert min(pulls.values()) > 1000


def test_an_arm_without_a_reward_comes_first() -> None:
    state = learn(fresh(UCB1, LIVE, 1), UCB1, {name: [1.0, 1.0] for name in NAMES[1:]})
    ranked = scores(state, UCB1)
    assert ranked[NAMES[0]] == math.inf
    assert all(math.isfinite(ranked[name]) for name in NAMES[1:])
    assert dict(state.phases[-1].weights)[NAMES[0]] > 1 / 16


def test_the_first_phase_of_an_arm_gives_a_loss_and_no_reward() -> None:
    state = finish_phase(fresh(UCB1, LIVE, 1), UCB1, phase(1, {"arm00": 5.0}))
    arm = state.arms[0]
    assert (arm.loss, arm.n, arm.mean, arm.ema) == (5.0, 0, 0.0, 0.0)
    assert state.rewards == ()


def test_learning_progress_is_what_is_rewarded() -> None:
    state = fresh(UCB1, LIVE, 1)
    falling = {"arm00": [0.4, 0.4, 0.4], "arm01": [0.0, 0.0, 0.0], "arm02": [-0.4, -0.4, -0.4]}
    state = finish_phase(state, UCB1, phase(1, dict.fromkeys(falling, 5.0)))
    state = learn(state, UCB1, falling)
    means = {arm.name: arm.mean for arm in state.arms}
    assert means["arm00"] > means["arm01"] > means["arm02"]


def test_failed_pulls_are_asked_for_and_not_served() -> None:
    state = finish_phase(fresh(UCB1, LIVE, 1), UCB1, phase(1, {"arm00": None}, failed=3))
    state = count_steps(state, [step(1, "arm00"), step(2, "arm00")])
    arm = state.arms[0]
    assert (arm.served, arm.failed, arm.requested, arm.n, arm.loss) == (2, 3, 5, 0, None)
    assert arm.last_step == 2


@pytest.mark.parametrize("arms", [1, 2, 3, 4, 5, 16])
def test_a_phase_has_the_best_in_focus_and_one_by_chance(arms: int) -> None:
    policy = replace(UCB1, arms=UCB1.arms[:arms])
    state = fresh(policy, LIVE, 3)
    rewards = {name: [float(index)] * 4 for index, name in enumerate(NAMES[:arms])}
    state = finish_phase(state, policy, phase(1, dict.fromkeys(rewards, 500.0)))
    state = learn(state, policy, rewards)
    weights = dict(state.phases[-1].weights)
    ranked = scores(state, policy)
    best = sorted(ranked, key=lambda name: (-ranked[name], name))[: policy.focus]
    heavy = {name for name, weight in weights.items() if weight == max(weights.values())}
    assert set(best) <= heavy
    assert len(heavy) == min(arms, policy.focus + 1)
    if arms > 4:
        assert max(weights.values()) / min(weights.values()) == pytest.approx(1 / 0.3)


def test_the_arm_by_chance_is_now_this_one_now_that() -> None:
    state = learn(fresh(UCB1, LIVE, 3), UCB1, {name: [1.0] * 2 for name in NAMES})
    seen: set[str] = set()
    for _ in range(60):
        state = learn(state, UCB1, {NAMES[0]: [1.0]})
        weights = dict(state.phases[-1].weights)
        seen |= {name for name, weight in weights.items() if weight == max(weights.values())}
    assert len(seen) > 10


def test_phase_lengths_are_drawn_from_their_whole_range_and_never_beyond() -> None:
    state = fresh(UCB1, LIVE, 3)
    lengths = []
    for _ in range(1500):
        state = finish_phase(state, UCB1, phase(state.finished + 1, {"arm00": 5.0}))
        lengths.append(state.phases[-1].steps)
    assert set(lengths) == set(range(7, 43))
    assert sum(lengths) / len(lengths) == pytest.approx(24.5, abs=1.0)


def test_a_phase_that_was_not_decided_moves_the_numbers_on() -> None:
    state = finish_phase(fresh(UCB1, LIVE, 1), UCB1, phase(7, {"arm00": 5.0}))
    assert [order.phase for order in state.phases] == [8, 9]
    assert (state.finished, state.decided) == (7, 9)


def test_the_same_reports_and_seed_give_the_same_state_and_another_seed_another() -> None:
    def life(seed: int) -> BanditState:
        state = fresh(UCB1, LIVE, seed)
        for number in range(1, 30):
            state = finish_phase(state, UCB1, phase(number, {"arm00": 5.0 - number / 10}))
        return state

    assert life(5) == life(5)
    assert life(5).phases != life(6).phases


def test_the_largest_losses_leave_numbers_that_can_be_written() -> None:
    state = fresh(UCB1, LIVE, 1)
    for number in range(1, 6):
        loss = 1.7e308 * (-1) ** number
        state = finish_phase(state, UCB1, phase(number, dict.fromkeys(NAMES, loss)))
    numbers = [x for arm in state.arms for x in (arm.loss or 0.0, arm.mean, arm.ema)]
    assert all(math.isfinite(x) for x in (*numbers, *state.rewards))
