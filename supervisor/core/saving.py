"""Checkpoints on their way to a seal: asked for, written, read back, sealed."""

from __future__ import annotations

from dataclasses import replace

from supervisor.core import pivot as pivots
from supervisor.core.keeping import retain, with_seal
from supervisor.core.messages import (
    Answer,
    Effect,
    Failed,
    GiveOrders,
    Journal,
    Pin,
    Recorded,
    Reports,
    ResumePoint,
    Say,
    Seal,
    Sealed,
    SignalTrainer,
    Verified,
    Verify,
)
from supervisor.core.quarantine import put_away
from supervisor.core.replaying import tell_difference, tell_equal, tell_replay
from supervisor.core.restarting import Restarts
from supervisor.core.snapshots import moment_of, newest_request, placed
from supervisor.core.state import (
    Attempt,
    Life,
    PivotStage,
    SaveRequest,
    SealPoint,
    State,
)
from trainer.contract.checkpoint_format import step_of
from trainer.contract.wire import Checkpoint, SaveOrder

Turn = tuple[State, list[Effect]]


def order_save(
    state: State, *, pin: bool, note: str, reply: int | None, sample: bool = False
) -> Turn:
    """Ask the trainer for a checkpoint; the answer names the serial that its seal will carry.

    With ``sample`` it draws one of that step too, if it can: an order that takes the place of one
    not answered yet asks for what that one did.
    """
    attempt = state.attempt
    problem = ""
    if attempt is None or state.life not in (Life.STARTING, Life.RUNNING):
        problem = f"cannot save: no trainer is running ({state.life})"
    elif state.pivot is not None and state.pivot.stage is not PivotStage.INSTALLED:
        problem = "cannot save: a pivot is under way and saves by itself"
    if problem or attempt is None:
        return state, [Answer(reply, {"error": problem})] if reply is not None else [Say(problem)]
    serial = state.orders.serial + 1
    request = SaveRequest(serial, pin, note)
    before = state.orders.save
    sample = sample or (before is not None and before.sample)
    save = SaveOrder(serial, "cadence" if state.settings.boundary else "step", "go", sample)
    orders = state.orders._replace(serial=serial, save=save)
    state = replace(state, orders=orders, saves=(*state.saves, request))
    effects: list[Effect] = []
    if attempt.ready:
        effects += [GiveOrders(orders), SignalTrainer(attempt.number, "USR1")]
    if reply is not None:
        effects.append(
            Answer(reply, {"serial": serial, "attempt": attempt.number, "step": attempt.last_step})
        )
    return state, effects


def checkpoint_written(state: State, report: Checkpoint, event: Reports) -> Turn:
    """A checkpoint is visible: have it read back; its bandit state is the one folded so far."""
    attempt = state.attempt
    if attempt is None:
        return state, []
    seals = (*state.seals, *state.quarantined)
    told = {p.step for p in state.pending} | {seal.point.step for seal in seals}
    moment = moment_of(state, report.step, event.position)
    named = step_of(report.name) == report.step
    if report.step == attempt.resumed or not named or not (moment or report.step in told):
        text = f"{report.name} is not at the step just reported ({attempt.last_step}): set aside"
        return state, [Say(text, alarm=True)]
    save, state = _answered(state, report)
    if moment is None or report.step in told:
        return _told_again(state, report, save)
    pending = replace(
        moment, name=report.name, sha256=report.sha256, reason=report.reason, save=save
    )
    longest = max(attempt.longest_save, report.seconds)
    state = pivots.note_checkpoint(state, report)
    state, more = _withdraw(state, save)
    effects: list[Effect] = [
        Verify(attempt.number, report.step, report.name, report.sha256),
        *more,
    ]
    attempt = replace(attempt, longest_save=longest, begun=None)
    state = replace(state, longest_save=max(state.longest_save, report.seconds))
    return replace(state, attempt=attempt, pending=(*state.pending, pending)), effects


def _told_again(state: State, report: Checkpoint, save: int | None) -> Turn:
    """A trainer that waits at a step answers an order with the checkpoint that the step has."""
    state = pivots.note_checkpoint(state, report)
    state, effects = _withdraw(state, save)
    if any(pending.step == report.step for pending in state.pending):
        pending = tuple(
            replace(p, save=save) if p.step == report.step and save is not None else p
            for p in state.pending
        )
        return replace(state, pending=pending), effects
    state, more = _keep_promises(state, save, report.step)
    return state, effects + more


def _withdraw(state: State, save: int | None) -> Turn:
    """Take the order back that a checkpoint has answered."""
    in_force = state.orders.save
    if in_force is None or save is None or save < in_force.serial:
        return state, []
    orders = state.orders._replace(serial=state.orders.serial + 1, save=None)
    return replace(state, orders=orders), [GiveOrders(orders)]


def _keep_promises(state: State, save: int | None, step: int) -> Turn:
    """Forget the requests that the checkpoint of ``step`` answers, pinning it where asked."""
    done = tuple(r for r in state.saves if save is not None and r.serial <= save)
    saves = tuple(request for request in state.saves if request not in done)
    pins: list[Effect] = [Pin(step, request.note) for request in done if request.pin]
    return replace(state, saves=saves), pins


def _answered(state: State, report: Checkpoint) -> tuple[int | None, State]:
    """The save serial this checkpoint answers; without orders, the signal answers the newest.

    That is the newest when it was begun: what was asked for later wants a later step.
    """
    if report.save is not None or report.reason != "signal":
        return report.save, state
    begun = state.attempt.begun if state.attempt is not None else None
    if begun is not None and begun.step == report.step:
        return begun.save, state
    return newest_request(state), state


def recorded(state: State, event: Recorded) -> Turn:
    """The ledger holds steps up to a position: note proofs, and seal what waited for it."""
    attempt = state.attempt
    if attempt is None or attempt.number != event.attempt:
        return state, []
    effects: list[Effect] = []
    differed = attempt.differed
    if event.differed is not None and differed is None:
        differed = event.differed
        effects += tell_difference(state, attempt, event)
    effects += tell_equal(attempt, event)
    attempt = replace(
        attempt,
        recorded=event.position,
        proved=attempt.proved + event.proved,
        consistent=attempt.consistent + event.consistent,
        differed=differed,
    )
    if attempt.begun is not None:
        attempt = replace(attempt, begun=placed(attempt.begun, attempt))
    pending = tuple(placed(moment, attempt) for moment in state.pending)
    state = replace(state, attempt=attempt, pending=pending)
    if event.position.step >= attempt.replay_until or differed is not None:
        state, more = tell_replay(state)
        effects += more
    state, more = pivots.note_recorded(state, event)
    effects += more
    state, more = seal_next(state)
    return state, effects + more


def verified(state: State, event: Verified) -> Turn:
    """A checkpoint was read back: a bad one is refused, a good one waits for its turn."""
    attempt = state.attempt
    if attempt is None or attempt.number != event.attempt:
        return state, []
    verdict = event.verdict
    effects: list[Effect] = []
    if verdict.problem:
        pending = tuple(p for p in state.pending if p.step != verdict.step)
        facts = {"step": verdict.step, "name": verdict.name, "problem": verdict.problem}
        effects += [Journal("checkpoint-refused", facts), Say(verdict.problem, alarm=True)]
    else:
        pending = tuple(
            replace(p, verdict=verdict) if p.step == verdict.step else p for p in state.pending
        )
    state, more = seal_next(replace(state, pending=pending))
    return state, effects + more


def seal_next(state: State) -> Turn:
    """Seal the oldest pending checkpoint once it is verified and the ledger holds its step."""
    attempt = state.attempt
    if attempt is None or not state.pending:
        return state, []
    first = state.pending[0]
    if first.asked or first.verdict is None or first.ledger is None:
        return state, []
    effect = Seal(
        attempt.number,
        attempt.policy,
        first.verdict,
        first.ledger,
        first.reports,
        first.bandit,
        first.sample,
        first.reason,
        first.save,
        first.replay,
        first.sample_verdict,
        first.suspect,
    )
    pending = (replace(first, asked=True), *state.pending[1:])
    return replace(state, pending=pending), [effect]


def sealed(state: State, event: Sealed) -> Turn:
    """A seal is durable: it is progress, the next resume point, and the witness line."""
    attempt = state.attempt
    if attempt is None or attempt.number != event.attempt or not state.pending:
        return state, []
    first = state.pending[0]
    point = SealPoint(
        ResumePoint(event.step, event.sha256, event.seal),
        attempt.policy,
        first.bandit,
        guards=first.guards,
    )
    effects: list[Effect] = [Say(f"head {event.head}")]
    if event.differs is not None:
        text = f"{event.name} holds another loss than the ledger, which stands: "
        effects.append(Say(text + event.differs.text, alarm=True))
    state, more = _keep_promises(state, first.save, event.step)
    effects += more
    state = replace(state, pending=state.pending[1:], sealed_before=True)
    if first.suspect:
        state, more = put_away(state, point, first.suspect)
        effects += more
    else:
        state = _chosen(state, attempt, point)
    effects += retain(state)
    state, more = seal_next(state)
    return state, effects + more


def _chosen(state: State, attempt: Attempt, point: SealPoint) -> State:
    """The new seal is progress, and what is resumed from."""
    restarts = state.restarts
    if point.point.step > restarts.best:
        restarts = Restarts(best=point.point.step)
        attempt = replace(attempt, sealed=True)
    seals = with_seal(state, point)
    # As long as there is a seal before them: whoever falls back to it runs them again.
    own = (seal.bandit for seal in seals if seal.policy == attempt.policy)
    oldest = min(bandit.finished for bandit in own if bandit is not None)
    named = tuple(phase for phase in state.named if phase.phase > oldest)
    return replace(state, attempt=attempt, seals=seals, named=named, restarts=restarts)


def seal_failed(state: State, event: Failed) -> Turn:
    """A seal could not be written: its checkpoint stays unsealed and is never resumed from."""
    text = f"{event.problem}; the checkpoint stays unsealed"
    state, effects = seal_next(replace(state, pending=state.pending[1:]))
    return state, [
        Say(text, alarm=True),
        Journal("seal-failed", {"problem": event.problem}),
        *effects,
    ]
