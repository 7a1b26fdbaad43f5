"""What lint finds in a policy, and in the state of a mix under it, whoever wrote that."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from supervisor.core.bandit import ArmState, BanditState, fresh
from supervisor.core.linting import Finding, Mixing, Numbers, Outlook, exploration, lint
from supervisor.core.policy import Algorithm, Arm, Policy, Unit
from supervisor.errors import UnknownError
from supervisor.sidecars.mixing import of_bandit, of_others

ARMS = (Arm("chat", 0.1, 0.8), Arm("code", 0.0, 0.8), Arm("prose"))
POLICY = Policy(1, "d", Algorithm.UCB1, Unit.SHARE, ARMS)
HERE = Path("here")


def found(policy: Policy, mixing: Mixing | None = None, outlook: Outlook | None = None) -> set[Any]:
    return {(f.kind, f.arm, f.bad) for f in lint(policy, mixing, outlook)}


def text_of(
    kind: str, policy: Policy, mixing: Mixing | None = None, outlook: Outlook | None = None
) -> str:
    (finding,) = (f for f in lint(policy, mixing, outlook) if f.kind == kind)
    return finding.text


def with_arms(*arms: Arm, **changes: object) -> Policy:
    return replace(POLICY, arms=arms, **changes)  # type: ignore[arg-type]  # by name, in tests


def own(*arms: ArmState, policy: Policy = POLICY) -> Mixing:
    state: BanditState = fresh(policy, frozenset(arm.name for arm in policy.arms), 1)
    return of_bandit(replace(state, arms=(*state.arms, *arms)))


def test_a_good_policy_and_its_own_fresh_state_have_no_finding() -> None:
    assert lint(POLICY, own(), None) == ()
    assert lint(POLICY, None, None) == ()


def test_the_dead_arm_of_the_first_run_fails_by_name_twice() -> None:
    """Weight 1.546 of a source that was gone, where no cap is above 1."""
    rows = {name: {"weight": 0.5, "pulls": 9, "mean": 0.5} for name in ("chat", "code", "prose")}
    state = {"arms": {**rows, "repo-docstrings": {"weight": 1.546, "pulls": 30, "mean": 0.9}}}
    mixing = of_others(state, HERE)
    assert found(POLICY, mixing) == {
        ("zombie", "repo-docstrings", True),
        ("weight", "repo-docstrings", True),
    }
    assert "it holds weight 1.546 of 3.046" in text_of("zombie", POLICY, mixing)
    assert "its weight 1.546 is above its cap 1" in text_of("weight", POLICY, mixing)


def test_a_zombie_of_our_own_state_is_found_and_a_retired_arm_is_none() -> None:
    assert found(POLICY, own(ArmState("old", served=9))) == {("zombie", "old", True)}
    fewer = fresh(POLICY, frozenset({"chat", "prose"}), 1)
    assert found(POLICY, of_bandit(fewer)) == {("missing", "code", False)}


def test_shares_outside_the_bounds_of_another_policy_are_found() -> None:
    tight = with_arms(Arm("chat", 0.6, 0.8), Arm("code", 0.0, 0.1), Arm("prose"))
    mixing = Mixing(
        (Numbers("chat", 0.2), Numbers("code", 0.3), Numbers("prose", 0.5)), shares=True
    )
    assert found(tight, mixing) == {("weight", "chat", True), ("weight", "code", True)}
    assert found(replace(tight, unit=Unit.WEIGHT), mixing) == set()  # divided since: no saying


def test_who_waits_for_the_warm_up_is_not_below_its_floor() -> None:
    warm = replace(POLICY, curriculum_warmup_steps=100, curriculum_warmup_sources=("code", "prose"))
    assert lint(warm, own(policy=warm), None) == ()


def test_raw_rewards_of_340_to_453_leave_exploration_dead_and_both_numbers_are_told() -> None:
    """113 against 0.48 at 112,619 pulls, of which the least pulled arm had 100."""
    arms = (
        Numbers("chat", pulls=100, mean=340.0),
        Numbers("code", pulls=56_000, mean=400.0),
        Numbers("prose", pulls=56_519, mean=453.0),
    )
    mixing = Mixing(arms, shares=False)
    assert exploration(POLICY, mixing) == (pytest.approx(113.0), pytest.approx(0.482, abs=1e-3))
    assert found(POLICY, mixing) == {("exploration", "", True)}
    text = text_of("exploration", POLICY, mixing)
    assert "differ by 113" in text
    assert "is 0.4823" in text


def test_scaled_rewards_that_are_well_known_are_no_dead_exploration() -> None:
    arms = (Numbers("chat", pulls=90_000, mean=0.9), Numbers("code", pulls=7_000, mean=0.1))
    mixing = Mixing((*arms, Numbers("prose", pulls=9000, mean=0.2)), shares=False)
    assert exploration(POLICY, mixing) == (pytest.approx(0.8), pytest.approx(0.0575, abs=1e-3))
    assert found(POLICY, mixing) == set()
    unpulled = Mixing((*arms, Numbers("prose", pulls=0, mean=0.0)), shares=False)
    assert exploration(POLICY, unpulled) is None


@pytest.mark.parametrize(
    ("arms", "expected"),
    [
        ((Arm("a", 0.6, 0.5), Arm("b")), {("infeasible", "a", True)}),
        ((Arm("a", 0.6), Arm("b", 0.6)), {("infeasible", "", True)}),
        ((Arm("a", 0.0, 0.4), Arm("b", 0.0, 0.5)), {("infeasible", "", True)}),
        ((Arm("a", 0.0, 0.9), Arm("b", 0.3)), {("pointless", "a", False)}),
        ((Arm("a", 0.1, 1.0), Arm("b", 0.0, 0.5)), {("pointless", "a", False)}),
        ((Arm("a", 0.0, 0.0), Arm("b")), {("pointless", "a", False)}),
        ((Arm("a", 0.2, 0.2), Arm("b")), {("pointless", "a", False)}),
        ((Arm("a", 0.4), Arm("b", 0.6)), {("pointless", "", True)}),
        ((Arm("a", 0.2, 0.6), Arm("b", 0.4, 0.8)), set()),
    ],
)
def test_bounds_that_cannot_be_kept_or_say_nothing_are_found(
    arms: tuple[Arm, ...], expected: set[Any]
) -> None:
    assert found(with_arms(*arms)) == expected


def test_floors_that_sum_to_1_are_as_meant_where_nothing_is_decided() -> None:
    static = with_arms(Arm("a", 0.4), Arm("b", 0.6), algorithm=Algorithm.STATIC)
    assert not any(bad for _, _, bad in found(static))


def test_weights_as_unit_are_infeasible_only_where_nothing_can_be_drawn() -> None:
    arms = (Arm("a", 0.8, 1.0), Arm("b", 0.8, 1.0))
    assert found(with_arms(*arms, unit=Unit.WEIGHT)) == set()
    none = tuple(Arm(name, 0.0, 0.0) for name in "ab")
    assert ("infeasible", "", True) in found(with_arms(*none, unit=Unit.WEIGHT))


OUTLOOK = Outlook(200_000.0, {"small": 8 / 1400, "large": 1e-7})
SMALL = (Arm("small", 0.0, 1.0, 1.0), Arm("large", 0.0, 1.0, 19.0))


def test_a_small_source_that_would_be_read_57_times_is_found() -> None:
    policy = with_arms(*SMALL, algorithm=Algorithm.STATIC)
    even = Mixing((Numbers("small", 0.05), Numbers("large", 0.95)), shares=True)
    assert found(policy, even, OUTLOOK) == {("epochs", "small", True)}
    text = text_of("epochs", policy, even, outlook=OUTLOOK)
    assert "at a share of 0.05 it is read about 57.1 times" in text
    assert "more than 16, where repeated data has little left" in text
    assert found(replace(policy, max_epochs=60.0), even, OUTLOOK) == set()


def test_the_share_of_a_policy_alone_is_that_within_its_bounds() -> None:
    """To clamp 1 and 1 to 0.2 and 1, and to divide, would say 0.1667."""
    policy = with_arms(Arm("small", 0.0, 0.2), Arm("large"), algorithm=Algorithm.STATIC)
    assert "at a share of 0.2 it" in text_of("epochs", policy, outlook=OUTLOOK)


def test_a_floor_that_forces_too_many_epochs_is_found_once() -> None:
    policy = with_arms(Arm("small", 0.05), Arm("large"), max_epochs=16.0)
    assert found(policy, None, OUTLOOK) == {("forced", "small", True)}
    assert "(0.05 of all pulls)" in text_of("forced", policy, outlook=OUTLOOK)


def test_what_was_measured_counts_more_than_sizes() -> None:
    policy = with_arms(*SMALL)
    measured = Mixing(
        (Numbers("small", 0.05, epochs=1.0, per_pull=1e-5), Numbers("large", 0.95)), shares=True
    )
    assert found(policy, measured, OUTLOOK) == set()
    read = Mixing((Numbers("small", 0.0, epochs=17.0), Numbers("large", 1.0)), shares=True)
    assert found(policy, read) == {("epochs", "small", True)}


def test_what_is_bad_stands_first() -> None:
    policy = with_arms(Arm("a", 0.0, 0.0), Arm("b", 0.5, 0.4), Arm("c"))
    assert [finding.bad for finding in lint(policy, None, None)] == [True, False]
    assert isinstance(lint(policy, None, None)[0], Finding)


@pytest.mark.parametrize(
    "state",
    [
        [],
        {},
        {"arms": []},
        {"arms": {}},
        {"arms": {"chat": 0.5}},
        {"arms": {"chat": {"share": 1}}},
        {"weights": {"chat": 0.5}},
        {"arms": {"chat": {"weight": 1.0}, "code": {}}},
    ],
)
def test_what_is_not_recognised_is_not_guessed(state: object) -> None:
    with pytest.raises(UnknownError, match="cannot tell what the state here says"):
        of_others(json.loads(json.dumps(state)), HERE)
