"""Back to the last clean seal, past the data that did it, at most so often.

The trainer is ended as it is. What it sealed from the bad step on is rejected, and the next attempt
draws and throws away as many steps' data as were consumed since the seal (as Chowdhery et al. did
by hand in PaLM, 2022: go back before the spike, skip the batches). The skip belongs to the seal: as
long as the run resumes from it, each attempt skips anew.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from supervisor.core.lifecycle import kill
from supervisor.core.limits import GUARD
from supervisor.core.messages import Cause, Effect, Journal, KeepIntent, Reject, Say, Skip
from supervisor.core.state import Attempt, Back, Life, SealPoint, State, Want

Turn = tuple[State, list[Effect]]


class Way(NamedTuple):
    """The seal to go back to; ``why`` says why there is none, where that is so.

    Neither is there where it is not sealed yet.
    """

    seal: SealPoint | None
    why: str = ""


def way_back(state: State, step: int) -> Way:
    """Where the loss of ``step`` goes back to: below it, and never across a pivot's pin."""
    attempt = state.attempt
    if attempt is None:
        return Way(None, "no trainer is running")
    most = state.settings.guards.rollback_most
    if most and any(pending.step < step and not pending.suspect for pending in state.pending):
        return Way(None)
    found = next((seal for seal in state.seals if seal.point.step < step), None)
    if found is None:
        return Way(None, "no clean checkpoint is sealed before it")
    blamed = [seal for seal in state.seals if seal.point.step >= step]
    if blamed and blamed[-1].policy != state.policy.number:
        return Way(None, "it was before the pivot")
    times = sum(number < attempt.number for number, _ in found.skips)
    if times >= most:
        return Way(None, f"it was rolled back to step {found.point.step} {times} times already")
    return Way(found)


def go_back(state: State, guard: str, step: int) -> Turn:
    """End the trainer; where it ends anyway, that follows as well."""
    attempt = state.attempt
    if attempt is None:
        return state, []
    if attempt.back is None:
        attempt = replace(attempt, back=Back(guard, step))
        state = replace(state, attempt=attempt)
    if state.life in (Life.STARTING, Life.RUNNING):
        return kill(state, Cause.ROLLED_BACK)
    return state, []


def rolled_back(state: State, attempt: Attempt) -> Turn:
    """The attempt is over, and all it left is sealed: the seal to go on from, with its skip."""
    back = attempt.back
    if back is None:
        return state, []
    seal, why = way_back(replace(state, attempt=attempt), back.step)
    if seal is None:
        return _halt(state, back.guard, why)
    at = seal.point
    skip = attempt.last_step - at.step + (attempt.skip if attempt.resume == at else 0)
    why = f"rolled back from step {attempt.last_step} by the guard {back.guard} of step {back.step}"
    effects: list[Effect] = []
    for bad in (*state.seals, *state.quarantined):
        if bad.point.step > at.step:
            facts = {"step": bad.point.step, "seal": bad.point.seal, "problem": why}
            effects += [Reject(bad.point.seal, why), Journal("checkpoint-rejected", facts)]
    skips = (*(one for one in seal.skips if one[0] < attempt.number), (attempt.number, skip))
    facts = {
        "attempt": attempt.number,
        "guard": back.guard,
        "step": back.step,
        "last_step": attempt.last_step,
        "to": at.step,
        "seal": at.seal,
        "skip": skip,
        "times": len(skips),
    }
    effects += [
        Skip(at.seal, attempt.number, skip),
        Journal("rolled-back", facts),
        Say(f"{why}: going on from step {at.step}, past the data of {skip} steps", alarm=True),
    ]
    seals = tuple(one for one in state.seals if one.point.step < at.step)
    kept = tuple(one for one in state.quarantined if one.point.step < at.step)
    seals = (replace(seal, skips=skips), *seals)
    return replace(state, seals=seals, quarantined=kept, named=()), effects


def _halt(state: State, guard: str, why: str) -> Turn:
    """What was about to be sealed when it happened could not be: the next rung."""
    if state.want is Want.STOP:
        return state, []
    state = replace(state, want=Want.STOP, halted=guard)
    return state, [
        Journal("stop-asked", {"by": f"{GUARD} {guard}", "step": None}),
        KeepIntent("stop", f"{GUARD} {guard}", done=False),
        Say(f"cannot roll back: {why}: stopping", alarm=True),
    ]
