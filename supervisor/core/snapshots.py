"""What a seal says of a step: taken when its checkpoint is written, or when it is begun.

A trainer that saves in the background reports its checkpoint some steps late. The seal has to hold
the bandit state and the positions of the checkpoint's own step all the same.
"""

from __future__ import annotations

from dataclasses import replace

from supervisor.core.gating import verdict_at
from supervisor.core.messages import ReportsPosition
from supervisor.core.state import Attempt, PendingSeal, State


def save_begun(state: State, step: int, position: ReportsPosition) -> State:
    """A checkpoint of this very step is begun; the trainer may go on before it is written."""
    attempt = state.attempt
    if attempt is None or step != attempt.last_step or step == attempt.resumed:
        return state
    if attempt.begun is not None and attempt.begun.step == step:
        return state
    begun = moment_of(state, step, position)
    if begun is not None:
        begun = replace(begun, save=newest_request(state))
    return replace(state, attempt=replace(attempt, begun=begun))


def newest_request(state: State) -> int | None:
    """The serial of the newest save that was asked for and is not made yet, or None."""
    return state.saves[-1].serial if state.saves else None


def moment_of(state: State, step: int, position: ReportsPosition) -> PendingSeal | None:
    """What a seal says of ``step``: as it is now, or as it was when its checkpoint was begun.

    None for a step that is neither the last one reported nor that of the checkpoint begun.
    """
    attempt = state.attempt
    if attempt is None:
        return None
    if step != attempt.last_step:
        begun = attempt.begun
        return replace(begun, save=None) if begun is not None and begun.step == step else None
    sample = attempt.sample if attempt.sample == step else None
    moment = PendingSeal(step, "", "", position, state.bandit, sample, "", None)
    judged = verdict_at(state.gate, step)
    suspicion = state.guards.suspicion
    why = suspicion.why if suspicion is not None else ""
    moment = replace(moment, guards=state.guards, sample_verdict=judged, suspect=why)
    return placed(moment, attempt)


def placed(moment: PendingSeal, attempt: Attempt) -> PendingSeal:
    """``moment`` with its place in the ledger, once the ledger ends at its step."""
    recorded = attempt.recorded
    if moment.ledger is not None or recorded is None or recorded.step != moment.step:
        return moment
    return replace(moment, ledger=recorded, replay=(attempt.proved, attempt.consistent))
