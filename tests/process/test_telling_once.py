"""What a repeated fold tells again stands in the journal once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from supervisor.config import load
from supervisor.core.bandit import fresh
from supervisor.core.messages import Journal
from supervisor.core.policy import Algorithm, Arm, Policy, Unit
from supervisor.daemon.opening import open_parts
from supervisor.perform.effects import carry_out
from tests.support.history import fresh_state, running
from tests.support.runs import make_run, scripted
from trainer.contract.wire import ArmResult, Phase

pytestmark = pytest.mark.system
ARMS = (Arm("a"), Arm("b"))
ONCE = Policy(1, "d", Algorithm.UCB1, Unit.SHARE, ARMS, max_epochs=1.0)


def told_by_a_fold() -> list[Journal]:
    """A phase at whose end one arm was read enough."""
    bandit = fresh(ONCE, frozenset("ab"), 5)
    history = running(0, replace(fresh_state(), policy=ONCE, bandit=bandit))
    order = bandit.phases[0]
    results = (ArmResult("a", 3, 0, 3.0, 1.5), ArmResult("b", 3, 0, 3.0, 0.5))
    history.steps(1, order.steps)
    history.report(
        Phase(0, 1.0, 1, 1, order.steps, repeated=False, weights=order.weights, arms=results)
    )
    return [effect for effect in history.all_of(Journal) if effect.event == "arm-retired"]


def test_an_arm_that_was_read_enough_is_told_of_once_whoever_folds_its_phase_again(
    tmp_path: Path,
) -> None:
    run = make_run(tmp_path / "run", scripted())
    parts = open_parts(load(run.path), None, None, fresh=True)
    try:
        for effect in (*told_by_a_fold(), *told_by_a_fold()):
            carry_out(parts, effect)
    finally:
        parts.events.close()
        parts.ledger.close()
    (facts,) = run.events("arm-retired")
    assert (facts["arm"], facts["why"]) == ("a", "read max_epochs times")
    assert facts["step"] == fresh(ONCE, frozenset("ab"), 5).phases[0].steps
