"""What the operator may ask of a run that goes on: other settings, and a new attempt with them."""

from __future__ import annotations

from dataclasses import replace

from supervisor.core.lifecycle import ask_to_end, kill
from supervisor.core.messages import Answer, Effect, Reload, Say
from supervisor.core.state import Life, PivotStage, State, Want

Turn = tuple[State, list[Effect]]


def reload(state: State, *, reply: int | None, restart: bool) -> Turn:
    """Let another life take over with the settings as they are now; a stop comes first."""
    if state.want is Want.STOP:
        text = "cannot reload: the run is being stopped; its next start takes the settings"
        return state, [Say(text) if reply is None else Answer(reply, {"error": text})]
    return state, [Reload(reply, restart)]


def restart(state: State, now: float) -> Turn:
    """Begin a new attempt from a checkpoint that the running one writes for it."""
    attempt = state.attempt
    moving = state.pivot is not None and state.pivot.stage is not PivotStage.INSTALLED
    if state.want is Want.STOP or moving:
        return state, [Say("no new attempt for the settings alone: one ends already")]
    if state.life is Life.BACKOFF:
        return replace(state, deadline=now), []
    if attempt is None or state.life not in (Life.STARTING, Life.RUNNING):
        return state, []
    state = replace(state, again=True)
    if state.life is Life.STARTING:  # not ready: nothing can be lost yet
        return kill(state)
    text = f"attempt {attempt.number} saves and ends, and the next one begins with new settings"
    state, effects = ask_to_end(state, now)
    return state, [*effects, Say(text)]
