"""A disk that takes nothing: training is held until it does, and a stop does not wait for ever."""

from __future__ import annotations

from dataclasses import replace

from supervisor.core.messages import DiskSeen, Effect, Exit, GiveOrders, Journal, Say
from supervisor.core.state import Life, State, Want

PATIENCE = 30.0  # seconds; a trainer that cannot save before it ends has as much
NOT_ALL_KEPT = 1
_WAITING = (Life.KILLING, Life.DRAINING, Life.IDLE)
Turn = tuple[State, list[Effect]]


def seen(state: State, event: DiskSeen) -> Turn:
    """Hold the trainer at its step's end while there is trouble, and let it go on afterwards."""
    before = state.trouble
    if bool(event.trouble) == bool(before):  # one trouble at a time: the first is what is told
        return state, []
    state = replace(state, trouble=event.trouble)
    effects: list[Effect] = []
    if state.attempt is not None:
        orders = state.orders._replace(serial=state.orders.serial + 1, hold=event.trouble or None)
        state = replace(state, orders=orders)
        effects.append(GiveOrders(orders))
    if event.trouble:
        effects += [
            Say(f"{event.trouble}; training is held until that is over", alarm=True),
            Journal("disk-trouble", {"trouble": event.trouble}),
        ]
        return state, effects
    if state.life in _WAITING:
        state = replace(state, deadline=None)
    text = f"the disk takes what is written again: training goes on (it was: {before})"
    return state, [*effects, Say(text, alarm=True), Journal("disk-well", {"trouble": before})]


def bounded(state: State, effects: list[Effect], now: float) -> Turn:
    """A stop waits for what the disk does not take no longer than its patience."""
    waits = state.want is Want.STOP and state.trouble and state.life in _WAITING
    if waits and state.deadline is None:
        state = replace(state, deadline=now + PATIENCE)
    return state, effects


def out_of_patience(state: State) -> Turn:
    """The stop's deadline is over: leave, and say what the next start has to do first."""
    if state.life not in _WAITING or not state.trouble:
        return state, []
    effects: list[Effect] = [
        Say(f"cannot {what}: {state.trouble}; the next start does it", alarm=True)
        for what in _left_undone(state)
    ]
    return state, [*effects, Exit(NOT_ALL_KEPT)]


def _left_undone(state: State) -> list[str]:
    attempt = state.attempt
    if attempt is None:
        return ["finish the pivot" if state.pivot is not None else "write down the attempt's end"]
    found = []
    if state.life is Life.KILLING:
        found.append(f"read what attempt {attempt.number} reported last")
    recorded = attempt.recorded.step if attempt.recorded else attempt.began
    if not attempt.settled:
        found.append(f"record steps {recorded + 1} to {attempt.last_step} in the ledger")
    found += [f"seal the checkpoint of step {pending.step}" for pending in state.pending]
    return found or ["write down what is done"]
