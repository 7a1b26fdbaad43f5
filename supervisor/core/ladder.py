"""The ladder of actions: what is done when a guard or the gate has found something.

record      a line in the journal
alert       and an alarm
checkpoint  and a save of what is there now
freeze      and a mix that no reward changes any more, until the next pivot
rollback    an alarm, and back to the last clean seal, past the data that did it
stop        an alarm, and a stop with a sealed checkpoint and an exit code of its own
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, assert_never

from supervisor.core.bandit import freeze
from supervisor.core.lifecycle import stop
from supervisor.core.limits import GUARD
from supervisor.core.messages import Effect, Journal, Say
from supervisor.core.rolling_back import go_back, way_back
from supervisor.core.rungs import Action
from supervisor.core.saving import order_save
from supervisor.core.state import State, Want

__all__ = ["Action", "act"]

Turn = tuple[State, list[Effect]]


_ENDING = (Action.ROLL_BACK, Action.STOP)


def act(
    state: State, guard: str, action: Action, text: str, facts: dict[str, Any], now: float
) -> Turn:
    """Do what ``action`` says about what ``guard`` found, at the last step unless ``facts`` tell.

    ``text`` is for the operator. ``facts`` are JSON values that a repeated fold tells again word
    for word, so that the journal keeps them once. Of a step that an earlier attempt did and told
    of, only what ends the attempt is done once more, and the mix is frozen as it was then.
    """
    step = facts.get("step", state.attempt.last_step if state.attempt else 0)
    if action is Action.FREEZE:
        state = replace(state, bandit=freeze(state.bandit, f"the guard {guard} of step {step}"))
    if action not in _ENDING and _told(state, step):
        return state, []
    if action is Action.ROLL_BACK and (way := way_back(state, step)).why:
        action, text = Action.STOP, f"{text}; cannot roll back: {way.why}"
        facts = {**facts, "instead": way.why}
    effects: list[Effect] = [
        Journal("guard", {"guard": guard, "action": str(action), "step": step, **facts})
    ]
    if action is not Action.RECORD:
        effects.append(Say(text, alarm=True))
    match action:
        case Action.RECORD | Action.ALERT:
            return state, effects
        case Action.CHECKPOINT | Action.FREEZE:
            state, more = order_save(state, pin=False, note=guard, reply=None)
        case Action.ROLL_BACK:
            state, more = go_back(state, guard, step)
        case Action.STOP:
            state, more = _stop(state, guard, now)
        case _:
            assert_never(action)
    return state, effects + more


def _told(state: State, step: int) -> bool:
    """Whether the step is run again, as it was."""
    attempt = state.attempt
    if attempt is None or attempt.differed is not None or attempt.skip:
        return False
    return step <= attempt.replay_until


def _stop(state: State, guard: str, now: float) -> Turn:
    """As the operator's stop; one that the operator asked for before stays the operator's."""
    if state.want is Want.STOP:
        return state, []
    return stop(replace(state, halted=guard), by=f"{GUARD} {guard}", now=now)
