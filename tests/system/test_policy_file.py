"""``policy.toml``: its first schema means what it meant, and bad keys are all named."""

from __future__ import annotations

from pathlib import Path

import pytest

from supervisor.config import load, parse_policy, read_policy
from supervisor.core.policy import Algorithm, Policy, Reward
from supervisor.errors import SettingsError
from tests.support.runs import make_run, scripted

FIRST = b"""schema = "stepkeeper.policy/1"
phase_min = 3
[arms.a]
floor = 0.25
[arms.b]
"""


def read(folder: Path, text: bytes) -> Policy:
    return read_policy(text, 1, "policy.toml", load(folder))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("policy") / "run", scripted(steps=1)).path


def test_the_first_schema_means_what_it_meant(run: Path) -> None:
    policy = read(run, FIRST)
    assert (policy.algorithm, policy.phase_min, policy.epoch_decay) == (Algorithm.UCB1, 3, 0.0)
    assert (policy.reward, policy.exploration) == (Reward.PROGRESS, 1.4142135623730951)
    assert read(run, FIRST.replace(b"phase_min", b'algorithm = "static"\nphase_min')).algorithm is (
        Algorithm.STATIC
    )


def test_a_key_of_the_second_schema_in_a_file_of_the_first_is_told_apart() -> None:
    text = FIRST.replace(b"phase_min", b"max_epochs = 3.0\nphase_min")
    with pytest.raises(SettingsError, match=r"has no 'max_epochs'; with this key it is"):
        parse_policy(text, "policy.toml")


def test_a_newer_schema_is_refused() -> None:
    with pytest.raises(SettingsError, match="schema"):
        parse_policy(FIRST.replace(b"policy/1", b"policy/3"), "policy.toml")


def test_what_keys_say_against_each_other_is_named_all_at_once(run: Path) -> None:
    text = FIRST.replace(b"policy/1", b"policy/2").replace(
        b"phase_min = 3",
        b'phase_min = 50\nreward = "excess"\ncurriculum_warmup_steps = 9\n'
        b'curriculum_warmup_sources = ["c"]',
    )
    with pytest.raises(SettingsError) as caught:
        read(run, text)
    problems = "\n".join(caught.value.problems)
    for words in (
        "phase_min: 50 is above phase_max 42",
        "curriculum_warmup_sources: c: the policy has no such arm",
        'arms.a: reward = "excess" needs a target',
        'arms.b: reward = "excess" needs a target',
    ):
        assert words in problems


def test_a_warm_up_that_cannot_be_served_is_refused(run: Path) -> None:
    text = b"""schema = "stepkeeper.policy/2"
curriculum_warmup_steps = 100
curriculum_warmup_sources = ["a"]
[arms.a]
cap = 0.5
[arms.b]
"""
    with pytest.raises(SettingsError) as caught:
        read(run, text)
    assert "they alone cannot be served: the caps sum to 0.5" in caught.value.problems[0]
    with pytest.raises(SettingsError) as caught:
        read(run, text.replace(b'curriculum_warmup_sources = ["a"]\n', b""))
    assert "names no arm for them" in caught.value.problems[0]
