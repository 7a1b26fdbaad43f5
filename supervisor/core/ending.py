"""The end of an attempt: what it means and what comes next.

Restart at once after progress, else after 0.5 s doubling to 30 s, with jitter. Progress is a
sealed step higher than any sealed before under this policy. Three attempts without progress that
had read their checkpoint fall back one seal, never across a pivot. With nothing left, or too long
without progress, the supervisor gives up.
"""

from __future__ import annotations

from dataclasses import replace

from supervisor.core import pivot as pivots
from supervisor.core.lifecycle import spawn
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
from supervisor.core.saving import tell_replay
from supervisor.core.state import (
    Attempt,
    Ending,
    Life,
    PendingSeal,
    PivotStage,
    Restarts,
    State,
    Want,
)

GAVE_UP = 10
SIGKILLED = -9
MOST_DOUBLINGS = 30  # beyond any ceiling; more would leave what a float holds
Turn = tuple[State, list[Effect]]


def spawn_failed(state: State, event: SpawnFailed, now: float) -> Turn:
    """An attempt that never became a process."""
    if state.attempt is None or state.attempt.number != event.attempt:
        return state, []
    attempt = replace(
        state.attempt, cause=Cause.NOT_STARTED, ending=Ending(None, out_of_memory=False, draw=0.5)
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
    known = {pending.step for pending in state.pending} | {s.point.step for s in state.seals}
    effects: list[Effect] = []
    pending = state.pending
    for visible in event.visible:
        if visible.step in known:
            continue
        if visible.step != attempt.last_step or visible.step == attempt.resumed:
            text = f"{visible.name} is not at the last reported step {attempt.last_step}: set aside"
            effects.append(Say(text, alarm=True))
            continue
        found = PendingSeal(
            visible.step,
            visible.name,
            "",
            attempt.position,
            state.bandit,
            attempt.sample if attempt.sample == visible.step else None,
            "unreported",
            None,
        )
        if attempt.recorded and attempt.recorded.step == visible.step:
            replay = (attempt.proved, attempt.consistent)
            found = replace(found, ledger=attempt.recorded, replay=replay)
        pending = (*pending, found)
        effects.append(Verify(attempt.number, visible.step, visible.name, ""))
    state = replace(state, life=Life.DRAINING, deadline=None, attempt=attempt, pending=pending)
    return drained(state, effects, now)


def drained(state: State, effects: list[Effect], now: float) -> Turn:
    """Conclude a dead trainer's attempt once the ledger and the seals have all of it."""
    attempt = state.attempt
    if state.life is not Life.DRAINING or state.pending or attempt is None or not attempt.settled:
        return state, effects
    state, more = conclude(state, now)
    return state, effects + more


def classify(state: State, attempt: Attempt) -> Cause:
    """The cause of an attempt's end, from what is proved of it."""
    ending = attempt.ending or Ending(None, out_of_memory=False, draw=0.5)
    if attempt.cause is not None:
        return attempt.cause
    if ending.out_of_memory and ending.status in (SIGKILLED, None):
        return Cause.OUT_OF_MEMORY
    if attempt.finished and ending.status in (0, None):
        return Cause.FINISHED if attempt.finished == "steps" else Cause.STOPPED
    if ending.status is None:
        return Cause.UNKNOWN
    if ending.status == SIGKILLED:
        return Cause.STOPPED if state.want is Want.STOP else Cause.KILLED
    return Cause.FAILED if attempt.ready else Cause.NEVER_READY


def conclude(state: State, now: float) -> Turn:
    """Close the attempt and decide what comes after it."""
    attempt = state.attempt
    if attempt is None:
        return state, []
    cause = classify(state, attempt)
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
    effects += [KeepBandit(state.bandit), CloseAttempt(attempt.number, facts)]
    effects.append(Journal("attempt-ended", facts))
    effects.append(Say(f"attempt {attempt.number} ended at step {attempt.last_step}: {cause}"))
    if state.saves:
        effects.append(Say("a save was asked for and not written: the trainer ended", alarm=True))
    state = replace(state, attempt=None, life=Life.IDLE, deadline=None, saves=())
    if cause is Cause.FINISHED:
        return _finished(state, effects)
    if pivots.at_rest(state):
        state, more = pivots.stop_done(state)
        return state, effects + more
    if state.want is Want.STOP:
        effects += [KeepIntent("stop", "", done=True), Exit(0)]
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
    effects: list[Effect] = []
    restarts = state.restarts
    if attempt.sealed:
        restarts = Restarts(best=restarts.best)
        state, more = spawn(replace(state, restarts=restarts), now)
        return state, more
    # From the first failure on: a crash after long work without a seal must not end the run.
    since = now if restarts.since is None else restarts.since
    newest = state.seals[0].point if state.seals else None
    against = restarts.against if attempt.resume == newest else 0
    # One that ended in good order was not thrown by its checkpoint.
    against += attempt.ready and attempt.resume == newest and cause is not Cause.STOPPED
    restarts = replace(restarts, failures=restarts.failures + 1, against=against, since=since)
    state = replace(state, restarts=restarts)
    if against >= state.settings.fall_back_after:
        # The pin is the first that a policy may go back to, and never further.
        if len(state.seals) < 2 or state.seals[0].policy != state.policy.number:  # noqa: PLR2004 - two
            return _give_up(state, f"{against} attempts without progress and no older seal to try")
        older = state.seals[1]
        bad = state.seals[0].point
        effects += [
            Reject(bad.seal, f"{against} attempts from it made no progress"),
            Journal("checkpoint-rejected", {"step": bad.step, "attempts": against}),
            Say(f"falling back from step {bad.step} to {older.point.step}", alarm=True),
        ]
        state = replace(state, seals=state.seals[1:], restarts=replace(restarts, against=0))
    if now - since > state.settings.give_up_after:
        return _give_up(state, f"no progress for {now - since:.0f} s")
    doublings = min(restarts.failures - 1, MOST_DOUBLINGS)
    delay = min(state.settings.backoff_most, state.settings.backoff_first * 2**doublings)
    draw = attempt.ending.draw if attempt.ending else 0.5
    delay *= 0.75 + 0.5 * draw
    effects.append(Say(f"next attempt in {delay:.1f} s, {restarts.failures} without progress"))
    return replace(state, life=Life.BACKOFF, deadline=now + delay), effects


def _give_up(state: State, why: str) -> Turn:
    return replace(state, life=Life.IDLE, deadline=None), [
        Journal("gave-up", {"why": why}),
        Say(f"cannot go on: {why}; see attempts/ and stepkeeper logs", alarm=True),
        Exit(GAVE_UP),
    ]
