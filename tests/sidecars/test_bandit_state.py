"""``NAME.state.json``: its golden forms, the migration of the first, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from supervisor.core.bandit import ArmState, BanditState, Discounted, Retired, finish_phase
from supervisor.core.policy import Algorithm, Arm, Policy, Unit
from supervisor.errors import RefusedError
from supervisor.sidecars import bandit_state
from trainer.contract.wire import ArmResult, Phase, PhaseOrder

GOLDEN = Path(__file__).parent / "golden"
FIRST = json.loads((GOLDEN / "bandit_1.json").read_bytes())
STATE = BanditState(
    policy=3,
    digest="0" * 32,
    arms=(
        ArmState(
            "chat",
            *(40, 2, 20, 0.875, 0.5, 3.25, 112816, 1.5, Discounted(12.5, 9.0, 7.5), 0.0),
            epochs_from=(1.25, 30),
            content="0123456789abcdef",
            changed=112800,
        ),
        ArmState("prose", 39, log_weight=-1.25),
    ),
    phases=(PhaseOrder(6, 15, (("chat", 0.75), ("prose", 0.25))),),
    decided=6,
    finished=5,
    rewards=(0.125, -0.5),
    generator=2**64 - 1,
    retired=(Retired(ArmState("code", 38, 10), "unavailable", 112700),),
    step=112817,
    frozen="the guard of the loss",
    strangers=(("essays", 3), ("", 2)),
)

# What the version that wrote the first form came to after one more phase.
NEXT_GENERATOR = 17418742259747381423
NEXT_STEPS = 18
NEXT_NUMBERS = (0.9137931034482759, 1.0)


def test_the_form_is_the_golden_one(tmp_path: Path) -> None:
    bandit_state.write(tmp_path / "state.json", STATE)
    assert (tmp_path / "state.json").read_bytes() == (GOLDEN / "bandit_2.json").read_bytes()
    read = json.loads((GOLDEN / "bandit_2.json").read_bytes())
    assert bandit_state.from_record(read, "the golden file") == STATE


def test_the_first_form_is_read_with_what_it_did_not_know_left_empty() -> None:
    state = bandit_state.from_record(FIRST, "the golden file")
    assert [(arm.name, arm.served, arm.failed, arm.n) for arm in state.arms] == [
        ("chat", 40, 0, 20),
        ("prose", 39, 5, 20),
    ]
    assert all((a.epochs, a.log_weight, a.discounted.pulls) == (None, None, 0) for a in state.arms)
    assert all((a.epochs_from, a.content, a.changed) == (None, "", 0) for a in state.arms)
    assert (state.step, state.frozen, state.strangers) == (112817, "", ())
    assert [(r.arm.name, r.why, r.arm.requested) for r in state.retired] == [
        ("code", "unavailable", 48)
    ]


def test_a_migrated_state_decides_what_it_would_have_decided() -> None:
    """Numbers of the version that wrote the first form, for the phase that it decided next."""
    arms = (Arm("chat", 0.1, 0.6), Arm("prose", 0.1, 1.0), Arm("code"))
    policy = Policy(3, "0" * 32, Algorithm.UCB1, Unit.SHARE, arms)
    state = bandit_state.from_record(FIRST, "the golden file")
    results = (ArmResult("chat", 9, 0, 3.0), ArmResult("prose", 6, 0, 3.5))
    report = Phase(1, 1.0, 6, 112818, 112832, False, state.phases[0].weights, results)  # noqa: FBT003 - a report
    state = finish_phase(state, policy, report)
    assert state.generator == NEXT_GENERATOR
    assert state.phases[-1] == PhaseOrder(8, NEXT_STEPS, (("chat", 0.5), ("prose", 0.5)))
    assert (state.arms[0].mean, state.arms[1].ema) == NEXT_NUMBERS


def changed(**values: object) -> dict[str, Any]:
    """The first form with other values at its top."""
    return {**FIRST, **values}


@pytest.mark.parametrize(
    "record",
    [
        None,
        [],
        {},
        changed(schema="stepkeeper.bandit/3"),
        changed(arms=[]),
        changed(arms={"chat": None}),
        changed(retired=[None]),
        changed(retired=[{"numbers": 3}]),
        changed(step=3, more=1),
    ],
)
def test_what_is_none_is_refused_in_one_line(record: object) -> None:
    with pytest.raises(RefusedError, match=r"^cannot use the bandit state in here: [^\n]+$"):
        bandit_state.from_record(record, "here")
