"""A phase that the trainer had begun when its arms changed, decided once more from the record."""

from __future__ import annotations

from supervisor.core.bandit import finish_phase, fresh
from supervisor.core.policy import Algorithm
from tests.core.test_explaining import LIVE, NAMES, SEED, History, policy, told


def test_a_phase_that_had_begun_when_an_arm_was_read_enough_runs_as_it_was_decided() -> None:
    rules = policy(Algorithm.STATIC, max_epochs=1.0)
    state = fresh(rules, LIVE, SEED)
    run = History(rules, [state], [])
    kept, begun = state.phases[1], 0
    for _ in range(14):
        number = state.phases[0].phase
        report = told(state, dict(kept.weights) if number == begun else None)
        read = tuple(
            one._replace(epochs=0.1 * number * (one.arm == NAMES[0])) for one in report.arms
        )
        kept = state.phases[1]
        state = finish_phase(state, rules, report._replace(arms=read))
        if not begun and dict(state.phases[0].weights) != dict(kept.weights):
            begun = kept.phase
        run.reports.append(report._replace(arms=read))
        run.states.append(state)
    assert NAMES[0] in run.shares(begun)
    assert NAMES[0] not in run.shares(begun + 1)
    for phase in (begun - 1, begun, begun + 1, begun + 2):
        assert dict(run.again(phase, 2).order.weights) == run.shares(phase)
