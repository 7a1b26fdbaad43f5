"""Which phase follows, which one is gone on with, and what each arm did in it."""

from __future__ import annotations

import json
import math

import pytest

from trainer.contract.wire import Orders, PhaseOrder
from trainer.phases import Phase, Tally, follow, phase_record, read_phase, rejoin, repeat

MIX = {"a": 0.25, "b": 0.75}


def orders(*numbers: int, steps: int = 7, weights: dict[str, float] | None = None) -> Orders:
    mix = tuple((weights or MIX).items())
    return Orders(1, tuple(PhaseOrder(number, steps, mix) for number in numbers), None, None)


def saved(number: int = 5) -> Phase:
    return Phase(number, 7, dict(MIX), first=29, done=3, arms={"a": Tally(3, 1, 3, 9.0)})


def test_a_fresh_run_begins_with_the_first_phase_ordered() -> None:
    phase = follow(None, orders(2, 1), step=0)
    assert phase == Phase(1, 7, MIX, first=1)


def test_the_next_phase_follows_the_last_one() -> None:
    phase = follow(saved(), orders(6, 7), step=35)
    assert phase == Phase(6, 7, MIX, first=36)


@pytest.mark.parametrize(
    "given",
    [orders(), orders(7), orders(4, 5), orders(6, steps=0), orders(6, weights={"a": 0.0})],
    ids=["none", "a later one", "earlier ones", "without steps", "without weight"],
)
def test_a_phase_that_is_not_ordered_does_not_begin(given: Orders) -> None:
    assert follow(saved(), given, step=35) is None


def test_without_orders_the_last_phase_is_repeated_whole() -> None:
    phase = repeat(saved(), step=35)
    assert phase == Phase(6, 7, MIX, first=36, repeated=True)


@pytest.mark.parametrize("given", [orders(5, 6), orders(6, 7), orders()])
def test_a_resume_goes_on_in_the_phase_it_was_in(given: Orders) -> None:
    assert rejoin(saved(), given, step=31) == saved()


@pytest.mark.parametrize(
    ("given", "number"),
    [
        (orders(1, 2), 1),
        (orders(5, 6, weights={"a": 1.0}), 5),
        (orders(5, 6, steps=9), 5),
        (orders(9, 8), 8),
        (orders(4, 5, weights={"a": 1.0}), 4),
    ],
    ids=["a new policy", "other weights", "another length", "later ones", "a number met again"],
)
def test_a_resume_under_other_orders_begins_them_anew(given: Orders, number: int) -> None:
    phase = rejoin(saved(), given, step=31)
    assert phase is not None
    assert (phase.number, phase.first, phase.done, phase.arms) == (number, 32, 0, {})


def over() -> Phase:
    phase = saved()
    phase.done = phase.steps
    return phase


@pytest.mark.parametrize("given", [orders(6, 7), orders(5, 6), orders()])
def test_a_phase_that_is_over_goes_on_into_the_one_after_it(given: Orders) -> None:
    assert rejoin(over(), given, step=35) == over()


@pytest.mark.parametrize(("given", "number"), [(orders(4, 5), 4), (orders(1, 2), 1)])
def test_where_none_follows_it_the_first_one_ordered_begins(given: Orders, number: int) -> None:
    phase = rejoin(over(), given, step=35)
    assert phase is not None
    assert (phase.number, phase.first, phase.done) == (number, 36, 0)


def test_a_fresh_run_has_no_phase_to_go_on_with() -> None:
    assert rejoin(None, orders(1, 2), step=0) is None


def test_the_report_has_means_of_the_finite_losses() -> None:
    phase = Phase(5, 3, MIX, first=29)
    phase.served("b", 2.0)
    phase.served("b", 3.0)
    phase.served("b", math.nan)
    phase.served("c", math.inf)
    phase.failed({"a": 2})
    phase.done = 3
    assert phase.over
    assert phase.report({"b": 1.5}) == {
        "phase": 5,
        "first": 29,
        "last": 31,
        "repeated": False,
        "weights": MIX,
        "arms": [
            {"arm": "a", "pulls": 0, "failed": 2, "loss": None, "epochs": None},
            {"arm": "b", "pulls": 3, "failed": 0, "loss": 2.5, "epochs": 1.5},
            {"arm": "c", "pulls": 1, "failed": 0, "loss": None, "epochs": None},
        ],
    }


def test_a_phase_survives_its_record() -> None:
    phase = saved()
    phase.served("b", 0.1 + 0.2)
    assert read_phase(json.loads(json.dumps(phase_record(phase)))) == phase
    assert read_phase(phase_record(None)) is None
    with pytest.raises(ValueError, match="cannot use the phase"):
        read_phase({"number": 1})
