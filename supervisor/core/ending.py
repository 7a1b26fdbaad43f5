"""The end of an attempt: drained, closed, and what comes next carried out.

What an end is called is decided in ``classifying``, what follows it in ``restarting``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from supervisor.core import firing
from supervisor.core import pivot as pivots
from supervisor.core.classifying import classify
from supervisor.core.lifecycle import spawn, stopped
from supervisor.core.messages import (
    Cause,
    CloseAttempt,
    Effect,
    Ended,
    Exit,
    Journal,
    KeepBandit,
    KeepIntent,
    Reject,
    Say,
    SpawnFailed,
    Verify,
)
from supervisor.core.proving import REFUSED, unproved, wait
from supervisor.core.replaying import tell_replay
from supervisor.core.restarting import MIDDLE, Again, FallBack, GiveUp, Outcome, Restarts
from supervisor.core.rolling_back import rolled_back
from supervisor.core.snapshots import moment_of
from supervisor.core.state import (
    Attempt,
    Ending,
    Life,
    PivotStage,
    SealPoint,
    State,
    Want,
)

GAVE_UP = 10
Turn = tuple[State, list[Effect]]


def spawn_failed(state: State, event: SpawnFailed, now: float) -> Turn:
    """An attempt that never became a process."""
    if state.attempt is None or state.attempt.number != event.attempt:
        return state, []
    attempt = replace(
        state.attempt,
        cause=Cause.NOT_STARTED,
        ending=Ending(None, out_of_memory=False, draw=MIDDLE),
    )
    state, effects = conclude(replace(state, attempt=attempt), now)
    return state, [Say(event.problem, alarm=True), *effects]


def ended(state: State, event: Ended, now: float) -> Turn:
    """The process is gone: wait for the seals of what it left, then conclude."""
    attempt = state.attempt
    if attempt is None or attempt.number != event.attempt:
        return state, []
    attempt = replace(
        attempt, ending=Ending(event.status, event.out_of_memory, event.draw), at=attempt.at
    )
    sealed = {seal.point.step for seal in (*state.seals, *state.quarantined)}
    known = {pending.step for pending in state.pending} | sealed
    state = replace(state, life=Life.DRAINING, deadline=None, attempt=attempt)
    state, effects = firing.step_over(state, now)
    pending = state.pending
    for visible in event.visible:
        if visible.step in known:
            continue
        moment = moment_of(state, visible.step, attempt.position)
        if moment is None or visible.step == attempt.resumed:
            text = f"{visible.name} is not at the last reported step {attempt.last_step}: set aside"
            effects.append(Say(text, alarm=True))
            continue
        pending = (*pending, replace(moment, name=visible.name, reason="unreported"))
        effects.append(Verify(attempt.number, visible.step, visible.name, ""))
    return drained(replace(state, pending=pending), effects, now)


def drained(state: State, effects: list[Effect], now: float) -> Turn:
    """Conclude a dead trainer's attempt once the ledger and the seals have all of it."""
    attempt = state.attempt
    if state.life is not Life.DRAINING or state.pending or attempt is None or not attempt.settled:
        return state, effects
    state, more = conclude(state, now)
    return state, effects + more


def conclude(state: State, now: float) -> Turn:
    """Close the attempt and decide what comes after it."""
    attempt = state.attempt
    if attempt is None:
        return state, []
    stopping = state.want is Want.STOP
    held = bool(state.trouble) and not stopping
    cause = classify(attempt, stopping=stopping or state.again, held=held)
    state, effects = tell_replay(state)
    facts = {
        "attempt": attempt.number,
        "cause": str(cause),
        "status": attempt.ending.status if attempt.ending else None,
        "resumed": attempt.resumed,
        "last_step": attempt.last_step,
        "proved": attempt.proved,
        "consistent": attempt.consistent,
        "differed": attempt.differed,
        "ready": attempt.ready,
        "sealed": attempt.sealed,
        "best": state.restarts.best,
    }
    effects.append(KeepBandit(state.bandit))
    if cause is not Cause.FINISHED:
        state, more = rolled_back(state, attempt)
        effects += more
    # The record comes last: a supervisor that dies before it concludes once more.
    effects += [Journal("attempt-ended", facts), CloseAttempt(attempt.number, facts)]
    effects.append(Say(f"attempt {attempt.number} ended at step {attempt.last_step}: {cause}"))
    if state.saves:
        effects.append(Say("a save was asked for and not written: the trainer ended", alarm=True))
    state = replace(state, attempt=None, life=Life.IDLE, deadline=None, saves=())
    if cause is Cause.FINISHED:
        return _finished(state, effects)
    if pivots.at_rest(state) and not unproved(state):
        state, more = pivots.stop_done(state)
        return state, effects + more
    if state.want is Want.STOP:
        effects += [KeepIntent("stop", "", done=True), stopped(state)]
        return state, effects
    state, more = _restart(state, attempt, cause, now)
    return state, effects + more


def _finished(state: State, effects: list[Effect]) -> Turn:
    """All steps are done; a pivot that was asked for has nothing left to change."""
    stage = state.pivot.stage if state.pivot is not None else None
    if stage in (PivotStage.ASKED, PivotStage.REQUESTED):
        state, more = pivots.drop(state, "because the run is finished")
        effects += more
    return state, [*effects, KeepIntent("run", "", done=True), Say("finished"), Exit(0)]


def _restart(state: State, attempt: Attempt, cause: Cause, now: float) -> Turn:
    if cause is Cause.NO_ROOM:
        delay = state.settings.restart.most
        text = f"next attempt in {delay:.1f} s; not counted as a failure: {state.trouble}"
        return replace(state, life=Life.BACKOFF, deadline=now + delay), [Say(text)]
    outcome = Outcome(cause, attempt.resumed, attempt.ready, attempt.sealed, now)
    if state.again and not attempt.sealed:
        return spawn(state, now)
    state = replace(state, restarts=state.restarts.after(outcome))
    return follow_up(state, now, attempt.ending.draw if attempt.ending else MIDDLE)


def follow_up(state: State, now: float, draw: float = MIDDLE, waited: float = 0.0) -> Turn:
    """With no trainer and nothing else to do: the next attempt, sooner or later, or none.

    ``waited`` seconds of the wait are over already.
    """
    restarts = state.restarts
    older = _older(state, restarts)
    policy = state.settings.restart
    step = policy.next_step(restarts, older=older is not None, now=now, draw=draw)
    effects: list[Effect] = []
    match step:
        case GiveUp():
            return _give_up(state, step.why)
        case FallBack() if older is not None:
            state, effects = _fall_back(state, step, older)
            delay = step.seconds
        case Again() | FallBack():
            delay = step.seconds
        case _:
            assert_never(step)
    delay -= waited
    if delay <= 0:
        state, more = spawn(state, now)
        return state, effects + more
    text = f"next attempt in {delay:.1f} s, {restarts.failures} without progress"
    return replace(state, life=Life.BACKOFF, deadline=now + delay), [*effects, Say(text)]


def go_on(state: State, now: float, waited: float | None = None) -> Turn:
    """With no trainer: what the operator wants first, then the pivot, then the next attempt.

    ``waited`` is given where it is still to be decided when that comes: a supervisor that is
    started again and again must not be a way around the wait.
    """
    if state.want is Want.STOP:
        return state, [KeepIntent("stop", "", done=True), stopped(state)]
    if pivots.pin_lost(state) and state.pivot is not None and state.pivot.pin is not None:
        text = f"cannot go on with the pivot to policy {state.pivot.policy.number}: the checkpoint"
        hint = (
            f"of step {state.pivot.pin.step} cannot be used any more; put it back, take its seal "
            "out of checkpoints/rejected.json if it is there, and start again"
        )
        return state, [Say(f"{text} {hint}", alarm=True), Exit(REFUSED)]
    if state.pivot is not None and state.pivot.stage is PivotStage.STOPPED:
        return replace(state, life=Life.IDLE), [pivots.install(state.pivot)]
    if pivots.at_rest(state):
        return wait(state) if unproved(state) else pivots.stop_done(state)
    return spawn(state, now) if waited is None else follow_up(state, now, waited=waited)


def _older(state: State, restarts: Restarts) -> SealPoint | None:
    """The newest seal below the suspect, where the suspect is of the policy in force.

    The pin of a pivot is the first that a policy may go back to, and never further.
    """
    suspect = restarts.suspect
    if suspect is None or all(seal.point.step < suspect for seal in state.seals):
        return None
    below = (seal for seal in state.seals if seal.point.step < suspect)
    blamed = [seal for seal in state.seals if seal.point.step >= suspect]
    return next(below, None) if blamed[-1].policy == state.policy.number else None


def _fall_back(state: State, step: FallBack, older: SealPoint) -> Turn:
    effects: list[Effect] = []
    blamed = [seal.point for seal in state.seals if seal.point.step > older.point.step]
    for bad in blamed:
        facts = {"step": bad.step, "seal": bad.seal, "problem": step.why}
        effects += [Reject(bad.seal, step.why), Journal("checkpoint-rejected", facts)]
    text = f"falling back from step {blamed[-1].step} to {older.point.step}: {step.why}"
    effects.append(Say(text, alarm=True))
    seals = tuple(seal for seal in state.seals if seal.point.step <= older.point.step)
    restarts = state.restarts.at_rest_on(older.point.step)
    return replace(state, seals=seals, restarts=restarts), effects


def _give_up(state: State, why: str) -> Turn:
    return replace(state, life=Life.IDLE, deadline=None), [
        Journal("gave-up", {"why": why}),
        KeepIntent("run", "", done=True),
        Say(f"cannot go on: {why}; see stepkeeper attempts and logs", alarm=True),
        Exit(GAVE_UP),
    ]
