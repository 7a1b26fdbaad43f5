"""The gate's rules over many outcomes: what fires, what does not, and how often by chance."""

from __future__ import annotations

import random
from dataclasses import replace
from statistics import mean

import pytest

from supervisor.core.coherence import rates
from supervisor.core.coherence.gate import KEPT, WATCHING, Outcome, standing_of, with_outcome
from supervisor.core.coherence.rates import false_alarms, in_a_row
from tests.support.failing import RULES, WITHIN, false_alarm, fires_at, wait

SEEDS = range(60)
ALL = RULES["all three"]


def outcomes(word: str, rules: object = ALL) -> tuple[Outcome, ...]:
    """``f`` fails, ``p`` passes, ``c`` cannot be judged."""
    found: tuple[Outcome, ...] = ()
    for n, letter in enumerate(word, 1):
        verdict = {"f": "fail", "p": "pass", "c": "cannot judge"}[letter]
        last = found[-1] if found else None
        one = Outcome(
            n, 1, letter != "c", letter == "f", None, verdict, counts=True,
            sum=last.sum if last else 0.0, firing=last.firing if last else "", sketches=(),
        )  # fmt: skip
        found = with_outcome(found, one, rules)  # type: ignore[arg-type]  # by name, in tests
    return found


@pytest.mark.parametrize("name", ["7 of 25", "cusum 9", "all three"])
def test_a_collapse_is_found_within_40_samples_and_health_is_left_alone(name: str) -> None:
    """All three together being quiet, so is each of them."""
    soon = [wait(RULES[name], seed, WITHIN) is not None for seed in SEEDS]
    assert mean(soon) >= 0.95
    if name == "all three":
        assert mean([false_alarm(ALL, seed) for seed in range(40)]) <= 0.05


@pytest.mark.parametrize("name", ["5 of 10", "5 in a row"])
def test_rules_that_are_not_the_default_find_it_too_late(name: str) -> None:
    soon = [wait(RULES[name], seed, WITHIN) is not None for seed in SEEDS]
    assert mean(soon) < 0.95


@pytest.mark.parametrize("share", [0.2, 0.3])
def test_the_stated_rate_of_false_alarms_is_an_upper_bound_and_no_wild_one(share: float) -> None:
    """At a share of failures at which alarms are frequent enough to be counted."""
    for name in ("7 of 25", "5 in a row"):
        rules = RULES[name]
        begins = sum(
            fires_at(rules, lambda _, rng=rng: rng.random() < share, 400) is not None
            for rng in map(random.Random, range(40))
        )
        with_rate = _stated(name, share)
        assert begins <= 40 * min(1.0, 400 * with_rate) + 8
        assert begins >= 40 * min(1.0, 400 * with_rate) / 12


def _stated(name: str, share: float) -> float:
    return rates._several(RULES[name], share) if name == "7 of 25" else in_a_row(5, share)


def test_the_published_rule_waits_as_long_as_was_computed() -> None:
    assert round(1 / in_a_row(5, 0.36)) == 257, "260 samples were waited for: p = 0.36"
    stated = false_alarms(WATCHING)
    assert set(stated) == {"5 in a row", "7 of 25", "cusum 9"}
    assert all(0 < alarms < 0.001 for alarms in stated.values())


def test_an_episode_begins_once_and_ends_only_when_every_rule_is_quiet() -> None:
    fired = [outcome.firing for outcome in outcomes("pppfffff" + "f" * 9 + "p" * 80)]
    assert fired[6] == ""
    assert fired[7] == "5 in a row"
    first_quiet = next(n for n, firing in enumerate(fired) if n > 7 and not firing)
    assert first_quiet > 17 + 25 - 7, "the window and the sum still hold the failures"
    assert not any(fired[first_quiet:])


def test_a_mild_but_lasting_rise_fires_the_window_and_the_sum_but_not_the_row() -> None:
    found = outcomes("pfp" * 9 + "f")
    assert {rule.name: rule.fires for rule in standing_of(found, ALL)} == {
        "5 in a row": False,
        "7 of 25": True,
        "cusum 9": True,
    }


def test_what_cannot_be_judged_is_neither_good_nor_bad() -> None:
    assert outcomes("ffcffccf")[-1].firing == "5 in a row"
    assert [outcome.sum for outcome in outcomes("fccc")] == [outcomes("f")[0].sum] * 4
    assert outcomes("ffffp")[-1].firing == ""


def test_a_rule_that_is_off_never_fires_and_is_not_shown() -> None:
    off = replace(ALL, in_a_row=0, failing=0, cusum=0.0)
    found = outcomes("f" * 100, off)
    assert found[-1].firing == ""
    assert standing_of(found, off) == ()
    assert false_alarms(off) == {}


def test_the_sum_is_bounded_so_that_a_model_that_recovers_is_believed_soon() -> None:
    found = outcomes("f" * 200 + "p" * 60)
    assert max(outcome.sum for outcome in found) == ALL.cusum
    assert found[-1].firing == ""
    assert len(outcomes("p" * 300)) == KEPT
