"""What is done when the gate fires: once for an episode, by the ladder of actions."""

from __future__ import annotations

from typing import Any

from supervisor.core.coherence.gate import GateState, Outcome, began, ended
from supervisor.core.gating import GATE
from supervisor.core.ladder import act
from supervisor.core.messages import Effect, Journal, Say
from supervisor.core.state import State

Turn = tuple[State, list[Effect]]


def tell(before: GateState, state: State, now: float) -> Turn:
    """Act once on an episode that began since ``before``; say it when one is over."""
    gate = state.gate
    if gate.last is before.last or gate.last is None:
        return state, []
    effects: list[Effect] = []
    over = ended(before, gate)
    if over is not None:
        facts = {"guard": GATE, "step": over.step}
        effects = [Journal("guard-quiet", facts), Say(f"the gate is quiet again at {over.step}")]
    outcome = began(before, gate)
    if outcome is None:
        return state, effects
    state, more = act(
        state, GATE, state.settings.gate.action, _words(outcome), _facts(outcome), now
    )
    return state, effects + more


def _words(outcome: Outcome) -> str:
    score = "" if outcome.score is None else f", score {outcome.score:.1f}"
    return (
        f"the samples have collapsed: {outcome.firing} failed, the newest at step {outcome.step}"
        f"{score}; see stepkeeper samples"
    )


def _facts(outcome: Outcome) -> dict[str, Any]:
    return {"step": outcome.step, "rules": outcome.firing, "score": outcome.score}
