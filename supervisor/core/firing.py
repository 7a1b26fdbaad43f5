"""What is done when the gate fires: once for an episode, by the ladder of actions.

It is done where the fold comes to the outcome, before any report behind it: which phases a frozen
mix decides, and what a seal says of it, must not depend on how many reports were read at once.
"""

from __future__ import annotations

from typing import Any

from supervisor.core import gating
from supervisor.core.coherence.episodes import began, ended, onset
from supervisor.core.coherence.gate import GateState, Outcome
from supervisor.core.ladder import act
from supervisor.core.messages import Effect, Journal, Say
from supervisor.core.rungs import Action
from supervisor.core.state import State

Turn = tuple[State, list[Effect]]


def step_over(state: State, now: float) -> Turn:
    """No more samples come of the step: its outcome is known, kept, and acted on."""
    before = state.gate
    state, effects = gating.step_over(state)
    state, more = tell(before, state, now)
    return state, effects + more


def tell(before: GateState, state: State, now: float) -> Turn:
    """Act once on an episode that began since ``before``; say it when one is over."""
    gate = state.gate
    if gate.last is before.last or gate.last is None:
        return state, []
    effects: list[Effect] = []
    over = ended(before, gate)
    if over is not None:
        facts = {"guard": gating.GATE, "step": over.step}
        effects = [Journal("guard-quiet", facts), Say(f"the gate is quiet again at {over.step}")]
    outcome = began(before, gate)
    if outcome is None:
        return state, effects
    state, more = act(
        state, gating.GATE, state.settings.gate.action, _words(outcome), _facts(state, outcome), now
    )
    return state, effects + more


def _words(outcome: Outcome) -> str:
    score = "" if outcome.score is None else f", score {outcome.score:.1f}"
    return (
        f"the samples have collapsed: {outcome.firing} failed, the newest at step {outcome.step}"
        f"{score}; see stepkeeper samples"
    )


def _facts(state: State, outcome: Outcome) -> dict[str, Any]:
    """A rollback goes back to before the collapse, and not only to before it was noticed."""
    rules = state.settings.gate
    since = onset(state.gate, rules, outcome)
    step = since if rules.action is Action.ROLL_BACK else outcome.step
    return {"step": step, "rules": outcome.firing, "score": outcome.score, "since": since}
