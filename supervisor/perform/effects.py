"""What each effect does to the run's files and processes."""

from __future__ import annotations

import contextlib

from supervisor import clock
from supervisor.core.bandit import BanditState
from supervisor.core.loss_history import difference, steps_of
from supervisor.core.messages import (
    AdvancePivot,
    Answer,
    CloseAttempt,
    Effect,
    EndLeft,
    Event,
    Exit,
    GiveOrders,
    Journal,
    KeepBandit,
    KeepIntent,
    KeepSamples,
    LeaveTerminal,
    Lift,
    LossDifference,
    Pin,
    Prove,
    Record,
    Recorded,
    RecordStacks,
    Reject,
    Reload,
    Retain,
    Say,
    Seal,
    Sealed,
    SignalTrainer,
    Skip,
    Spawn,
    StageDone,
    Unpin,
    Verify,
)
from supervisor.errors import StepkeeperError
from supervisor.perform import marking, pivoting, retaining, spawning, stacks
from supervisor.perform.intent import write_intent
from supervisor.perform.output import leave_terminal, say
from supervisor.perform.parts import Parts
from supervisor.perform.wording import name
from supervisor.sidecars import bandit_state
from supervisor.sidecars.checkpoints import (
    SealRecord,
    quarantine,
    write_seal,
)
from trainer.contract.durable import replace_file
from trainer.contract.wire import format_orders

# A repeated fold tells these again; the journal keeps each once.
_FOLDED = frozenset(
    {
        "replay",
        "replay-differed",
        "evaluation",
        "checkpoint-refused",
        "contract-broken",
        "attempt-ended",
        "arm-retired",
        "arm-unknown",
        "guard",
        "guard-quiet",
        "rolled-back",
        "skip-ignored",
    }
)
_OF_THE_LEDGER = frozenset({"replay", "replay-differed"})  # speak of lines: those first


def carry_out(parts: Parts, effect: Effect) -> Event | Answer | Exit | None:  # noqa: C901, PLR0911, PLR0912 - one short case per effect
    """Do it; what it answers, if anything.

    Raises OSError, StepkeeperError and SealError: it may be tried again, from its beginning.
    """
    match effect:
        case Record():
            return _record(parts, effect)
        case Seal():
            return _seal(parts, effect)
        case Spawn():
            return spawning.start(parts, effect)
        case AdvancePivot():
            pivoting.advance(parts, effect.stage, effect.facts)
            return StageDone(effect.stage, effect.facts)
        case RecordStacks():
            return stacks.record(parts, effect)
        case Answer() | Exit():
            return effect
        case SignalTrainer():
            spawning.signal_trainer(parts, effect)
        case GiveOrders():
            replace_file(parts.run / "orders.json", format_orders(effect.orders))
        case KeepBandit():
            if isinstance(effect.bandit, BanditState):
                bandit_state.write(parts.config.bandit, effect.bandit)
        case KeepSamples():
            parts.samples.keep(effect)
        case KeepIntent():
            write_intent(parts.run, effect.want, effect.by, done=effect.done, hold=effect.hold)
        case Journal():
            _journal(parts, effect)
        case CloseAttempt():
            spawning.close_attempt(parts, effect)
        case Retain():
            return retaining.retain(parts, effect)
        case Pin() | Unpin() | Reject() | Lift() | Skip():
            marking.mark(parts, effect)
        case Say():
            say(effect.text, alarm=effect.alarm)
        case LeaveTerminal():
            leave_terminal(parts.run)
        case EndLeft():
            spawning.end_left(parts)
        case Verify() | Prove() | Reload():
            raise StepkeeperError(f"cannot {name(effect)} on the writer thread")
    return None


def _journal(parts: Parts, effect: Journal) -> None:
    if effect.event in _OF_THE_LEDGER:
        parts.ledger.sync()
    once = effect.event in _FOLDED
    parts.events.append(effect.event, effect.facts, clock.wall(), once=once)


def _record(parts: Parts, effect: Record) -> Event:
    outcome = parts.ledger.record(effect.attempt, effect.policy, effect.steps, clock.wall())
    return Recorded(
        effect.attempt,
        outcome.position,
        outcome.proved,
        outcome.consistent,
        outcome.differed,
        outcome.difference,
        outcome.origin,
    )


def _seal(parts: Parts, effect: Seal) -> Event:
    verdict = effect.verdict
    parts.ledger.sync()
    differs = _differs(parts, effect)
    parts.events.sync()
    record = SealRecord.of(
        effect,
        previous=parts.newest_seal,
        events=parts.events.head,
        bandit=bandit_state.to_record(effect.bandit),
        time=clock.wall(),
    )
    if effect.suspect:  # first, so that there is no moment at which it could be chosen
        quarantine(parts.checkpoints, record.digest, effect.suspect)
    seal = write_seal(parts.checkpoints, record)
    parts.newest_seal, parts.newest_bytes = seal, verdict.bytes
    parts.ledger.mark(f"seal:{seal[:32]}")
    head = f"{effect.ledger.entries}:{effect.ledger.chain}:{seal[:32]}"
    facts = {
        "attempt": effect.attempt,
        "step": verdict.step,
        "sha256": verdict.sha256,
        "seal": seal,
        "reason": effect.reason,
        "head": head,
    }
    with contextlib.suppress(OSError):  # the seal stands all the same; the journal owes the line
        parts.events.append("sealed", facts, clock.wall(), once=True)
        if effect.suspect:
            facts = {"step": verdict.step, "seal": seal, "why": effect.suspect}
            parts.events.append("quarantined", facts, clock.wall(), once=True)
    return Sealed(effect.attempt, verdict.step, verdict.sha256, seal, head, verdict.name, differs)


def _differs(parts: Parts, effect: Seal) -> LossDifference | None:
    """Hold the checkpoint's losses against the ledger, which has every step of it by now.

    A difference is journaled before the seal, so that no crash can lose it.
    """
    verdict = effect.verdict
    told = parts.ledger.losses(*steps_of(verdict.losses))
    differs = difference(verdict.losses, told)
    if differs is not None:
        facts = {"attempt": effect.attempt, "checkpoint": verdict.step, **differs._asdict()}
        parts.events.append("losses-differ", facts, clock.wall(), once=True)
    return differs
