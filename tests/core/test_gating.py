"""The gate in histories: samples come in, episodes are told once, recovery comes to the same."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from supervisor.core.coherence.gate import HELD, KEPT, WATCHING, GateState, Rules, known_at
from supervisor.core.gating import facts
from supervisor.core.messages import Exit, KeepSamples, Retain, Say, Seal
from supervisor.core.rungs import Action
from supervisor.core.state import Life, Want
from tests.support.history import History, fresh_state, running
from tests.support.speech import COLLAPSED, healthy
from trainer.contract.wire import Doing, Finished, Sample

RNG = random.Random(11)  # noqa: S311 - chance that can be repeated
GOOD = healthy(RNG)
BAD = COLLAPSED[0]
EACH = replace(WATCHING, every=10, after=0)


def watched(rules: Rules = EACH) -> History:
    return running(0, fresh_state(gate=rules))


def said(history: History, step: int, *texts: str) -> None:
    """The step is done, and sampled."""
    assert history.state.attempt is not None
    history.steps(history.state.attempt.last_step + 1, step)
    for number, text in enumerate(texts):
        history.report(Sample(0, 1.0, step, f"say {number}", text, 0.8))


def guards(history: History) -> list[dict[str, object]]:
    return [facts for facts in history.journal("guard") if facts["guard"] == "gate"]


def test_a_collapse_is_acted_on_once_for_the_episode() -> None:
    history = watched()
    for step in range(10, 400, 10):
        said(history, step, GOOD if step < 100 else BAD)
    (told,) = guards(history)
    assert told["step"] == 140, "the fifth in a row"
    assert (told["action"], told["rules"]) == ("alert", "5 in a row")
    (text,) = [one.text for one in history.all_of(Say) if "collapsed" in one.text]
    assert "the newest at step 140, score 3.6" in text
    assert facts(history.state)["firing"].startswith("5 in a row")
    assert facts(history.state)["since"] == 140
    assert facts(history.state)["failing_since"] == 100, "what a rewind goes to before of"


def test_an_episode_that_is_over_is_said_and_the_next_one_is_told_again() -> None:
    history = watched()
    for n in range(1, 120):
        said(history, n * 10, BAD if n <= 6 or n >= 90 else GOOD)
    assert [told["step"] for told in guards(history)] == [50, 940]
    (quiet,) = history.journal("guard-quiet")
    assert 60 < quiet["step"] < 900


def test_samples_of_early_steps_are_scored_and_count_in_no_rule() -> None:
    history = watched(replace(EACH, after=1000))
    for step in range(10, 300, 10):
        said(history, step, BAD)
    assert guards(history) == []
    assert history.state.gate.last is not None
    assert (history.state.gate.last.verdict, history.state.gate.last.counts) == ("fail", False)


def test_many_samples_of_one_step_are_one_outcome() -> None:
    history = watched()
    said(history, 10, *[BAD] * 6, *[GOOD] * 6)
    said(history, 20, *[BAD] * 7, *[GOOD] * 6)
    history.steps(21, 21)
    assert [outcome.verdict for outcome in history.state.gate.outcomes] == ["pass", "fail"]
    assert guards(history) == [], "thirteen failing samples are no five failing steps"


def test_a_stop_by_the_gate_seals_and_exits_by_its_own_code() -> None:
    history = watched(replace(EACH, action=Action.STOP, in_a_row=1))
    said(history, 10, BAD)
    history.steps(11, 11)
    assert (history.state.want, history.state.life) == (Want.STOP, Life.STOPPING)
    history.seal(11, "stop")
    history.finished("stop")
    history.end(status=0)
    assert [effect.code for effect in history.all_of(Exit)] == [12]


def test_a_rollback_goes_back_to_before_the_collapse_began() -> None:
    history = watched(replace(EACH, action=Action.ROLL_BACK))
    for step in range(10, 150, 10):
        said(history, step, GOOD if step <= 90 else BAD)
        history.seal(step)
    history.steps(141, 141)
    (told,) = guards(history)
    assert (told["step"], told["since"], told["action"]) == (100, 100, "rollback")
    history.end(status=-9)
    (back,) = history.journal("rolled-back")
    assert back["to"] == 90, "the checkpoints of 100 to 140 are of a collapsed model"
    assert [outcome.step for outcome in history.state.gate.outcomes] == list(range(10, 100, 10))


def test_the_way_back_to_before_a_collapse_is_never_deleted_while_it_lasts() -> None:
    history = watched()
    for step in range(10, 10 * (KEPT + 40), 10):
        said(history, step, GOOD if step <= 90 else BAD)
        if step % 50 == 40 or step == 90:
            history.seal(step)
    assert {effect.suspected for effect in history.all_of(Retain)} == {0, 100}
    assert history.all_of(Retain)[-1].suspected == 100
    assert [seal.point.step for seal in history.state.seals][-1] == 90, "of more than are kept"
    assert facts(history.state)["since"] == 140, "however long ago that was"


def test_a_rollback_that_waits_keeps_what_it_goes_back_to() -> None:
    history = watched(replace(EACH, action=Action.ROLL_BACK, cusum=0.0))
    for step in range(10, 150, 10):
        said(history, step, GOOD if step <= 90 else BAD)
        if step <= 130:
            history.seal(step)
    history.steps(141, 141)
    history.seal(140)
    assert history.all_of(Retain)[-1].suspected == 100


def test_a_seal_names_the_verdict_on_its_own_sample_and_on_no_other() -> None:
    history = watched()
    said(history, 10, BAD)
    history.checkpoint(10)
    history.verified(10)
    (seal,) = history.all_of(Seal)
    assert seal.sample == 10
    assert seal.sample_verdict is not None
    assert (seal.sample_verdict.step, seal.sample_verdict.verdict) == (10, "fail")
    assert seal.sample_verdict.score is not None
    assert seal.sample_verdict.score < 30
    history.sealed(10)
    history.steps(11, 13)
    history.checkpoint(13)
    history.verified(13)
    assert history.all_of(Seal)[-1].sample_verdict is None


def test_samples_are_durable_before_the_seal_that_names_them() -> None:
    history = watched()
    said(history, 10, GOOD)
    history.report(Doing(0, 1.0, "save", 10))
    history.checkpoint(10)
    history.verified(10)
    told = [e for e in history.all_of(object) if isinstance(e, KeepSamples | Seal)]
    assert [type(effect) for effect in told] == [KeepSamples, Seal]
    (kept,) = history.all_of(KeepSamples)
    assert [sample.text for sample in kept.samples] == [GOOD]


def test_a_cadence_without_a_sample_is_an_alarm_once_until_there_is_one_again() -> None:
    history = watched()
    said(history, 10, GOOD)
    history.steps(11, 20)
    assert guards(history) == [], "it may still come"
    history.steps(21, 60)
    (told,) = guards(history)
    assert (told["step"], told["missing"], told["action"]) == (20, 20, "alert")
    assert history.state.gate.missing == 20
    said(history, 70, GOOD)
    history.steps(71, 91)
    assert history.state.gate.missing == 80
    assert [told["step"] for told in guards(history)] == [20, 80]


def test_a_sample_between_the_cadences_is_one_and_no_cadence_means_no_alarm() -> None:
    history = watched()
    for step in (15, 25, 35):
        said(history, step, GOOD)
    # The first cadence had none, as the attempt began at 0.
    assert [told["step"] for told in guards(history)] == [10]
    history = watched(replace(EACH, every=0))
    history.steps(1, 500)
    assert guards(history) == []


def test_a_trainer_that_stops_at_a_cadence_owes_no_sample() -> None:
    history = watched()
    said(history, 10, GOOD)
    history.steps(11, 20)
    history.report(Finished(0, 9.0, "stop", 20))
    assert guards(history) == []


def test_a_gate_that_can_judge_nothing_says_so_once() -> None:
    history = watched()
    for step in range(10, 200, 10):
        said(history, step, "too short")
    (told,) = guards(history)
    assert (told["step"], told["blind"]) == (50, 5)
    said(history, 200, GOOD)
    history.steps(201, 201)
    assert facts(history.state)["blind"] == 0


def test_a_sample_of_another_step_is_kept_and_has_no_say() -> None:
    history = watched(replace(EACH, in_a_row=1))
    said(history, 10, GOOD)
    history.checkpoint(10)
    for step in (10, 5, 10**12):
        history.report(Sample(0, 1.0, step, "late", BAD, 0.8))
    history.steps(11, 11)
    assert [outcome.step for outcome in history.state.gate.outcomes] == [10]
    assert guards(history) == []
    kept = [sample for effect in history.all_of(KeepSamples) for sample in effect.samples]
    assert [sample.step for sample in kept] == [10, 10, 5, 10**12]
    assert [sample.verdict for sample in kept] == ["pass", "fail", "fail", "fail"]


def test_a_resume_drops_what_was_known_of_later_steps() -> None:
    history = watched()
    for step in range(10, 70, 10):
        said(history, step, GOOD if step <= 20 else BAD)
        if step == 20:
            history.seal(20)
    assert history.state.gate.outcomes[-1].step == 50
    history.end(status=-9)
    history.wait()
    assert history.state.attempt is not None
    assert history.state.attempt.resumed == 20
    assert [outcome.step for outcome in history.state.gate.outcomes] == [10, 20]
    dropped = history.all_of(KeepSamples)[-1]
    assert [outcome.step for outcome in dropped.gate.outcomes] == [10, 20]


@pytest.mark.parametrize("seed", range(4))
def test_a_fold_cut_at_a_seal_and_gone_on_with_comes_to_the_same(seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311 - chance that can be repeated
    texts = {step: BAD if rng.random() < 0.3 else healthy(rng) for step in range(10, 800, 10)}
    whole = watched()
    for step, text in texts.items():
        said(whole, step, text)
    at = rng.randrange(10, 700, 10)
    # What the file holds may be of later steps than the seal.
    begun = replace(whole.state, gate=known_at(whole.state.gate, at))
    resumed = watched()
    resumed.steps(1, at)
    resumed.state = replace(resumed.state, gate=begun.gate)
    for step, text in texts.items():
        if step > at:
            said(resumed, step, text)
    assert resumed.state.gate.outcomes == whole.state.gate.outcomes
    assert resumed.state.gate.missing == whole.state.gate.missing


def test_a_pivot_begins_a_gate_that_knows_nothing() -> None:
    history = watched()
    said(history, 100, BAD)
    history.seal(100)
    history.pivot()
    history.end(status=0)
    history.stage("stopped")
    assert history.state.gate.outcomes
    history.stage("installed")
    assert history.state.gate == GateState()


def test_a_step_with_very_many_samples_is_kept_in_pieces() -> None:
    history = watched()
    said(history, 10, *[f"{GOOD} {n}" for n in range(2 * HELD + 3)])
    history.steps(11, 11)
    pieces = [len(effect.samples) for effect in history.all_of(KeepSamples)]
    assert pieces == [HELD, HELD, 3]
    assert [outcome.judged for outcome in history.state.gate.outcomes] == [32]
