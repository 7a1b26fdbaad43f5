"""Histories of silence: the budget of each kind of work, and what is learned of steps."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from supervisor.core.hang import Budget, HangPolicy
from supervisor.core.hanging import budget
from supervisor.core.messages import Signalled
from supervisor.core.state import Life
from tests.support.history import History, fresh_state, running, step_report, with_seals
from trainer.contract.wire import Checkpoint, Doing, Evaluation, Sample

POLICY = HangPolicy(
    factor=10.0,
    least=5.0,
    first_step=100.0,
    import_=11.0,
    load=12.0,
    compile=13.0,
    save=14.0,
    eval=15.0,
    sample=16.0,
    exit=17.0,
)


class Timed:
    """A trainer that is ready, and whose own clock is told step by step."""

    def __init__(self, policy: HangPolicy = POLICY) -> None:
        self.history = running(0, fresh_state(hang=policy))
        self.at = 1.0
        self.step = 0

    def steps(self, *seconds: float) -> Timed:
        """Steps that took so long."""
        for took in seconds:
            self.at += took
            self.step += 1
            report = step_report(self.step, 0)._replace(at=self.at)
            self.history.report(report)
        return self

    def doing(self, what: str) -> Timed:
        """Report an activity."""
        self.history.report(Doing(0, self.at, what, self.step))
        return self

    def checkpoint(self, seconds: float) -> Timed:
        """A save of the step just done."""
        self.doing("save")
        self.at += seconds
        name = f"step_{self.step:06d}.bin"
        report = Checkpoint(0, self.at, self.step, name, "", 776, "cadence", seconds, None)
        self.history.report(report)
        return self

    @property
    def budget(self) -> Budget:
        """What the core allows now."""
        found = budget(self.history.state)
        assert found is not None
        return found


def test_what_two_steps_took_counts_by_the_factor() -> None:
    trainer = Timed().steps(1, *[0.5] * 20, 8, *[0.5] * 20, 7, 0.5)
    assert trainer.budget.what == "step"
    assert trainer.budget.seconds == pytest.approx(70)
    assert "8.00 s and 7.00 s" in trainer.budget.why


def test_what_one_step_took_counts_double() -> None:
    trainer = Timed().steps(1, *[0.7] * 20, 40, *[0.7] * 20)
    assert trainer.budget.seconds == pytest.approx(80)


def test_an_outlier_is_forgotten_after_a_thousand_steps() -> None:
    trainer = Timed().steps(1, *[0.7] * 20, 40, *[0.7] * 400)
    assert trainer.budget.seconds == pytest.approx(80)
    trainer.steps(*[0.7] * 600)
    assert trainer.budget.seconds == pytest.approx(7)


def test_no_budget_is_below_the_least() -> None:
    assert Timed().steps(1, *[0.001] * 50).budget.seconds == 5


def test_a_trend_to_slower_steps_lifts_the_budget_ahead_of_them() -> None:
    trainer, took = Timed().steps(1, *[0.6] * 10), 0.6
    while took < 600:
        took *= 1.05
        assert took < trainer.budget.seconds / 5
        trainer.steps(took)


def test_steps_in_one_read_are_learned_one_by_one() -> None:
    trainer = Timed().steps(1)
    reports = [step_report(n, 0)._replace(at=2.0 + (n - 1) * 2.0) for n in range(2, 30)]
    trainer.history.report(*reports)
    assert trainer.budget.seconds == pytest.approx(20)


def test_the_first_step_has_a_budget_of_its_own_from_ready_on_and_is_not_learned() -> None:
    trainer = Timed()
    assert trainer.budget[:2] == ("first step", 100)
    trainer.steps(90)
    assert trainer.budget[:2] == ("step", 100)
    trainer.steps(*[1.0] * 7)
    assert trainer.budget.seconds == 100
    assert "only 7 steps are measured" in trainer.budget.why
    trainer.steps(1.0)
    assert trainer.budget.seconds == 10


def test_what_stands_between_two_steps_is_not_learned_as_a_step() -> None:
    trainer = Timed().steps(1, *[0.6] * 10).checkpoint(500)
    trainer.steps(0.6).doing("eval")
    trainer.at += 500
    losses = (("chat", 3.0),)
    trainer.history.report(Evaluation(0, trainer.at, trainer.step, losses))
    assert trainer.budget.what == "step"
    trainer.steps(0.6).doing("sample")
    trainer.at += 500
    trainer.history.report(Sample(0, trainer.at, trainer.step, "a", "b", 0.8))
    assert trainer.budget.what == "sample"
    trainer.steps(500.0).doing("wait").steps(500.0).doing("wait").doing("train").steps(500.0)
    assert trainer.steps(0.6).budget.seconds == pytest.approx(6)


@pytest.mark.parametrize(
    ("what", "seconds"),
    [("import", 11), ("load", 12), ("compile", 13), ("save", 14), ("eval", 15), ("sample", 16)],
)
def test_each_activity_has_its_own_budget(what: str, seconds: float) -> None:
    trainer = Timed().steps(1, *[0.6] * 10).doing(what)
    assert trainer.budget[:2] == (what, seconds)
    assert f"hang.{what}" in trainer.budget.why
    assert trainer.steps(1).budget.what == "step"


def test_before_the_first_report_it_is_importing() -> None:
    history = History(fresh_state(hang=POLICY))
    history.begin()
    history.spawned()
    found = budget(history.state)
    assert found is not None
    assert found[:2] == ("import", 11)


def test_a_wait_has_no_limit_unless_one_is_set_and_ends_with_the_word_train() -> None:
    trainer = Timed().steps(1, *[0.6] * 10).doing("wait")
    assert budget(trainer.history.state) is None
    assert trainer.doing("train").budget.what == "step"
    assert Timed(replace(POLICY, wait=9.0)).steps(1).doing("wait").budget[:2] == ("wait", 9)


def test_a_checkpoint_ends_the_budget_of_its_save() -> None:
    assert Timed().steps(1, *[0.6] * 10).checkpoint(1).budget.what == "step"


def test_what_the_trainer_did_does_not_outlive_its_attempt() -> None:
    trainer = Timed().steps(1, *[0.6] * 10).doing("save")
    history = trainer.history
    history.recorded(trainer.step)
    history.end(status=-9)
    history.wait()
    history.spawned()
    found = budget(history.state)
    assert found is not None
    assert found.what == "import"
    history.ready()
    assert history.state.attempt is not None
    assert history.state.attempt.pace.count == 0


@pytest.mark.parametrize("zero", ["first_step", "compile", "save"])
def test_zero_is_without_limit(zero: str) -> None:
    trainer = Timed(replace(POLICY, **{zero: 0.0}))
    if zero != "first_step":
        trainer.steps(1).doing(zero)
    assert budget(trainer.history.state) is None


@pytest.mark.parametrize("why", ["hold", "trouble", "stopping", "killing", "draining", "disabled"])
def test_nothing_is_counted_where_silence_proves_nothing(why: str) -> None:
    trainer = Timed().steps(1, *[0.6] * 10)
    history = trainer.history
    history.recorded(11)
    assert budget(history.state) is not None
    state = history.state
    match why:
        case "hold":
            history.state = replace(state, orders=state.orders._replace(hold="no room"))
        case "trouble":
            history.state = replace(state, trouble="disk full")
        case "stopping":
            history.tell(Signalled("TERM"))
        case "killing":
            history.ask("stop", now=True)
        case "draining":
            trainer.checkpoint(1)
            history.end()
            assert history.state.life is Life.DRAINING
        case _:
            off = replace(POLICY, enabled=False)
            history.state = replace(state, settings=replace(state.settings, hang=off))
    assert budget(history.state) is None


def test_with_no_trainer_there_is_no_budget() -> None:
    assert budget(with_seals(fresh_state(), 100)) is None


def seconds_of(policy: HangPolicy, took: Iterable[float]) -> float:
    """The budget after a first step and these."""
    return Timed(policy).steps(1, *took).budget.seconds


def test_the_defaults_leave_a_usual_trainer_alone() -> None:
    """Half a second a step, a stall of a minute now and then, one of four minutes once."""
    took = ([0.5] * 99 + [60.0]) * 6 + [240.0] + [0.5] * 50
    assert seconds_of(HangPolicy(), took) == 600
    assert seconds_of(HangPolicy(), [0.01] * 100) == 300
