"""What two lives of a run prove, from what they recorded."""

from __future__ import annotations

from typing import Any

import pytest

from supervisor.core import combination
from supervisor.core.resume_verdict import (
    ABSENT,
    DIVERGED,
    FAILED,
    NO_CLAIM,
    PROVED,
    REFUSED,
    SAME,
    UNCONTROLLED,
    Comparison,
    Control,
    difference,
    phases,
    repeats,
    shares,
    states,
    steps,
    unequal,
    verdict,
)

GOOD = [Comparison("steps", equal=True, detail="steps 1 to 9", deviation=0.0)]
BAD = [*GOOD, Comparison("weights", equal=False, detail="at step 9", deviation=1e-9)]
DETECTED = [Control("rng", DIVERGED, "step 6"), Control("m", SAME, "in 4 steps")]


def life(last: int, **changes: object) -> dict[int, dict[str, Any]]:
    fields = {"loss": 2.5, "nonfinite": "", "arm": "a", "lr": 0.1, "data": "00ff"}
    lines: dict[int, dict[str, Any]] = {
        step: {"step": step, **fields, "attempt": 1} for step in range(1, last + 1)
    }
    lines[last] |= changes
    return lines


def test_lives_that_recorded_the_same_are_equal_whoever_recorded_them() -> None:
    other = life(9)
    for line in other.values():
        line |= {"attempt": 7, "time": "later"}
    found = steps("steps", life(9), other, range(1, 10))
    assert (found.equal, found.detail, found.deviation) == (True, "steps 1 to 9", 0.0)


@pytest.mark.parametrize(
    ("changes", "told", "deviation"),
    [
        ({"loss": 2.5000001}, "step 9: loss 2.5 and 2.5000001", pytest.approx(1e-7)),
        ({"loss": None, "nonfinite": "nan"}, "step 9: loss 2.5 and None", 0.0),
        ({"arm": "b"}, "step 9: arm a and b", 0.0),
        ({"lr": 0.2}, "step 9: lr 0.1 and 0.2", 0.0),
        ({"data": "00fe"}, "step 9: data 00ff and 00fe", 0.0),
    ],
)
def test_the_first_step_that_differs_is_named(
    changes: dict[str, Any], told: str, deviation: float
) -> None:
    found = steps("steps", life(9), life(9, **changes), range(1, 10))
    assert (found.equal, found.detail, found.deviation) == (False, told, deviation)


def test_a_step_that_one_life_lacks_is_no_equality() -> None:
    found = steps("steps", life(9), life(8), range(1, 10))
    assert (found.equal, found.detail) == (False, "step 9 is missing")


def test_phases_are_compared_in_order_and_number() -> None:
    assert phases([1, 2], [1, 2]).equal
    assert not phases([1, 2], [1, 3]).equal
    assert phases([1, 2], [1]).detail == "the phase reported as number 2"


def test_companions_are_compared_in_every_state_that_one_of_them_keeps() -> None:
    one = {"rng": {"draws": 1}, "cursors": {}, "schedule": {"n": 1}, "phase": None, "scaler": None}
    found = states(one, {**one, "rng": {"draws": 2}})
    assert {c.what: c.equal for c in found} == {"rng": False, "cursors": True, "schedule": True}
    assert unequal(found) == "rng: draws differs"
    assert states(None, None) == []
    assert unequal(states(one, None)) == "companion: only one life wrote one"


@pytest.mark.parametrize(
    ("one", "other", "place"),
    [
        ({"a": [1, 2]}, {"a": [1, 2]}, ""),
        ({"a": [1, 2]}, {"a": [1, 3]}, "a[1] differs"),
        ({"a": 1}, {"a": 1, "b": 1}, "b stands in one alone"),
        ({"a": 1}, {"a": 1.0}, "a differs"),  # other text in the file
        ([1], [1, 2], "it differs"),
    ],
)
def test_a_difference_is_named_by_its_place(one: object, other: object, place: str) -> None:
    assert difference(one, other) == place


@pytest.mark.parametrize(
    ("repeated", "resumed", "controls", "word"),
    [
        (GOOD, GOOD, DETECTED, PROVED),
        (GOOD, GOOD, [Control("m", REFUSED, "why")], PROVED),
        (GOOD, BAD, DETECTED, FAILED),
        (BAD, GOOD, DETECTED, NO_CLAIM),
        (BAD, BAD, DETECTED, NO_CLAIM),
        (GOOD, GOOD, [Control("m", SAME, ""), Control("rng", ABSENT, "")], UNCONTROLLED),
        (GOOD, GOOD, [], UNCONTROLLED),
    ],
)
def test_a_proof_needs_equal_lives_and_a_control_that_fails(
    repeated: list[Comparison], resumed: list[Comparison], controls: list[Control], word: str
) -> None:
    assert verdict(repeated, resumed, controls)[0] == word


def test_a_device_that_does_not_repeat_itself_fails_nobody_and_proves_nothing() -> None:
    word, why = verdict(GOOD, BAD, [], repeats=False)
    assert word == NO_CLAIM
    assert why.endswith("weights: at step 9; largest deviations: weights 1e-09")
    assert verdict(GOOD, GOOD, DETECTED, repeats=False)[0] == PROVED  # it did, as it turned out


@pytest.mark.parametrize(
    ("device", "deterministic", "expected"),
    [("cpu", False, True), ("NVIDIA H200", True, True), ("NVIDIA H200", False, False)],
)
def test_only_a_gpu_without_deterministic_settings_is_excused(
    device: str, *, deterministic: bool, expected: bool
) -> None:
    told = {
        "versions": {"device": device},
        "settings": {"train": {"deterministic": deterministic}},
    }
    assert repeats(told) is expected
    assert repeats({"code": "of another trainer"})


def test_a_gpu_is_shared_unless_the_trainer_says_that_it_uses_none() -> None:
    gpus = ["NVIDIA H200", "NVIDIA H200"]
    assert shares(gpus, "NVIDIA H200") == shares(gpus, None) == "NVIDIA H200"
    assert shares(gpus, "cpu") == shares([], None) == ""


NOW = {"command": ["x"], "settings": {"train": {"lr": 0.1}}, "code": "c" * 64}
MADE = {**NOW, "identities": {"code": "1", "versions": {"torch": "2.9"}}}
PROOF = {"verdict": PROVED, "why": "", "combination": MADE}


def test_a_proof_holds_for_its_own_combination() -> None:
    assert combination.standing(PROOF, NOW, None) == ("valid", "")
    told = {"data": {"a": "more"}, "settings": {}, **MADE["identities"]}  # told elsewhere
    assert combination.standing(PROOF, NOW, told) == ("valid", "")


@pytest.mark.parametrize(
    ("now", "trained", "why"),
    [
        ({**NOW, "settings": {"train": {"lr": 0.2}}}, None, "settings.train.lr was 0.1 and is 0.2"),
        ({**NOW, "command": ["y"]}, None, "command was ['x'] and is ['y']"),
        ({**NOW, "code": "d" * 64}, None, "code was cccccccccccc... and is dddddddddddd..."),
        (
            NOW,
            {"code": "1", "versions": {"torch": "3.0"}},
            "identities.versions.torch was 2.9 and is 3.0",
        ),
    ],
)
def test_of_another_combination_it_says_what_changed(
    now: dict[str, Any], trained: dict[str, Any] | None, why: str
) -> None:
    assert combination.standing(PROOF, now, trained) == ("of another combination", why)


def test_what_did_not_prove_anything_holds_for_nothing() -> None:
    assert combination.standing(None, NOW, None) == ("none", "")
    failed = {**PROOF, "verdict": FAILED, "why": "the resumed life is another"}
    assert combination.standing(failed, NOW, None) == ("failed", "the resumed life is another")
