"""The real core in a simulated world: long runs in which everybody dies and everything fails.

``tests.support.world.laws`` looks at every event; what is asserted here holds at the end.
"""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from supervisor.core.guard_rules import Divergence, Guards, Nonfinite, Plateau
from supervisor.core.ladder import Action
from supervisor.core.policy import Algorithm, Arm, Policy, Unit
from supervisor.core.restarting import RestartPolicy
from supervisor.core.retention import Retention
from supervisor.core.state import Settings
from tests.support.world import Chances, World

ARMS = (Arm("alpha", 0.05, 0.7), Arm("beta", 0.1, 0.7), Arm("code", 0.0, 0.7), Arm("docs", 0.1))
POLICY = Policy(1, "1" * 32, Algorithm.UCB1, Unit.SHARE, ARMS)
TIGHTER = tuple(replace(arm, cap=0.5) for arm in ARMS)
POLICIES = (POLICY, replace(POLICY, number=2, digest="2" * 32, arms=TIGHTER))
KEPT = Retention(keep_last=2, keep_every=0, keep_audit=1)  # as little as may be
RULES = Guards(
    Nonfinite(Action.ROLL_BACK),
    divergence=Divergence(window=1000),
    plateau=Plateau(steps=1000),
    quarantine_steps=60,
)
# A new supervisor folds all that guards remember: 10,000 steps would be half of the test's time.
QUIET = replace(RULES, nonfinite=Nonfinite())
SETTINGS = Settings(
    cadence=100, retention=KEPT, restart=RestartPolicy(give_up_after=1e9), guards=QUIET
)
GUARDED = replace(SETTINGS, guards=RULES)
FAILS = {
    "spawn fails": 0.05,
    "seal fails": 0.02,
    "requested fails": 0.05,
    "stopped fails": 0.1,
    "installed fails": 0.1,
    "done fails": 0.2,
    "rot": 0.02,
}


def mishaps(rate: float, **more: Any) -> Chances:  # noqa: ANN401 - by name
    return Chances(
        trainer_killed=0.0004 * rate,
        trainer_stopped=0.0002 * rate,
        supervisor_killed=0.001 * rate,
        both_killed=0.0001 * rate,
        stop=0.0003 * rate,
        save=0.002 * rate,
        silence=0.0002 * rate,
        disk=0.0005 * rate,
        limit=0.0001 * rate,
        fuse=0.2,
        bad=0.05,
        ignores_exit=0.2,
        fails=FAILS,
        **more,
    )


def holds_at_the_end(world: World, *, exact: bool = True) -> None:
    """The finished run: every step once in the canonical ledger, all replays proved."""
    disk = world.disk
    ledger = disk.ledger
    canonical = [ledger.lines[entry - 1] for entry in ledger.canonical[1:]]
    assert [line.step for line in canonical] == list(range(1, world.steps + 1))
    assert max(disk.seals) == world.steps
    assert disk.intent == {"want": "run", "done": True, "hold": False}
    assert world.exits[-1] == 0
    assert disk.pivot is None or disk.pivot.stage == "installed"
    ended = [record.end for record in disk.attempts.values()]
    assert all(end is not None for end in ended)
    if exact:
        pins = {certificate["pin"].step for certificate in disk.certificates.values()}
        if disk.pivot is not None and disk.pivot.pin is not None:
            pins.add(disk.pivot.pin.step)
        added = [line.step for line in ledger.lines]
        again = {after - 1 for step, after in pairwise(added) if after != step + 1}
        assert again <= pins, "a step was written twice though nothing but a pivot took it back"
        replays_are_proved(world, pins)


def replays_are_proved(world: World, pins: set[int]) -> None:
    """Each step that ran again was compared once, whatever died while it was."""
    for record in world.disk.attempts.values():
        if record.end is not None and record.resumed not in pins:
            replayed = min(record.end["last_step"], record.ledger_step) - record.resumed
            assert record.end["proved"] == max(0, replayed), record


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_200000_steps_with_deaths_stops_and_the_pivot_at_112619() -> None:
    world = World(POLICIES, mishaps(1.0), seed=112_619, steps=200_000, settings=SETTINGS)
    world.hold_at = 112_619
    asked: list[int] = []

    def watch(world: World) -> None:
        """Keep the surroundings of the pivot free of all mishaps but deaths."""
        step, supervisor = world.disk.ledger.step, world.supervisor
        if world.only is None and 112_000 <= step < 112_900 and not world.disk.certificates:
            world.only = frozenset({"trainer_killed", "supervisor_killed", "both_killed"})
            world.pace = 5  # steps of ten seconds: an order is there long before the next one
        elif world.only is not None and world.disk.certificates:
            world.only, world.pace = None, 120
        attempt = supervisor.state.attempt if supervisor else None
        known = supervisor is not None and supervisor.state.pivot is not None
        if attempt is not None and attempt.last_step == 112_619 and not known:
            if world.disk.pivot is None and world.hold_at >= 0:
                asked.append(world.pivot())
        elif world.hold_at >= 0 and (save := world.disk.orders.save) and save.then == "exit":
            world.hold_at = -1
            if world.trainer is not None:
                world.trainer.pause_at = -1

    world.before = watch
    world.run()
    holds_at_the_end(world)
    disk, certificate = world.disk, world.disk.certificates[2]
    assert (certificate["asked_step"], certificate["pin"].step) == (112_619, 112_700)
    assert certificate["first_step"] == 112_701
    canonical = [disk.ledger.lines[entry - 1] for entry in disk.ledger.canonical[1:]]
    assert {line.facts[-1] for line in canonical[:112_700]} == {1}
    assert {line.facts[-1] for line in canonical[112_700:]} == {2}
    first = next(record for record in disk.attempts.values() if record.policy == 2)
    assert first.resume == certificate["pin"]
    assert disk.archive[2]["bandit"].policy == 1
    assert disk.bandit is not None
    assert sum(arm.served for arm in disk.bandit.arms) == 200_000 - 112_700
    assert world.counts["spawned"] > 200
    assert world.counts["supervisor started"] > 200
    assert world.counts["stop"] > 20


@pytest.mark.parametrize("seed", range(24))
def test_3000_steps_with_pivots_cancels_and_failures_of_everything(seed: int) -> None:
    chances = mishaps(1.0 if seed % 2 else 5.0, pivot=0.0006, cancel=0.0004)
    settings = replace(SETTINGS, boundary=seed % 3 == 0)
    world = World(POLICIES, chances, seed=seed, steps=3000, settings=settings)
    world.run()
    holds_at_the_end(world)


@pytest.mark.parametrize("seed", range(100, 106))
def test_3000_steps_whose_replays_differ_and_whose_reports_have_gaps(seed: int) -> None:
    chances = mishaps(3.0, pivot=0.0006, differs=0.6, gap=0.1)
    world = World(POLICIES, chances, seed=seed, steps=3000, settings=SETTINGS)
    world.run()
    holds_at_the_end(world, exact=False)
    assert world.disk.told("replay-differed")


@pytest.mark.parametrize("seed", range(300, 304))
def test_3000_steps_whose_data_loses_the_loss_here_and_there_are_rolled_back(seed: int) -> None:
    places = random.Random(seed).sample(range(150, 2900), 5)  # noqa: S311 - chance that can be repeated
    lost = frozenset(place + more for place in places for more in range(3))
    chances = mishaps(1.0 if seed % 2 else 4.0, pivot=0.0006, cancel=0.0004, lost=lost)
    world = World(POLICIES, chances, seed=seed, steps=3000, settings=GUARDED)
    world.run()
    holds_at_the_end(world, exact=False)
    ledger = world.disk.ledger
    canonical = [ledger.lines[entry - 1] for entry in ledger.canonical[1:]]
    assert {line.facts[1] for line in canonical} == {""}
    assert world.disk.told("rolled-back")
    assert any(record.skip for record in world.disk.attempts.values())
    assert not world.disk.told("skip-ignored")


@pytest.mark.parametrize("seed", range(400, 403))
def test_2000_steps_whose_mix_a_lost_loss_freezes_are_frozen_whoever_died(seed: int) -> None:
    places = random.Random(seed).sample(range(150, 1900), 3)  # noqa: S311 - chance that can be repeated
    rules = replace(RULES, nonfinite=Nonfinite(Action.FREEZE))
    chances = mishaps(4.0, pivot=0.0006, lost=frozenset(places))
    settings = replace(SETTINGS, guards=rules)
    world = World(POLICIES, chances, seed=seed, steps=2000, settings=settings)
    world.run()
    holds_at_the_end(world, exact=False)
    lost = {facts["step"] for facts in world.disk.told("guard") if facts["guard"] == "nonfinite"}
    assert lost == set(places)
    pins = [certificate["pin"].step for certificate in world.disk.certificates.values()]
    for seal in world.disk.seals.values():
        began = max((pin for pin in pins if pin < seal.point.step), default=0)
        frozen = any(began < step <= seal.point.step for step in lost)
        assert bool(seal.bandit.frozen) == frozen, f"the seal of step {seal.point.step}"


@pytest.mark.parametrize("seed", range(200, 206))
def test_3000_steps_of_a_trainer_that_knows_no_orders(seed: int) -> None:
    chances = mishaps(2.0, pivot=0.0006)
    world = World(POLICIES, chances, seed=seed, steps=3000, settings=SETTINGS, orders=False)
    world.run()
    holds_at_the_end(world, exact=False)
