"""Checkpoints that may hold a harmed model: sealed and kept, and never chosen until proved clean.

What is saved while the guards suspect something is quarantined. It is proved clean once the run has
gone on for ``quarantine_steps`` past it, and the suspicion was over after it.
"""

from __future__ import annotations

from dataclasses import replace

from supervisor.core.keeping import with_seal
from supervisor.core.messages import Answer, Asked, Effect, Lift, Say
from supervisor.core.restarting import Restarts
from supervisor.core.state import KEPT_SEALS, SealPoint, State

Turn = tuple[State, list[Effect]]


def put_away(state: State, point: SealPoint, why: str) -> Turn:
    """A quarantined checkpoint is sealed: it is neither progress nor chosen."""
    kept = (point, *state.quarantined)[:KEPT_SEALS]
    text = f"the checkpoint of step {point.point.step} is quarantined: {why}"
    return replace(state, quarantined=kept), [Say(text, alarm=True)]


def lift_proved(state: State) -> Turn:
    """Lift what has proved clean by now."""
    attempt, guards = state.attempt, state.guards
    if attempt is None or not state.quarantined or guards.suspicion is not None:
        return state, []
    effects: list[Effect] = []
    steps = state.settings.guards.quarantine_steps
    for seal in reversed(state.quarantined):
        at = seal.point.step
        if at < guards.cleared and attempt.last_step >= at + steps:
            why = f"the loss was good again by step {guards.cleared}, and for {steps} steps past it"
            state, more = _lift(state, seal, why)
            effects += more
    return state, effects


def asked(state: State, event: Asked) -> Turn:
    """The verb ``unquarantine``: the operator vouches for it."""
    step = int(event.fields["step"])
    found = next((seal for seal in state.quarantined if seal.point.step == step), None)
    if found is None:
        text = f"cannot lift the quarantine of step {step}: it is not quarantined"
        return state, [Answer(event.reply, {"error": text})]
    pin = state.pivot.pin if state.pivot is not None else None
    if pin is not None and step > pin.step:
        return state, [Answer(event.reply, {"error": left_behind(step, pin.step)})]
    state, effects = _lift(state, found, f"by {event.fields.get('by', 'the operator')}")
    return state, [*effects, Answer(event.reply, {"lifted": step})]


def left_behind(step: int, pin: int) -> str:
    """Why nobody trusts a step again that a pivot leaves behind: the run would resume from it."""
    return (
        f"cannot lift the quarantine of step {step}: the pivot under way goes on from step {pin} "
        "and leaves it behind"
    )


def _lift(state: State, seal: SealPoint, why: str) -> Turn:
    step = seal.point.step
    left = tuple(other for other in state.quarantined if other != seal)
    newer = tuple(other for other in state.seals if other.point.step > step)
    older = tuple(other for other in state.seals if other.point.step < step)
    below = replace(state, seals=older)
    state = replace(
        state, quarantined=left, seals=(*newer, *with_seal(below, seal))[: _most(state)]
    )
    if step > state.restarts.best and seal.policy == state.policy.number:
        state = replace(state, restarts=Restarts(best=step))
        if state.attempt is not None:
            state = replace(state, attempt=replace(state.attempt, sealed=True))
    text = f"the checkpoint of step {step} is trusted again: {why}"
    return state, [Lift(seal.point.seal, step, why), Say(text)]


def _most(state: State) -> int:
    """As many as there may be: the pin of a pivot under way beside the newest."""
    return KEPT_SEALS + (state.pivot is not None and state.pivot.pin is not None)
