"""While the fold catches up orders wait, but not those to hold; what is read ahead is bounded."""

from __future__ import annotations

from dataclasses import replace

from supervisor.core.messages import Effect, GiveOrders, SignalTrainer
from supervisor.core.state import NO_ORDERS
from supervisor.daemon.following import AHEAD, AHEAD_IN_TROUBLE, may_read_on
from supervisor.daemon.projections import Projections
from tests.support.history import fresh_state

OLD = GiveOrders(NO_ORDERS._replace(serial=1))
HOLD = GiveOrders(NO_ORDERS._replace(serial=2, hold="full"))
NEW = GiveOrders(NO_ORDERS._replace(serial=3))


def test_only_the_last_orders_are_written_once_it_has_caught_up() -> None:
    submitted: list[Effect] = []
    held = Projections(submitted.append)
    assert held.hold(OLD)
    assert held.hold(NEW)
    assert not held.hold(SignalTrainer(1, "TERM"))
    held.let_go()
    assert submitted == [NEW]


def test_orders_that_hold_go_at_once_and_older_ones_never_follow_them() -> None:
    submitted: list[Effect] = []
    held = Projections(submitted.append)
    assert held.hold(OLD)
    assert not held.hold(HOLD)
    held.let_go()
    assert submitted == []


def test_reports_are_read_on_while_the_ledger_is_stuck_but_not_without_end() -> None:
    """Else a stop would never see that the trainer has ended."""
    well = fresh_state()
    full = replace(well, trouble="12 KiB are free in /run")
    assert [may_read_on(n, well) for n in (0, AHEAD - 1, AHEAD)] == [True, True, False]
    ahead = (AHEAD, AHEAD_IN_TROUBLE - 1, AHEAD_IN_TROUBLE)
    assert [may_read_on(n, full) for n in ahead] == [True, True, False]
