"""The first turn of a supervisor's life: adopt, finish what was begun, or start."""

from __future__ import annotations

from dataclasses import dataclass, replace

from supervisor.core import pivot as pivots
from supervisor.core.arms import tell_joined, tell_retired
from supervisor.core.bandit import BanditState, Retired
from supervisor.core.ending import go_on
from supervisor.core.lifecycle import leaving, phases_to_order, stop, stopped
from supervisor.core.messages import (
    Effect,
    Exit,
    GiveOrders,
    KeepBandit,
    KeepIntent,
    Say,
)
from supervisor.core.state import Attempt, Life, Pivot, State

Turn = tuple[State, list[Effect]]


@dataclass(frozen=True, slots=True)
class Found:
    """What a starting supervisor found, beside the state restored from the newest seal.

    ``waited`` seconds have passed since the last attempt ended. ``before`` is the bandit's state
    that still had the ``retired`` arms.
    """

    attempt: Attempt | None
    pivot: Pivot | None
    stop_unfinished: bool
    retired: tuple[Retired, ...] = ()
    before: BanditState | None = None
    waited: float = 0.0


def begin(state: State, found: Found, now: float) -> Turn:
    """From what was found, with the state restored from the newest seal."""
    return leaving(*_begin(state, found, now))


def _begin(state: State, found: Found, now: float) -> Turn:
    state = replace(state, attempt=found.attempt, pivot=found.pivot)
    effects = tell_retired(found.retired, state.policy, found.before, state.bandit)
    if found.before is not None:
        step = found.attempt.last_step if found.attempt else 0
        effects += tell_joined(found.before, state.bandit, step or state.bandit.step)
    if found.attempt is not None:
        # Ready or not: its reports are not read yet, and a stop must not kill what may be training.
        orders = state.orders._replace(
            serial=state.orders.serial + 1,
            phases=phases_to_order(state, state.bandit),
            hold=state.trouble or None,
        )
        state = replace(state, life=Life.RUNNING, orders=orders)
        effects.append(Say(f"following attempt {found.attempt.number}"))
        # An earlier life may have died before it wrote them; without, the trainer waits in vain.
        effects += [KeepBandit(state.bandit), GiveOrders(orders)]
    if found.stop_unfinished:
        state, more = stop(state, by="", now=now)
        if state.attempt is None and not any(isinstance(effect, Exit) for effect in more):
            more += [KeepIntent("stop", "", done=True), stopped(state)]
        return state, effects + more
    if state.attempt is None:
        state, more = go_on(state, now, found.waited)
    else:
        state, more = pivots.order_exit(state)
    return state, effects + more
