"""Where an episode of the gate begins and ends, and where the collapse behind it began."""

from __future__ import annotations

from supervisor.core.coherence.gate import GateState, Outcome, Rules
from supervisor.core.coherence.judging import Verdict


def onset(gate: GateState, rules: Rules, fired: Outcome) -> int:
    """The step with which the collapse began that ``fired`` at last: where the sum last left 0.

    Without the sum, the first failing one of the window.
    """
    step, looked_at = fired.step, 0
    for outcome in reversed(gate.outcomes):
        if outcome.step > fired.step or not (outcome.counts and outcome.judged):
            continue
        looked_at += 1
        if (not outcome.sum) if rules.cusum else looked_at > rules.window:
            break
        if outcome.verdict == Verdict.FAIL:
            step = outcome.step
    return step


def suspected(gate: GateState, rules: Rules) -> int:
    """The step with which a collapse began that may be under way, seen or not; 0 without one."""
    if gate.last is None:
        return 0
    step = onset(gate, rules, gate.last)
    first = next(one for one in reversed(gate.outcomes) if one.step <= step)
    return step if first.counts and first.verdict == Verdict.FAIL else 0


def began(before: GateState, after: GateState) -> Outcome | None:
    """The outcome with which an episode began between two states of one fold, or None."""
    return _turn(before, after, begins=True)


def ended(before: GateState, after: GateState) -> Outcome | None:
    """The outcome with which an episode ended between two states of one fold, or None."""
    return _turn(before, after, begins=False)


def _turn(before: GateState, after: GateState, *, begins: bool) -> Outcome | None:
    known = before.last
    firing = before.firing
    for outcome in after.outcomes:
        if known is not None and outcome.step <= known.step:
            continue
        if bool(outcome.firing) == begins and bool(firing) != begins:
            return outcome
        firing = outcome.firing
    return None
