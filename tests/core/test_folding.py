"""Histories of reports: what is known follows from them in order, and not from how they came."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from supervisor.core.messages import (
    BadReport,
    Cause,
    CloseAttempt,
    GiveOrders,
    Journal,
    KeepSamples,
    Record,
    Reports,
    ReportsPosition,
    Say,
    SignalTrainer,
    Spawn,
    Verify,
)
from supervisor.core.state import Life, State
from tests.support.history import History, fresh_state, point, running, step_report, with_seals
from trainer.contract.wire import (
    ArmResult,
    Checkpoint,
    Doing,
    Evaluation,
    Phase,
    Ready,
    Report,
    Sample,
)


def broken(history: History) -> str:
    """The alarm about a broken contract."""
    (text,) = [e.text for e in history.all_of(Say) if "cannot use the trainer's reports" in e.text]
    return text


@pytest.mark.parametrize("step", [52, 50, 1, 1000])
def test_a_step_that_does_not_follow_ends_the_attempt(step: int) -> None:
    history = running(50)
    history.report(step_report(step, 0))
    assert f"step {step} came where 51 was due" in broken(history)
    assert history.all_of(SignalTrainer)[-1].name == "KILL"
    assert history.state.life is Life.KILLING
    history.end()
    assert history.all_of(CloseAttempt)[-1].facts["cause"] == Cause.BROKE_CONTRACT
    assert history.state.life is Life.BACKOFF


def test_the_steps_before_a_gap_are_kept_however_they_were_read() -> None:
    at_once, apart = running(50), running(50)
    reports = [step_report(step, 0) for step in (51, 52, 53, 55)]
    at_once.report(*reports)
    for report in reports:
        apart.report(report)
    for history in (at_once, apart):
        recorded = [step.step for effect in history.all_of(Record) for step in effect.steps]
        assert recorded == list(range(1, 54))
        assert history.state.attempt is not None
        assert history.state.attempt.last_step == 53


def test_a_trainer_that_resumed_elsewhere_is_ended() -> None:
    history = History(with_seals(fresh_state(), 300))
    history.begin()
    history.spawned()
    history.ready(0)
    assert "it resumed after step 0, not 300" in broken(history)
    assert history.state.life is Life.KILLING


def test_a_trainer_that_steps_before_it_is_ready_is_ended() -> None:
    history = History()
    history.begin()
    history.spawned()
    history.steps(1, 1, recorded=False)
    assert "step 1 came before it was ready" in broken(history)


def test_a_bad_line_ends_the_attempt_and_nothing_after_it_is_believed() -> None:
    history = running(50)
    history.tell(BadReport(1, "cannot follow reports.jsonl after report 51: not an object"))
    assert history.state.life is Life.KILLING
    before = history.state
    history.steps(51, 60, recorded=False)
    history.checkpoint(60)
    assert history.state == before
    assert not history.all_of(Verify)


def test_a_checkpoint_before_the_break_is_still_sealed() -> None:
    history = running(100)
    history.checkpoint(100)
    history.report(step_report(200, 0))
    history.end()
    history.verified(100)
    history.sealed(100)
    assert history.state.seals[0].point.step == 100
    assert history.state.life is Life.STARTING


def test_late_news_of_an_older_attempt_is_dropped() -> None:
    history = running(100)
    history.seal(100)
    old = (
        Reports(1, (step_report(101, 9),), ReportsPosition(1, 200, 20_000)),
        BadReport(1, "a line too late"),
    )
    history.end()
    history.spawned()
    before = history.state
    assert history.tell(*old) == []
    assert history.state == before


def test_samples_and_evaluations_are_kept() -> None:
    history = running(100)
    sample = Sample(0, 1.0, 100, "say", "said", 0.8)
    history.report(sample, Evaluation(0, 1.0, 100, (("chat", 3.5),)))
    assert history.all_of(KeepSamples) == [], "their step is not over"
    history.steps(101, 101)
    (kept,) = history.all_of(KeepSamples)
    assert (kept.attempt, kept.policy) == (1, 1)
    assert [said.text for said in kept.samples] == ["said"]
    assert history.journal("evaluation") == [{"step": 100, "losses": {"chat": 3.5}}]


def test_a_finished_phase_decides_the_one_after_the_next() -> None:
    history = running(10)
    history.phase(1, 1, 10)
    orders = history.all_of(GiveOrders)[-1].orders
    assert [phase.phase for phase in orders.phases] == [2, 3]
    assert orders.phases == history.state.bandit.phases


def test_a_repeated_phase_is_told_of_and_its_mix_is_kept_for_a_replay() -> None:
    history = running(10)
    history.phase(1, 1, 10)
    weights = (("chat", 1.0), ("code", 0.0), ("prose", 0.0))
    results = (ArmResult("chat", 10, 0, 4.0),)
    history.steps(11, 20)
    history.report(Phase(0, 2.0, 2, 11, 20, True, weights, results))  # noqa: FBT003 - a report
    assert any("repeated phase 1" in effect.text for effect in history.all_of(Say))
    history.end()
    history.wait()
    orders = history.state.orders
    assert [phase.phase for phase in orders.phases] == [1, 2]
    assert orders.phases[1].weights == weights
    assert orders.phases[1].steps == 10


def test_a_fall_back_gives_the_phases_that_ran_between_both_seals_as_they_ran() -> None:
    history = running(10)
    history.phase(1, 1, 10)
    history.steps(11, 12)
    history.seal(12)
    history.steps(13, 30)
    history.phase(2, 11, 30, repeated=True)  # longer than decided
    ran = history.state.named[-1]
    history.seal(30)
    for _ in range(3):
        history.end(status=1)
        history.wait()
        history.spawned()
        history.ready()
    history.end(status=1)
    history.wait()
    spawn = history.all_of(Spawn)[-1]
    assert spawn.resume == point(12)
    assert ran in spawn.orders.phases


def long_life(last: int) -> list[Report]:
    """The reports of an attempt with phases, samples and checkpoints, numbered."""
    rng = random.Random(3)  # noqa: S311 - chance that can be repeated
    reports: list[Report] = [Ready(0, 1.0, 4242, 64, 0, companion=True)]
    began, number, length = 1, 1, 12
    for step in range(1, last + 1):
        arm = rng.choice(("chat", "code", "prose"))
        loss = 6.0 - step / 500 + rng.random()
        reports.append(step_report(step, 0, arm)._replace(loss=loss, phase=number))
        if step == began + length - 1:
            results = tuple(ArmResult(a, 4, 0, 5.0 + rng.random()) for a in ("chat", "code"))
            reports.append(Phase(0, step / 10, number, began, step, False, (), results))  # noqa: FBT003 - a report
            began, number, length = step + 1, number + 1, rng.randint(7, 42)
        if step % 50 == 0:
            reports.append(Doing(0, step / 10, "save", step))
            reports.append(Sample(0, step / 10, step, "say", f"said at {step}", 0.8))
            name = f"step_{step:06d}.bin"
            digest = f"{step:064x}"
            reports.append(Checkpoint(0, step / 10, step, name, digest, 776, "cadence", 0.1, None))
    return [report._replace(seq=seq) for seq, report in enumerate(reports, 1)]


def fold(reports: list[Report], cuts: random.Random | None) -> tuple[State, list[object]]:
    """The state after these reports, read in pieces of random size or one at a time."""
    history = History()
    history.begin()
    history.spawned()
    piece: list[Report] = []
    for report in reports:
        piece.append(report)
        full = isinstance(report, Checkpoint) or report is reports[-1]
        if full or cuts is None or cuts.random() < 0.02:
            position = ReportsPosition(1, report.seq, report.seq * 100)
            history.tell(Reports(1, tuple(piece), position))
            piece = []
    kept = [e for e in history.all_of(object) if isinstance(e, KeepSamples | Verify | Journal)]
    return history.state, kept


@pytest.mark.parametrize("seed", range(5))
def test_the_same_reports_come_to_the_same_state_however_they_are_read(seed: int) -> None:
    reports = long_life(400)
    one, told = fold(reports, None)
    other, also = fold(reports, random.Random(seed))  # noqa: S311 - chance that can be repeated
    assert other.bandit == one.bandit
    assert other.orders == one.orders
    assert other.pending == one.pending
    assert also == told
    assert one.attempt is not None
    assert other.attempt is not None
    # Only the smoothed rate, which decides nothing, follows the reading.
    same = {"rate": 0.0, "longest_step": 0.0}
    assert replace(other.attempt, **same) == replace(one.attempt, **same)  # type: ignore[arg-type]  # by name, in tests


def test_a_mix_of_sequences_counts_each_pull() -> None:
    history = running(0)
    history.report(step_report(1, 0, "chat=12 code=4"), step_report(2, 0, "code=16"))
    served = {arm.name: arm.served for arm in history.state.bandit.arms}
    assert served == {"chat": 12, "code": 20, "prose": 0}
