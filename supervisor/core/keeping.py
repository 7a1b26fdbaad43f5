"""Checkpoints that are kept: pinned by the operator, deleted after a new seal by the rules."""

from __future__ import annotations

from dataclasses import replace

from supervisor.core.coherence.episodes import suspected
from supervisor.core.messages import Answer, Asked, Effect, Pin, Retain, Retained, Unpin
from supervisor.core.retention import LEAST
from supervisor.core.state import KEPT_SEALS, SealPoint, State

Turn = tuple[State, list[Effect]]


def with_seal(state: State, point: SealPoint) -> tuple[SealPoint, ...]:
    """The newest seals with a new one; the pin of a pivot under way never leaves them."""
    seals = (point, *state.seals)
    pin = state.pivot.pin if state.pivot is not None else None
    way = next((seal for seal in seals if seal.point.step < suspected_step(state)), None)
    return seals[:KEPT_SEALS] + tuple(s for s in seals[KEPT_SEALS:] if s.point == pin or s == way)


def suspected_step(state: State) -> int:
    """From which step on a model may be harmed, so that one may want to go back; 0: none known."""
    attempt = state.attempt
    if attempt is not None and attempt.back is not None:
        return attempt.back.step
    return suspected(state.gate, state.settings.gate)


def retain(state: State) -> list[Effect]:
    """After a new seal: delete what the rules do not keep, once the newest two are proved."""
    attempt = state.attempt
    if attempt is None or not all(seal.proved for seal in state.seals[:LEAST]):
        return []
    resume = attempt.resume.seal if attempt.resume else ""
    return [Retain(attempt.number, resume, suspected_step(state))]


def retained(state: State, event: Retained) -> Turn:
    """These are gone: nothing falls back to them."""
    seals = tuple(seal for seal in state.seals if seal.point.seal not in event.gone)
    kept = tuple(seal for seal in state.quarantined if seal.point.seal not in event.gone)
    return replace(state, seals=seals, quarantined=kept), []


def pin_asked(state: State, event: Asked) -> Turn:
    """The verbs ``pin`` and ``unpin``; the shell has looked whether there is such a checkpoint."""
    step = int(event.fields["step"])
    if event.verb == "unpin":
        return state, [Unpin(step), Answer(event.reply, {"unpinned": step})]
    note = str(event.fields["note"])
    return state, [Pin(step, note), Answer(event.reply, {"pinned": step})]
