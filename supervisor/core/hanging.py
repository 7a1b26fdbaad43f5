"""The verdict on a trainer that says nothing: when it is due and what follows.

Its stacks are recorded first, then it is asked to save and end, and killed if it does not: one
that comes back has lost nothing. The restart rule takes a hang for a failure.
"""

from __future__ import annotations

from dataclasses import replace

from supervisor.core.hang import Budget, set_budget, step_budget
from supervisor.core.lifecycle import ask_to_end, grace, kill
from supervisor.core.messages import (
    Cause,
    Effect,
    Journal,
    Moved,
    Quiet,
    RecordStacks,
    Say,
    StacksRecorded,
)
from supervisor.core.state import Attempt, Life, State

RECORDING = 30.0  # seconds for the stacks, beyond which it is ended without
Turn = tuple[State, list[Effect]]
_WORDS = {
    "import": "importing",
    "load": "loading",
    "compile": "compiling",
    "eval": "evaluating",
    "save": "saving",
    "sample": "sampling",
    "wait": "waiting",
    "exit": "ending",
    "step": "in a step",
    "first step": "in its first step",
}


def budget(state: State) -> Budget | None:
    """How long the trainer may be silent now; None where silence proves nothing."""
    attempt, policy = state.attempt, state.settings.hang
    if attempt is None or not policy.enabled or state.life not in (Life.STARTING, Life.RUNNING):
        return None
    if state.trouble or state.orders.hold is not None:
        return None
    if attempt.finished:
        return set_budget(policy, "exit")
    if attempt.doing != "train":
        return set_budget(policy, attempt.doing)
    if attempt.last_step == attempt.began:
        return set_budget(policy, "first step")
    return step_budget(policy, attempt.pace)


def quiet(state: State, event: Quiet, now: float) -> Turn:
    """No report for so long: past the budget of what it does, the trainer is hung.

    A report that was read meanwhile makes the news old.
    """
    attempt, limit = state.attempt, budget(state)
    if attempt is None or (event.attempt, event.seq) != (attempt.number, attempt.position.seq):
        return state, []
    if limit is None or event.seconds < limit.seconds:
        return state, []
    facts = {
        "attempt": attempt.number,
        "step": attempt.last_step,
        "doing": limit.what,
        "quiet": round(event.seconds, 1),
        "budget": round(limit.seconds, 1),
        "why": limit.why,
    }
    text = (
        f"attempt {attempt.number} is hung: no report for {event.seconds:.1f} s, "
        f"{_WORDS[limit.what]} after step {attempt.last_step}; its budget is "
        f"{limit.seconds:.1f} s ({limit.why})"
    )
    state = replace(
        state,
        life=Life.STOPPING,
        deadline=now + RECORDING + grace(state),
        attempt=replace(attempt, cause=_cause(attempt)),
    )
    return state, [
        Say(text, alarm=True),
        Journal("hang", facts),
        RecordStacks(attempt.number),
    ]


def stacks_recorded(state: State, event: StacksRecorded, now: float) -> Turn:
    """Now it is asked to save and end; one that can do neither any more is killed."""
    attempt = state.attempt
    if attempt is None or (event.attempt, state.life) != (attempt.number, Life.STOPPING):
        return state, []
    where = f"its stacks stand in {event.where}" if event.where else "it shows no stacks"
    if attempt.finished or not attempt.ready:
        state, effects = kill(state)
        return state, [Say(f"{where}; killing it: it has nothing to save"), *effects]
    state, effects = ask_to_end(state, now)
    return state, [Say(f"{where}; asking it to save and end"), *effects]


def moved(state: State, event: Moved, now: float) -> Turn:
    """A trainer that is being stopped and writes is given its grace anew."""
    attempt = state.attempt
    if attempt is None or event.attempt != attempt.number or state.deadline is None:
        return state, []
    if state.life is not Life.STOPPING:
        return state, []
    return replace(state, deadline=now + grace(state)), []


def _cause(attempt: Attempt) -> Cause:
    """One that only fails to exit has finished, or stopped, all the same."""
    if not attempt.finished:
        return Cause.HUNG
    return Cause.FINISHED if attempt.finished == "steps" else Cause.STOPPED
