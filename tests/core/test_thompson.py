"""The probability that an arm is the best, against draws from the same beliefs."""

from __future__ import annotations

import random

import pytest

from supervisor.core.bandit.thompson import best_chances

Beliefs = list[tuple[float, float]]


def drawn(beliefs: Beliefs, rng: random.Random, rounds: int = 10_000) -> list[float]:
    """How often each number was the largest."""
    wins = [0] * len(beliefs)
    for _ in range(rounds):
        numbers = [rng.gauss(mean, spread) for mean, spread in beliefs]
        wins[numbers.index(max(numbers))] += 1
    return [count / rounds for count in wins]


@pytest.mark.parametrize("arms", [2, 5, 16])
@pytest.mark.parametrize("spreads", [(0.1,), (0.02, 0.1, 0.5), (0.005, 0.5)])
def test_chances_are_the_frequencies_of_draws(arms: int, spreads: tuple[float, ...]) -> None:
    rng = random.Random(f"{arms} {spreads}")  # noqa: S311 - chance that can be repeated
    beliefs = [(rng.random(), rng.choice(spreads)) for _ in range(arms)]
    chances = best_chances(beliefs)
    assert sum(chances) == pytest.approx(1.0, abs=1e-12)
    assert list(chances) == pytest.approx(drawn(beliefs, rng), abs=0.02)


def test_equal_beliefs_share_evenly() -> None:
    assert list(best_chances([(0.5, 0.5)] * 16)) == pytest.approx([1 / 16] * 16)
    assert best_chances([(0.3, 0.1)]) == (1.0,)


def test_without_any_spread_the_largest_mean_is_the_best() -> None:
    assert list(best_chances([(0.5, 0.0), (0.7, 0.0), (0.2, 0.0)])) == pytest.approx(
        [0.0, 1.0, 0.0], abs=2e-3
    )


def test_of_two_numbers_the_chance_is_the_published_one() -> None:
    """P(a > b) = Phi((0.6 - 0.5) / sqrt(0.1^2 + 0.1^2)) = 0.7602."""
    assert best_chances([(0.6, 0.1), (0.5, 0.1)])[0] == pytest.approx(0.7602, abs=0.01)
