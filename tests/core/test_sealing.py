"""Histories of checkpoints on their way to a seal."""

from __future__ import annotations

from dataclasses import replace

import pytest

from supervisor.core.messages import (
    Recorded,
    Say,
    Seal,
    Spawn,
    Verify,
)
from supervisor.core.state import Life
from tests.support.history import History, fresh_state, point, running, with_seals
from trainer.contract.wire import Sample


def seals(history: History) -> list[int]:
    """Steps whose seal was asked for, in order."""
    return [effect.verdict.step for effect in history.all_of(Seal)]


def alarms(history: History) -> str:
    return "\n".join(effect.text for effect in history.all_of(Say) if effect.alarm)


def test_a_seal_needs_the_verdict_and_the_ledger() -> None:
    history = running(99)
    history.steps(100, 100, recorded=False)
    history.checkpoint(100)
    history.verified(100)
    assert seals(history) == []
    history.recorded(100)
    assert seals(history) == [100]


def test_a_checkpoint_may_be_recorded_before_it_is_read_back() -> None:
    history = running(100)
    history.checkpoint(100)
    assert [effect.step for effect in history.all_of(Verify)] == [100]
    assert seals(history) == []
    history.verified(100)
    assert seals(history) == [100]


def test_a_seal_says_what_stood_at_its_very_step() -> None:
    history = running(60)
    history.steps(61, 100)
    history.report(Sample(0, 10.0, 100, "say", "said", 0.8))
    history.checkpoint(100)
    at_100 = history.state.bandit
    reports = history.state.attempt.position if history.state.attempt else None
    history.steps(101, 150)
    history.verified(100)
    seal = history.all_of(Seal)[0]
    assert seal.bandit == at_100
    assert seal.ledger == history.position(100)
    assert seal.reports == reports
    assert (seal.sample, seal.attempt, seal.policy, seal.reason) == (100, 1, 1, "cadence")


def test_a_sample_of_another_step_is_not_the_seals() -> None:
    history = running(90)
    history.report(Sample(0, 9.0, 90, "say", "said", 0.8))
    history.steps(91, 100)
    history.checkpoint(100)
    history.verified(100)
    assert history.all_of(Seal)[0].sample is None


def test_several_pending_checkpoints_are_sealed_in_their_order() -> None:
    history = running(100)
    history.checkpoint(100)
    history.steps(101, 200)
    history.checkpoint(200)
    history.verified(200)
    assert seals(history) == []
    history.verified(100)
    assert seals(history) == [100]
    history.sealed(100)
    assert seals(history) == [100, 200]
    history.sealed(200)
    assert [seal.point.step for seal in history.state.seals] == [200, 100]


def test_a_refused_checkpoint_lets_the_next_one_pass() -> None:
    history = running(100)
    history.checkpoint(100)
    history.steps(101, 200)
    history.checkpoint(200)
    history.verified(200)
    history.verified(100, "cannot use step_000100.bin: v holds a negative value")
    assert seals(history) == [200]
    assert history.journal("checkpoint-refused")[0]["step"] == 100
    assert "v holds a negative value" in alarms(history)


def test_a_seal_that_cannot_be_written_leaves_the_checkpoint_unsealed() -> None:
    history = running(100)
    history.checkpoint(100)
    history.steps(101, 200)
    history.checkpoint(200)
    history.verified(100)
    history.verified(200)
    history.fails("seal")
    assert seals(history) == [100, 200]
    history.sealed(200)
    assert [seal.point.step for seal in history.state.seals] == [200]
    assert "stays unsealed" in alarms(history)


@pytest.mark.parametrize("step", [99, 101, 1000])
def test_a_checkpoint_that_is_not_at_the_last_step_is_set_aside(step: int) -> None:
    history = running(100)
    history.checkpoint(step)
    assert not history.all_of(Verify)
    assert "set aside" in alarms(history)


def test_a_checkpoint_of_the_step_resumed_from_is_set_aside() -> None:
    history = running(100, with_seals(fresh_state(), 100))
    history.checkpoint(100)
    assert not history.all_of(Verify)


def test_an_end_before_the_ledger_has_all_waits_for_it() -> None:
    history = running(99)
    history.steps(100, 100, recorded=False)
    history.checkpoint(100)
    history.end()
    history.verified(100)
    assert (seals(history), history.state.life) == ([], Life.DRAINING)
    history.recorded(100)
    assert seals(history) == [100]
    history.sealed(100)
    assert history.state.life is Life.STARTING


def test_a_visible_checkpoint_that_nobody_reported_is_sealed_at_the_last_step() -> None:
    history = running(100)
    history.end(visible=[100])
    assert [effect.sha256 for effect in history.all_of(Verify)] == [""]
    history.verified(100)
    assert history.all_of(Seal)[0].reason == "unreported"
    history.sealed(100)
    assert history.all_of(Spawn)[-1].resume == point(100)


@pytest.mark.parametrize("step", [50, 101])
def test_a_visible_checkpoint_of_another_step_is_set_aside(step: int) -> None:
    history = running(100)
    history.end(visible=[step])
    assert not history.all_of(Verify)
    assert "set aside" in alarms(history)


def test_a_visible_checkpoint_of_step_0_does_not_keep_the_attempt_from_ending() -> None:
    history = running(0)
    history.end(visible=[0])
    assert not history.all_of(Verify)
    assert history.state.life is Life.BACKOFF


def test_what_is_pending_is_not_taken_for_unreported() -> None:
    history = running(100)
    history.checkpoint(100)
    history.end(visible=[100])
    assert len(history.all_of(Verify)) == 1


def test_a_seal_counts_what_was_proved_up_to_its_step_only() -> None:
    history = History(with_seals(fresh_state(), 100))
    history.begin()
    history.spawned(ledger_step=300)
    history.ready()
    history.steps(101, 200, recorded=False)
    history.checkpoint(200)
    history.recorded(200, proved=100)
    history.steps(201, 300, recorded=False)
    history.recorded(300, proved=100)
    history.verified(200)
    assert history.all_of(Seal)[0].replay == (100, 0)


def test_a_replay_is_told_once_when_it_is_over() -> None:
    history = History(with_seals(fresh_state(), 100))
    history.begin()
    history.spawned(ledger_step=150)
    history.ready()
    history.steps(101, 140, recorded=False)
    history.recorded(140, proved=40)
    assert not history.journal("replay")
    history.steps(141, 160, recorded=False)
    history.recorded(160, proved=10)
    history.steps(161, 170)
    (told,) = history.journal("replay")
    facts = (told["first"], told["last"], told["proved"], told["differed"])
    assert facts == (101, 150, 50, None)


def test_a_replay_that_differs_is_named_at_once() -> None:
    history = History(with_seals(fresh_state(), 100))
    history.begin()
    history.spawned(ledger_step=150)
    history.ready()
    history.steps(101, 120, recorded=False)
    event = Recorded(1, history.position(120), 19, 0, 120, "loss 3.1, it was 3.2")
    history.tell(event)
    assert history.journal("replay-differed")[0]["step"] == 120
    assert history.journal("replay")[0]["differed"] == 120
    assert "replayed step 120 is not equal: loss 3.1, it was 3.2" in alarms(history)
    history.tell(replace(event, position=history.position(121)))
    assert len(history.journal("replay-differed")) == 1


def test_news_of_an_older_attempts_checkpoints_is_dropped() -> None:
    history = running(100)
    history.checkpoint(100)
    history.verified(100)
    first = history.turns[-1][0]
    history.sealed(100)
    second = history.turns[-1][0]
    third = history.turns[-4][0]
    history.end()
    history.spawned()
    before = history.state
    assert first is not None
    assert second is not None
    assert third is not None
    assert history.tell(first, second, third) == []
    assert history.state == before
