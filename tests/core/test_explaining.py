"""A phase decided once more from the record: equal to the last bit, or what differs and why."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import pytest

from supervisor.core.bandit import BanditState, finish_phase, freeze, fresh, reconcile
from supervisor.core.decision_verdict import Recorded, verdict
from supervisor.core.explaining import Recomputed, Record, Result, beginning, recompute
from supervisor.core.policy import Algorithm, Arm, Distance, Policy, Unit
from supervisor.core.prices import Binding
from supervisor.core.reasons import multiplier, reasons
from trainer.contract.wire import ArmResult, Phase

SEED = 11
NAMES = tuple(f"arm{number:02d}" for number in range(6))
LIVE = frozenset(NAMES)
WIDE = tuple(Arm(name, 0.01, 0.4) for name in NAMES)
EVERY = pytest.mark.parametrize("algorithm", tuple(Algorithm))
ADAPTIVE = pytest.mark.parametrize("algorithm", tuple(Algorithm)[1:])


def policy(algorithm: Algorithm, **values: object) -> Policy:
    rules = Policy(1, "d", algorithm, Unit.SHARE, WIDE, exploration=0.5, phase_min=3, phase_max=9)
    return replace(rules, **values)  # type: ignore[arg-type]  # by name


@dataclass
class History:
    """What a run left behind: its states after each phase, and what was reported of each."""

    policy: Policy
    states: list[BanditState]
    reports: list[Phase]

    def record(self, at: int) -> Record:
        """The record from the state after phase ``at`` on."""
        mixes = {report.phase: dict(report.weights) for report in self.reports}
        return Record(self.states[at], tuple(self.reports[at:]), mixes)

    def shares(self, phase: int) -> dict[str, float]:
        return dict(self.reports[phase - 1].weights)

    def again(self, phase: int, at: int) -> Recomputed:
        found = recompute(self.record(at), self.policy, phase, self.shares(phase))
        assert found is not None
        return found


def told(state: BanditState, weights: dict[str, float] | None = None) -> Phase:
    """The report of the phase that comes first, under the weights that the trainer had."""
    order = state.phases[0]
    weights = weights or dict(order.weights)
    results = tuple(
        ArmResult(name, round(share * 50), 0, 5.0 - math.sin(order.phase * at), 0.1 * order.phase)
        for at, (name, share) in enumerate(weights.items(), 1)
        if round(share * 50)
    )
    first = state.step + 1
    last = state.step + order.steps
    ran = (order.phase, first, last, False, tuple(weights.items()), results)
    return Phase(1, 1.0, *ran)


def history(rules: Policy, phases: int = 30, *, gone: str = "", late: bool = False) -> History:
    """A run; ``gone`` leaves in the middle, seen by the trainer a phase ``late`` or at once."""
    state = fresh(rules, LIVE, SEED)
    found = History(rules, [state], [])
    for number in range(1, phases + 1):
        report = told(state)
        if gone and number == phases // 2:
            kept = state.phases[1]  # the trainer looked at its orders before the source went
            state, _ = reconcile(state, rules, LIVE - {gone}, state.step)
            state = finish_phase(state, rules, report)
            if late:
                found.reports.append(report)
                found.states.append(state)
                report = told(state, dict(kept.weights))
                state = finish_phase(state, rules, report)
        else:
            state = finish_phase(state, rules, report)
        found.reports.append(report)
        found.states.append(state)
    return found


@EVERY
def test_every_phase_is_decided_once_more_to_the_last_bit(algorithm: Algorithm) -> None:
    run = history(policy(algorithm))
    for phase in (3, 12, 29):
        for at in (0, phase // 2, phase - 2):
            found = run.again(phase, min(at, phase - 3))
            assert dict(found.order.weights) == run.shares(phase)
            assert (found.changes, found.missing) == ((), ())
            assert found.state.finished == phase - 2


@EVERY
def test_the_first_phases_of_a_policy_follow_from_its_beginning(algorithm: Algorithm) -> None:
    rules = policy(algorithm)
    run = history(rules)
    empty = beginning(rules, LIVE, SEED, None, 0)
    assert (empty.phases, empty.decided, empty.step) == ((), 0, 0)
    for phase in (1, 2, 3, 10):
        record = replace(run.record(0), state=empty)
        found = recompute(record, rules, phase, run.shares(phase))
        assert found is not None
        assert dict(found.order.weights) == run.shares(phase)


def test_a_policy_that_follows_another_begins_where_that_one_stood() -> None:
    before = history(policy(Algorithm.UCB1)).states[-1]
    rules = policy(Algorithm.THOMPSON, number=2)
    state = fresh(rules, LIVE, SEED, before, before.step)
    empty = beginning(rules, LIVE, SEED, before, before.step)
    found = recompute(Record(empty, (), {}), rules, before.decided + 1, {})
    assert found is not None
    assert found.order == state.phases[0]


@ADAPTIVE
@pytest.mark.parametrize("late", [False, True])
def test_a_source_that_left_is_seen_from_the_phases_themselves(
    algorithm: Algorithm, *, late: bool
) -> None:
    run = history(policy(algorithm), gone="arm02", late=late)
    assert "arm02" in run.shares(10)
    for phase in range(12, 24):
        found = run.again(phase, 9)
        assert dict(found.order.weights) == run.shares(phase), phase
    [change] = run.again(22, 9).changes
    assert (change.left, change.joined) == (("arm02",), ())


def test_an_arm_read_often_enough_leaves_by_itself() -> None:
    run = history(policy(Algorithm.UCB1, max_epochs=1.5))
    assert len(run.states[20].arms) < len(run.states[5].arms)
    for phase in range(10, 25):
        found = run.again(phase, 5)
        assert dict(found.order.weights) == run.shares(phase)
        assert found.changes == ()


def test_a_mix_that_a_guard_froze_is_known_by_the_step() -> None:
    rules = policy(Algorithm.DUCB)
    run = history(rules, 12)
    state, step = run.states[6], run.reports[7].first
    for _ in range(6):
        report = told(state)
        state = freeze(state, "spike") if report.first == step else state
        state = finish_phase(state, rules, report)
        run.reports[report.phase - 1] = report
    frozen = replace(run.record(6), freezes=(step,))
    found = recompute(frozen, rules, 11, run.shares(11))
    assert found is not None
    assert found.decision.algorithm is Algorithm.STATIC
    assert dict(found.order.weights) == run.shares(11)
    unfrozen = recompute(run.record(6), rules, 11, run.shares(11))
    assert unfrozen is not None
    assert dict(unfrozen.order.weights) != run.shares(11)


@ADAPTIVE
def test_without_one_report_the_recomputed_phase_differs_and_says_which(
    algorithm: Algorithm,
) -> None:
    """The control: a fold that lost a report, and nothing else, is noticed."""
    run = history(policy(algorithm))
    shares = run.shares(14)
    equal = 0
    for lost in (8, 10, 12):
        record = run.record(6)
        record = replace(record, reports=tuple(r for r in record.reports if r.phase != lost))
        found = recompute(record, run.policy, 14, shares)
        assert found is not None
        assert found.missing == (lost,)
        result, why = verdict(found, recorded(run, 14), None)
        assert result is Result.DIFFERS
        assert why[-1] == f"the report of phase {lost} is missing"
        equal += dict(found.order.weights) == shares
    # Where the best arms are plain, one report changes no mix, and is missed all the same.
    assert equal == 0 or algorithm is not Algorithm.EXP3S


def test_a_loss_that_was_changed_a_little_is_noticed() -> None:
    run = history(policy(Algorithm.EXP3S))
    report = run.reports[9]
    arms = tuple(result._replace(loss=(result.loss or 0.0) + 1e-9) for result in report.arms)
    run.reports[9] = report._replace(arms=arms)
    found = recompute(run.record(6), run.policy, 12, run.shares(12))
    result, why = verdict(found, recorded(run, 12), None)
    assert result is Result.DIFFERS
    assert "most that of arm" in why[0]


def steps_of(run: History, phase: int) -> int:
    report = run.reports[phase - 1]
    return report.last - report.first + 1


def recorded(run: History, phase: int, **values: object) -> Recorded:
    found = Recorded(
        phase,
        run.shares(phase),
        steps_of(run, phase),
        repeated=False,
        arm=NAMES[0],
        propensity=None,
    )
    return replace(found, **values)  # type: ignore[arg-type]  # by name


def test_what_differs_is_said_with_its_cause() -> None:
    run = history(policy(Algorithm.UCB1))
    found = run.again(8, 4)
    equal = recorded(run, 8)
    assert verdict(found, equal, None) == (Result.EQUAL, ())
    cases = [
        (replace(equal, repeated=True), "phase 8 ran the shares of phase 7 once more"),
        (replace(equal, shares={**run.shares(8), "other": 0.0}), "other had come"),
        (replace(equal, shares={NAMES[0]: run.shares(8)[NAMES[0]]}), "had left"),
        (replace(equal, steps=1), "phase 8 lasted 1 steps"),
        (replace(equal, propensity=0.987), "the step tells a propensity of 0.987"),
        (replace(equal, shares=run.shares(5), older=True), "an earlier version"),
    ]
    for case, words in cases:
        result, why = verdict(found, case, None)
        assert result is Result.DIFFERS
        assert words in "; ".join(why), words


def test_where_nothing_is_recorded_nothing_is_claimed() -> None:
    run = history(policy(Algorithm.UCB1))
    assert verdict(None, recorded(run, 8), None)[0] is Result.UNKNOWN
    unknown = recorded(run, 8, shares=None)
    assert verdict(run.again(8, 4), unknown, None)[0] is Result.UNKNOWN
    share = run.shares(8)[NAMES[0]]
    assert verdict(run.again(8, 4), replace(unknown, propensity=share), None)[0] is Result.EQUAL
    reports = replace(run.record(4), reports=())
    assert recompute(reports, run.policy, 8, run.shares(8)) is None


# ---------------------------------------------------------------- each arm's reasons


@pytest.mark.parametrize("projection", tuple(Distance))
@EVERY
def test_shares_at_a_bound_are_told_with_the_bound(
    algorithm: Algorithm, projection: Distance
) -> None:
    rules = policy(algorithm, projection=projection)
    run = history(rules)
    found = run.again(20, 10)
    every = reasons(found.state, rules, found.decision)
    assert [reason.arm for reason in every] == [name for name, _ in found.order.weights]
    assert math.fsum(reason.share for reason in every) == pytest.approx(1.0, abs=1e-12)
    for reason in every:
        at_floor = reason.share == pytest.approx(reason.floor, abs=1e-12)
        at_cap = reason.share == pytest.approx(reason.cap, abs=1e-12)
        expected = Binding.FLOOR if at_floor else Binding.CAP if at_cap else Binding.NONE
        assert reason.binding is expected
        assert reason.price is not None
        assert reason.binding is not Binding.NONE or reason.price == 0.0
    factor = multiplier(found.decision, every)
    if algorithm is not Algorithm.DUCB and projection is Distance.KL:
        free = [r for r in every if r.binding is Binding.NONE and r.weight > 0]
        assert free == [] or factor == pytest.approx(free[0].share / free[0].weight)


def test_arms_that_wait_for_the_end_of_the_warm_up_are_marked() -> None:
    rules = policy(Algorithm.UCB1, curriculum_warmup_steps=100, curriculum_warmup_sources=NAMES[:4])
    found = history(rules).again(4, 1)
    every = {reason.arm: reason for reason in reasons(found.state, rules, found.decision)}
    assert [name for name in NAMES if not every[name].masked] == list(NAMES[:4])
    assert (every[NAMES[5]].share, every[NAMES[5]].cap, every[NAMES[5]].price) == (0.0, 0.0, None)
    assert every[NAMES[5]].binding is Binding.NONE


def test_bounds_of_weights_bind_weights() -> None:
    arms = tuple(Arm(name, 0.4, 0.9) for name in NAMES)
    rules = policy(Algorithm.UCB1, unit=Unit.WEIGHT, arms=arms)
    found = history(rules).again(9, 3)
    for reason in reasons(found.state, rules, found.decision):
        high = reason.weight >= 0.9
        assert reason.binding is (Binding.CAP if high else Binding.FLOOR)
        assert reason.price is None
