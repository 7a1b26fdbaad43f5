"""What is told of steps that run again: whether they were equal, and whether they should be.

After a rollback the data is another on purpose: to be equal to what was rolled back is wrong.
"""

from __future__ import annotations

from dataclasses import replace

from supervisor.core.messages import Effect, Journal, Recorded, Say
from supervisor.core.state import Attempt, State

Turn = tuple[State, list[Effect]]


def tell_difference(state: State, attempt: Attempt, event: Recorded) -> list[Effect]:
    """The first step that is not equal."""
    text = f"replayed step {event.differed} is not equal: {event.difference}"
    if 0 < event.origin <= attempt.rolled:
        return [Say(f"{text}; as meant, the data of {attempt.skip} steps being skipped")]
    facts = {
        "attempt": attempt.number,
        "step": event.differed,
        "difference": event.difference,
    }
    # Steps behind a pivot's pin run again under the new policy: that they differ is meant.
    return [Journal("replay-differed", facts), Say(text, alarm=state.pivot is None)]


def tell_equal(attempt: Attempt, event: Recorded) -> list[Effect]:
    """An equal step after a rollback: the trainer took the very data that it was to skip."""
    equal, before = event.proved + event.consistent, attempt.proved + attempt.consistent
    if not attempt.skip or not equal or before or not 0 < event.origin <= attempt.rolled:
        return []
    text = (
        f"the trainer does not skip data: attempt {attempt.number} was to draw and throw away "
        f"{attempt.skip} steps' data (STEPKEEPER_SKIP), and repeats steps as they were"
    )
    facts = {"attempt": attempt.number, "skip": attempt.skip}
    return [Journal("skip-ignored", facts), Say(text, alarm=True)]


def tell_replay(state: State) -> Turn:
    """Journal once what a replay proved, when it is over."""
    attempt = state.attempt
    if attempt is None or attempt.replay_told or attempt.replay_until <= attempt.resumed:
        return state, []
    if attempt.skip and not attempt.proved + attempt.consistent:  # no replay
        return state, []
    facts = {
        "attempt": attempt.number,
        "first": attempt.resumed + 1,
        "last": min(attempt.last_step, attempt.replay_until),
        "proved": attempt.proved,
        "consistent": attempt.consistent,
        "differed": attempt.differed,
    }
    state = replace(state, attempt=replace(attempt, replay_told=True))
    text = f"replay of steps {facts['first']} to {facts['last']}: {attempt.proved} proved equal"
    return state, [Journal("replay", facts), Say(text)]
