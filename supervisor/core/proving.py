"""Sealed checkpoints read back once more in this life: nothing is resumed from unproved.

What was sealed in this life was read back for its seal. Of what an earlier life sealed, the newest
two (or all, where the operator wants that) are awaited before an attempt; the others are read in
the background. One that is not as it was sealed is rejected for ever, and the next older one takes
its place. Where it cannot be told, nothing is held against the checkpoint, and no attempt begins.
"""

from __future__ import annotations

from dataclasses import replace

from supervisor.core.messages import (
    Effect,
    Exit,
    Journal,
    Prove,
    Proved,
    Reject,
    ResumePoint,
    Say,
)
from supervisor.core.state import Life, State

BEFORE_USE = 2  # so many are proved before an attempt: the newest, and what it falls back to
REFUSED = 11
Turn = tuple[State, list[Effect]]


def unproved(state: State) -> tuple[ResumePoint, ...]:
    """What must be read back before an attempt, newest first. Doubt counts for the newest only."""
    seals = state.seals if state.settings.prove_all else state.seals[:BEFORE_USE]
    waiting = (seal.point for seal in seals if not seal.proved)
    newest = state.seals[0].point if state.seals else None
    return tuple(p for p in waiting if p == newest or p.seal not in state.doubtful)


def wait(state: State) -> Turn:
    """No attempt yet: what it would resume from is read back first."""
    points = unproved(state)
    steps = ", ".join(str(point.step) for point in points)
    text = f"reading checkpoints back before one is used, of step {steps}"
    effects: list[Effect] = [Prove(points)]
    if state.life is not Life.PROVING:
        effects.insert(0, Say(text))
    return replace(state, life=Life.PROVING, attempt=None, deadline=None), effects


def none_left(state: State) -> Turn:
    """There are seals and none can be resumed from: to begin anew is not ours to decide."""
    if state.quarantined:
        step = state.quarantined[0].point.step
        text = (
            "cannot go on: every checkpoint that is left is quarantined; see stepkeeper "
            "checkpoints, and trust one by stepkeeper unquarantine RUN STEP (the newest is of "
            f"step {step}), or move the folder checkpoints away to begin anew"
        )
        return replace(state, life=Life.IDLE, deadline=None), [
            Say(text, alarm=True),
            Exit(REFUSED),
        ]
    text = (
        "cannot go on: no sealed checkpoint can be used any more; see stepkeeper checkpoints, put "
        "one back and take its seal out of checkpoints/rejected.json, or move the folder "
        "checkpoints away to begin anew"
    )
    return replace(state, life=Life.IDLE, deadline=None), [Say(text, alarm=True), Exit(REFUSED)]


def proved(state: State, event: Proved) -> Turn:
    """One was read back; the attempt that waits for it is begun by the caller."""
    if event.doubt:
        return _doubtful(state, event)
    if event.problem:
        return _rejected(state, event)
    seals = tuple(
        replace(seal, proved=True) if seal.point.seal == event.seal else seal
        for seal in state.seals
    )
    return replace(state, seals=seals, doubtful=state.doubtful - {event.seal}), []


def _doubtful(state: State, event: Proved) -> Turn:
    newest = state.seals[0].point.seal if state.seals else ""
    if state.life is Life.PROVING and event.seal == newest:
        older = state.seals[1].point.step if len(state.seals) > 1 else None
        way = f"move {event.name} away to go on from step {older}, or mend" if older else "mend"
        text = f"cannot go on: {event.problem}; {way} what is in the way of reading it"
        return state, [Say(text, alarm=True), Exit(REFUSED)]
    state = replace(state, doubtful=state.doubtful | {event.seal})
    return state, [Say(f"{event.problem}; nothing is held against it", alarm=True)]


def _rejected(state: State, event: Proved) -> Turn:
    resumed = state.attempt.resume if state.attempt is not None else None
    seals = tuple(seal for seal in state.seals if seal.point.seal != event.seal)
    newest = seals[0].point.step if seals else 0
    state = replace(state, seals=seals, restarts=state.restarts.at_rest_on(newest))
    facts = {"step": event.step, "seal": event.seal, "problem": event.problem}
    text = f"step {event.step} is not used any more: it is not as it was sealed: {event.problem}"
    if resumed is not None and resumed.seal == event.seal:
        text += "; the attempt that runs now resumed from it"
    return state, [
        Reject(event.seal, event.problem),
        Journal("checkpoint-rejected", facts),
        Say(text, alarm=True),
    ]
