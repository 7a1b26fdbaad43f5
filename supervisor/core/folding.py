"""The fold: what is known of a run follows from its reports, taken in order.

Counters are set by the fold and never carried across lives: after a restart the fold begins again
at the newest seal and takes the same reports to the same state.
"""

from __future__ import annotations

from dataclasses import replace

from supervisor.core import firing, gating
from supervisor.core import pivot as pivots
from supervisor.core.arms import tell_retired, tell_strangers
from supervisor.core.bandit import count_steps, finish_phase
from supervisor.core.guards import watch
from supervisor.core.hang import learn
from supervisor.core.ladder import act
from supervisor.core.lifecycle import ask_to_end, grace, kill, phases_to_order
from supervisor.core.messages import (
    BadReport,
    Cause,
    Effect,
    GiveOrders,
    Journal,
    KeepBandit,
    Record,
    Reports,
    Say,
    SignalTrainer,
)
from supervisor.core.propensities import with_propensities
from supervisor.core.quarantine import lift_proved
from supervisor.core.saving import checkpoint_written
from supervisor.core.snapshots import save_begun
from supervisor.core.state import Attempt, Life, State
from trainer.contract.wire import (
    Checkpoint,
    Doing,
    Evaluation,
    Finished,
    Phase,
    PhaseOrder,
    Ready,
    Report,
    Sample,
    Step,
)

RATE_MEMORY = 5.0  # seconds over which the rate is smoothed
Turn = tuple[State, list[Effect]]


def take_reports(state: State, event: Reports, now: float) -> Turn:
    """Fold a run of reports. Late news of another attempt, or of one we ended, is dropped."""
    attempt = state.attempt
    if attempt is None or attempt.number != event.attempt or attempt.cause is Cause.BROKE_CONTRACT:
        return state, []
    effects: list[Effect] = []
    steps: list[Step] = []
    for report in event.reports:
        if type(report) is Step:
            steps.append(report)
            continue
        state, more = take_steps(state, steps, now)
        effects += more
        steps = []
        state, more = _take_other(state, report, event, now)
        effects += more
    state, more = take_steps(state, steps, now)
    effects += more
    if state.attempt is not None:
        state = replace(state, attempt=replace(state.attempt, position=event.position))
    if state.life is Life.RUNNING and pivots.ignored(state):
        text = "the trainer went on after the pivot's checkpoint: stopping it"
        state, more = ask_to_end(state, now)
        effects += [Say(text, alarm=True), *more]
    elif state.life is Life.STOPPING:
        state = replace(state, deadline=now + grace(state))
    return state, effects


def take_steps(state: State, steps: list[Step], now: float) -> Turn:
    """Fold steps between two other reports: check their order, count pulls, record them."""
    attempt = state.attempt
    if not steps or attempt is None or attempt.cause is Cause.BROKE_CONTRACT:
        return state, []
    if not attempt.ready:
        return _broke(state, f"step {steps[0].step} came before it was ready")
    due = attempt.last_step + 1
    for at, report in enumerate(steps):
        if report.step != due + at:
            state, taken = take_steps(state, steps[:at], now)
            state, more = _broke(state, f"step {report.step} came where {due + at} was due")
            return state, taken + more
    last = steps[-1]
    rate, rated = _rate(attempt, steps)
    attempt = replace(
        attempt,
        last_step=last.step,
        loss=last.loss,
        doing="train",
        rate=rate,
        rated=rated,
        longest_step=max(attempt.longest_step, _slowest(attempt, steps)),
        at=last.at,
        pace=learn(attempt.pace, (step.at for step in steps)),
    )
    bandit = count_steps(state.bandit, steps)
    strange = tell_strangers(state.bandit, bandit)
    steps = with_propensities(steps, (*bandit.phases, *state.named))
    guards, findings = watch(state.guards, state.settings.guards, steps)
    state = replace(state, attempt=attempt, bandit=bandit, guards=guards)
    effects: list[Effect] = [Record(attempt.number, attempt.policy, tuple(steps)), *strange]
    for finding in findings:
        action = state.settings.guards.action(finding.guard)
        state, more = act(state, finding.guard, action, finding.text, finding.facts, now)
        effects += more
    gate = state.gate
    state, more = gating.steps_done(state, steps[0].step, last.step)
    effects += more
    state, more = firing.tell(gate, state, now)
    effects += more
    state, more = lift_proved(state)
    return state, effects + more


def bad_report(state: State, event: BadReport) -> Turn:
    """A line that breaks the contract ends the attempt: what follows it cannot be trusted."""
    if state.attempt is None or state.attempt.number != event.attempt:
        return state, []
    return _broke(state, event.problem)


def _broke(state: State, problem: str) -> Turn:
    if state.attempt is None:
        return state, []
    facts = {"attempt": state.attempt.number, "problem": problem}
    state, effects = kill(state, Cause.BROKE_CONTRACT)
    text = f"cannot use the trainer's reports: {problem}; ending it"
    return state, [Say(text, alarm=True), Journal("contract-broken", facts), *effects]


def _rate(attempt: Attempt, steps: list[Step]) -> tuple[float, float]:
    """Steps a second, and the seconds that this rests on; the first moment does not rule it."""
    seconds = steps[-1].at - attempt.at
    if not attempt.at or seconds <= 0:
        return attempt.rate, attempt.rated
    rated = min(RATE_MEMORY, attempt.rated + seconds)
    share = min(1.0, seconds / rated)
    return attempt.rate + share * (len(steps) / seconds - attempt.rate), rated


def _slowest(attempt: Attempt, steps: list[Step]) -> float:
    return (steps[-1].at - attempt.at) / len(steps) if attempt.at else 0.0


def _take_other(state: State, report: Report, event: Reports, now: float) -> Turn:
    attempt = state.attempt
    if attempt is None or attempt.cause is Cause.BROKE_CONTRACT:
        return state, []
    match report:
        case Ready():
            return _ready(state, attempt, report)
        case Doing():
            return _doing(state, attempt, report, event, now)
        case Phase():
            return _phase(replace(state, attempt=_measured(attempt, report.at)), report)
        case Checkpoint():
            attempt = replace(attempt, doing="train")  # whatever it was, that is over
            state = replace(state, attempt=_measured(attempt, report.at))
            state, effects = firing.step_over(state, now)
            state, more = checkpoint_written(state, report, event)
            return state, effects + more
        case Sample():  # another one may be drawn before the next report
            attempt = replace(attempt, sample=report.step, at=report.at)
            state, gate = replace(state, attempt=_measured(attempt, None)), state.gate
            state, effects = gating.sample_came(state, attempt, report)
            state, more = firing.tell(gate, state, now)
            return state, effects + more
        case Evaluation():
            facts = {"step": report.step, "losses": dict(report.losses)}
            attempt = _measured(replace(attempt, doing="train"), report.at)
            return replace(state, attempt=attempt), [Journal("evaluation", facts)]
        case Finished():
            state = replace(state, attempt=replace(attempt, finished=report.reason))
            return firing.step_over(state, now)
        case Step():
            return take_steps(state, [report], now)


def _measured(attempt: Attempt, since: float | None) -> Attempt:
    """From when on the next step is measured; the first one holds more than a step."""
    known = since if attempt.last_step > attempt.began else None
    return replace(attempt, pace=replace(attempt.pace, since=known))


def _ready(state: State, attempt: Attempt, report: Ready) -> Turn:
    if report.step != attempt.resumed:
        return _broke(state, f"it resumed after step {report.step}, not {attempt.resumed}")
    attempt = replace(
        attempt,
        ready=True,
        companion=report.companion,
        n_params=report.n_params,
        doing="train",
        at=report.at,
    )
    life = Life.RUNNING if state.life is Life.STARTING else state.life
    state = replace(state, attempt=attempt, life=life)
    effects: list[Effect] = [Say(f"attempt {attempt.number} is ready after step {attempt.resumed}")]
    if state.orders.save is not None and life is Life.RUNNING:
        effects += [GiveOrders(state.orders), SignalTrainer(attempt.number, "USR1")]
    state, more = pivots.order_exit(state)
    return state, effects + more


def _doing(state: State, attempt: Attempt, report: Doing, event: Reports, now: float) -> Turn:
    changed = replace(attempt, doing=report.what, at=report.at)
    state = replace(state, attempt=_measured(changed, None))
    if report.what != "save":
        return state, []
    state, effects = firing.step_over(state, now)
    return save_begun(state, report.step, event.position), effects


def _phase(state: State, report: Phase) -> Turn:
    decided = next((p for p in state.bandit.phases if p.phase == report.phase), None)
    ran = PhaseOrder(report.phase, report.last - report.first + 1, report.weights)
    if ran != decided and report.phase not in (p.phase for p in state.named):
        state = replace(state, named=(*state.named, ran))
    before = state.bandit
    bandit = finish_phase(before, state.policy, report)
    gone = {arm.name for arm in before.arms} - {arm.name for arm in bandit.arms}
    newest = {retired.arm.name: retired for retired in bandit.retired}
    retired = tuple(one for name, one in newest.items() if name in gone)
    orders = state.orders._replace(
        serial=state.orders.serial + 1, phases=phases_to_order(state, bandit)
    )
    state = replace(state, bandit=bandit, orders=orders)
    effects = tell_retired(retired, state.policy, before, bandit)
    effects += [GiveOrders(orders), KeepBandit(bandit)]
    if report.repeated:
        text = f"the trainer repeated phase {report.phase - 1} for want of orders"
        effects.append(Say(text, alarm=True))
    return state, effects
