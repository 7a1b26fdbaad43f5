"""The gate's part in the fold: samples come in, steps end, and a cadence may go by without one.

What is known is ``State.gate``. It is cut where an attempt resumes, so what is folded again comes
to the same; what a seal says of its sample is what the gate knew at the seal's step.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from supervisor.core.coherence.episodes import suspected
from supervisor.core.coherence.gate import (
    BLIND,
    HELD,
    GateState,
    closed,
    known_at,
    missed,
    sampled,
    standing_of,
)
from supervisor.core.coherence.judging import Judged, Said
from supervisor.core.coherence.rates import HEALTHY, OUTCOMES, false_alarms
from supervisor.core.messages import Effect, Journal, KeepSamples, SampleVerdict, Say
from supervisor.core.state import Attempt, State
from trainer.contract.wire import Sample

GATE = "gate"
Turn = tuple[State, list[Effect]]


def sample_came(state: State, attempt: Attempt, report: Sample) -> Turn:
    """Judge it; it is kept when its step is over, or when many wait."""
    said = Said(report.step, report.prompt, report.text, report.temperature)
    effects: list[Effect] = []
    opened = state.gate.open
    if opened is not None and opened.step != said.step:
        state, effects = step_over(state)
    rules = state.settings.gate
    gate = sampled(state.gate, rules, said, attempt.number, newest=attempt.last_step)
    state = replace(state, gate=gate)
    if gate.open is not None and len(gate.open.waiting) >= HELD:
        waiting, opened = gate.open.waiting, gate.open._replace(waiting=())
        state = replace(state, gate=replace(gate, open=opened))
        effects.append(keep(state, waiting))
    return state, effects


def step_over(state: State) -> Turn:
    """No more samples come of the step: its outcome is known, and kept with them."""
    opened = state.gate.open
    if opened is None:
        return state, []
    blind = state.gate.blind
    gate = closed(state.gate, state.settings.gate)
    state = replace(state, gate=gate)
    effects: list[Effect] = [keep(state, opened.waiting)]
    if gate.blind == BLIND > blind:
        tokens = state.settings.gate.min_tokens
        text = (
            f"the gate cannot judge: the last {BLIND} samples are shorter than {tokens} tokens; "
            "let them be longer (samples.length)"
        )
        effects += _alarm(state, opened.step, text, {"blind": BLIND})
    return state, effects


def steps_done(state: State, first: int, last: int) -> Turn:
    """Steps follow: that before them is over, and each cadence among them is to have a sample."""
    state, effects = step_over(state) if state.gate.open is not None else (state, [])
    rules, attempt = state.settings.gate, state.attempt
    if not rules.every or attempt is None:
        return state, effects
    due = missed(state.gate, rules, first, last, attempt.began)
    if due is None:
        return state, effects
    state = replace(state, gate=replace(state.gate, missing=due))
    text = f"no sample at step {due}, where one is due each {rules.every} steps"
    effects += [keep(state, ()), *_alarm(state, due, text, {"missing": due, "every": rules.every})]
    return state, effects


def cut_at(state: State, step: int) -> Turn:
    """An attempt resumes behind ``step``: what is known of later steps is of no weights."""
    gate = known_at(state.gate, step)
    if gate == state.gate:
        return state, []
    state = replace(state, gate=gate)
    return state, [keep(state, ())]


def verdict_at(gate: GateState, step: int) -> SampleVerdict | None:
    """The gate's word on the sample of ``step``, the newest that was sampled, or None."""
    last = gate.last
    if last is None or last.step != step:
        return None
    return SampleVerdict(last.step, last.score, last.verdict)


def keep(state: State, samples: tuple[Judged, ...]) -> KeepSamples:
    """The effect that keeps ``samples`` and what is known now."""
    number = state.attempt.number if state.attempt else state.last_attempt
    return KeepSamples(number, state.policy.number, samples, state.gate, facts(state))


def facts(state: State) -> dict[str, Any]:
    """Where the gate stands, for status: JSON values."""
    gate, rules = state.gate, state.settings.gate
    last, rates = gate.last, false_alarms(rules)
    return {
        "every": rules.every,
        "after": rules.after,
        "action": str(rules.action),
        "word_list": rules.words is not None,
        "last": last
        and {
            "step": last.step,
            "score": last.score,
            "verdict": last.verdict,
            "judged": last.judged,
            "failed": last.failed,
            "counts": last.counts,
        },
        "rules": [
            {
                "rule": rule.name,
                "now": round(rule.now, 2),
                "fires_at": rule.at,
                "fires": rule.fires,
                "false_alarms": float(f"{rates[rule.name]:.2g}"),
            }
            for rule in standing_of(gate.outcomes, rules)
        ],
        "false_alarms_of": {"samples": OUTCOMES, "failing": HEALTHY},
        "firing": gate.firing,
        "since": _since(gate),
        "failing_since": suspected(gate, rules) or None,
        "missing": gate.missing,
        "blind": gate.blind if gate.blind >= BLIND else 0,
    }


def _since(gate: GateState) -> int | None:
    """The step with which the episode under way began, as far back as is known."""
    since = None
    for outcome in reversed(gate.outcomes):
        if not outcome.firing:
            break
        since = outcome.step
    return since


def _alarm(state: State, step: int, text: str, more: dict[str, Any]) -> list[Effect]:
    """An alarm that no setting softens, unless an earlier attempt told it of the same step."""
    attempt = state.attempt
    if attempt is not None and attempt.differed is None and step <= attempt.replay_until:
        return []
    told = {"guard": GATE, "action": "alert", "step": step, **more}
    return [Journal("guard", told), Say(text, alarm=True)]
