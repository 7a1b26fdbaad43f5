"""What a plan says of the future, from a bandit and phases made by hand."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from supervisor.cli import plan_words
from supervisor.cli.plan_forecast import forecast, over_read
from supervisor.cli.plan_record import Known
from supervisor.config import Config, load
from supervisor.core.bandit import ArmState, BanditState, fresh
from supervisor.core.policy import Algorithm, Arm, Policy, Reward, Unit
from tests.support.runs import make_run
from trainer.contract.wire import ArmResult, Phase

NAMES = ("a", "b", "c")
LOSSES = {"a": 4.0, "b": 3.0, "c": 2.0}
STEP = 1000


@pytest.fixture
def config(tmp_path: Path) -> Config:
    settings = "[train]\nsteps = 5000\n"
    return load(make_run(tmp_path / "run", ["true"], arms=NAMES, settings=settings).path)


def policy(*arms: Arm, **values: Any) -> Policy:  # noqa: ANN401 - fields by name
    fields = {"algorithm": Algorithm.STATIC, "unit": Unit.SHARE, "reward": Reward.LOSS} | values
    return Policy(2, "d", arms=arms, **fields)


def phases(count: int) -> tuple[Phase, ...]:
    """Phases of 25 steps under equal shares, in which each arm keeps to its loss."""
    chance = random.Random(4)  # noqa: S311 - a simulation
    weights = tuple((name, 1 / 3) for name in NAMES)
    found = []
    for number in range(1, count + 1):
        pulls = Counter(chance.choices(NAMES, k=25))
        arms = tuple(
            ArmResult(name, n, 0, LOSSES[name] + chance.uniform(-0.2, 0.2))
            for name, n in pulls.items()
        )
        span = (number, 25 * number - 24, 25 * number)
        found.append(Phase(1, 1.0, *span, repeated=False, weights=weights, arms=arms))
    return tuple(found)


def bandit() -> BanditState:
    """Each arm was read twice in the 300 steps that it served."""
    arms = tuple(
        ArmState(name, served=300, last_step=STEP, epochs=2.0, epochs_from=(0.0, 0))
        for name in NAMES
    )
    return BanditState(1, "d", arms, decided=40, finished=40, step=STEP)


def known(count: int = 40) -> Known:
    return Known(bandit=bandit(), sealed=STEP, phases=phases(count), save=3.0, start=27.0)


def words(facts: dict[str, Any]) -> str:
    frame = {
        "before": 1,
        "after": 2,
        "arms": [],
        "settings": {},
        "boundary": {"text": "now"},
        "not_in_force": [],
        "unknown": ["the newest seal: it is away"],
        "problems": list(over_read(facts)),
        "cost": {"save": 3.0, "start": 27.0, "seconds": 30.0},
    }
    return "\n".join(plan_words.lines({**frame, **facts}))


def test_epochs_go_on_at_the_new_shares_and_a_floor_that_over_reads_is_refused(
    config: Config,
) -> None:
    rules = policy(Arm("a", floor=0.5, weight=2.0), Arm("b"), Arm("c"), max_epochs=10.0)
    facts = forecast(config, rules, known(), STEP)
    read = {reading["arm"]: reading["at_end"] for reading in facts["epochs"]["sources"]}
    assert read["a"] == pytest.approx(2.0 + 4000 * 0.5 / 150)
    assert read["b"] == pytest.approx(2.0 + 4000 * 0.25 / 150)
    [line] = over_read(facts)
    assert line.startswith("the bounds give a a share of 0.5 at least, so it is read 15.3 times")
    assert f"refused: {line}" in words(facts)
    assert "epochs of a: 2.00 so far, 15.33 by step 5000, more than 10" in words(facts)
    loose = policy(Arm("a", floor=0.2, weight=2.0), Arm("b"), Arm("c"), max_epochs=10.0)
    assert list(over_read(forecast(config, loose, known(), STEP))) == []


def test_a_floor_that_binds_is_told_with_what_easing_it_would_earn(config: Config) -> None:
    rules = policy(Arm("a", weight=1e-3), Arm("b"), Arm("c", floor=0.6))
    facts = forecast(config, rules, known(), STEP)
    held = facts["bounds"]["binding"]
    assert set(held) == {"c"}
    assert held["c"]["bound"] == "floor"
    assert held["c"]["price"] > 0.3  # c has the lowest loss, which is the lowest reward here
    assert facts["bounds"]["floor_tax"] == pytest.approx(0.6, abs=0.05)
    assert "binds: the floor of c: 0.01 lower would change the reward per step by +0.00" in words(
        facts
    )


def test_the_reward_of_the_new_mix_is_estimated_with_its_interval(config: Config) -> None:
    rules = policy(Arm("a", weight=8.0), Arm("b"), Arm("c"))
    reward = forecast(config, rules, known(), STEP)["reward"]
    assert reward["low"] < reward["estimate"] < reward["high"]
    assert reward["low"] > reward["now"]
    few = forecast(config, rules, known(12), STEP)
    assert few["reward"]["estimate"] is None
    assert "cannot be estimated: 12 of 12 phases" in words(few)
    nothing = forecast(config, rules, Known(), STEP)
    assert nothing["reward"]["why"] == "no phase was reported under the policy in force"
    assert nothing["epochs"] is None
    assert "no reward is known of a, b, c" in words(nothing)
    assert "cannot tell the newest seal: it is away" in words(nothing)


def test_a_policy_without_a_source_has_no_future(config: Config) -> None:
    facts = forecast(config, policy(Arm("zz")), known(), STEP)
    assert set(facts.values()) == {None}
    assert words(facts).endswith("nothing was changed")


def test_the_first_shares_follow_from_the_seed_that_the_pivot_will_use(config: Config) -> None:
    rules = policy(*map(Arm, NAMES), algorithm=Algorithm.UCB1)
    facts = forecast(config, rules, known(), STEP)
    state = fresh(rules, frozenset(NAMES), config.seed + 2, bandit(), STEP)
    steps = sum(order.steps for order in state.phases)
    mean = sum(order.steps * dict(order.weights)["b"] for order in state.phases) / steps
    assert facts["shares"]["first"]["b"] == pytest.approx(mean)
