"""The simulator of policies sees what it is there to see: better, worse, and broken ones."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from supervisor.core.policy import Arm, Unit
from tests.bench.policies import CLAMPED, RAW, Cell, measure, one, policy_of, reached, text_of
from tests.bench.policies_play import Outcome, play
from tests.bench.policies_players import Core, RawUcb1
from tests.bench.policies_world import LIST_LIKE, NAMES, SETTINGS, a_world

STEPS = 1_000


def perverse(shares: Sequence[float], arms: Sequence[Arm]) -> list[float]:
    """Even shares of the list-like arms, which add nothing, whatever was learned."""
    del shares
    return [float(arm.name in LIST_LIKE) / len(LIST_LIKE) for arm in arms]


@pytest.mark.parametrize("algorithm", ["static", "ucb1", "exp3s", "ducb", "thompson"])
def test_no_policy_beats_the_best_fixed_mix_where_nothing_changes(algorithm: str) -> None:
    for seed in (1, 2):
        outcome = play(Core(policy_of(algorithm), seed), a_world("stationary", seed, STEPS), seed)
        assert outcome.regret >= -1e-12
        assert outcome.outside == 0.0
        assert sum(outcome.pulls) == pytest.approx(STEPS, abs=len(NAMES))


def test_a_policy_that_draws_the_wrong_arms_loses_far_more_and_is_seen_out_of_bounds() -> None:
    for seed in (1, 2):
        world = a_world("hacking", seed, STEPS)
        fair = play(Core(policy_of("ducb"), seed), world, seed)
        broken = play(Core(policy_of("ducb"), seed, perverse), world, seed)
        assert broken.regret > fair.regret + 0.1
        assert (fair.outside, broken.outside) == (0.0, 1.0)
        assert broken.worst == pytest.approx(1 / 3 - 0.1)


@pytest.mark.parametrize("setting", SETTINGS)
def test_the_same_seed_gives_the_same_outcome_and_another_one_another(setting: str) -> None:
    assert one((setting, "ducb", 1, 300)) == one((setting, "ducb", 1, 300))
    assert one((setting, "ducb", 1, 300)) != one((setting, "ducb", 2, 300))


def test_raw_rewards_leave_the_best_arm_under_5_percent_of_pulls_in_most_seeds() -> None:
    """Means of 340 to 453 and noise of 60, as published; in [0, 1] the failure is not there.

    It is there for good: in 20,000 pulls as in these, in 27 or 28 of 40 seeds, with 12.7 of the 16
    arms left at two pulls or fewer.
    """
    raw = [_counts(seed, 1.0) for seed in range(40)]
    assert sum(counts[-1] < 0.05 * sum(counts) for counts in raw) > 20
    assert sum(count <= 2 for counts in raw for count in counts) > 12 * 40
    normalised = [_counts(seed, 1 / 300) for seed in range(10)]
    assert sum(counts[-1] < 0.05 * sum(counts) for counts in normalised) == 0
    assert sum(count <= 2 for counts in normalised for count in counts) == 0


def _counts(seed: int, scale: float) -> list[int]:
    """How often each arm is pulled, worst first."""
    rng = random.Random(seed)  # noqa: S311 - chance that can be repeated
    means = [340.0 + 113.0 * arm / 15 for arm in range(16)]
    player = RawUcb1(seed, arms=tuple(Arm(name) for name in NAMES), live=frozenset(NAMES))
    for _ in range(400):
        arm = NAMES.index(player.best())
        player.reward(NAMES[arm], scale * rng.gauss(means[arm], 60.0))
    return [player.count[name] for name in NAMES]


def test_the_table_says_which_policies_are_the_lowest_or_within_its_interval() -> None:
    row = {
        "static": Cell(0.3, 0.01, 0.0, 0.0),
        "ucb1": Cell(0.11, 0.01, 0.0, 0.0),
        "ducb": Cell(0.10, 0.01, 0.0, 0.0),
        "exp3s": Cell(0.12, 0.02, 0.0, 0.0),
        "thompson": Cell(0.2, 0.2, 0.0, 0.0),
        CLAMPED: Cell(0.05, 0.01, 0.9, 0.2),
        RAW: Cell(0.4, 0.01, 0.0, 0.0),
    }
    table = dict.fromkeys(SETTINGS, row)
    assert reached(table) == {"static": 0, "ucb1": 5, "exp3s": 0, "ducb": 5, "thompson": 0}
    assert "0.1000 ±0.0100*" in text_of(table, 40, 20_000)
    assert "0.0500 ±0.0100*" not in text_of(table, 40, 20_000)


def test_every_player_plays_every_setting() -> None:
    def outcomes(jobs: list[tuple[str, str, int, int]]) -> list[Outcome]:
        return [one(job) for job in jobs]

    table = measure(SETTINGS, ("ducb", CLAMPED, RAW), range(1, 3), 100, outcomes)
    assert set(table) == set(SETTINGS)
    assert all(set(row) == {"ducb", CLAMPED, RAW} for row in table.values())
    assert policy_of("").unit is Unit.SHARE
