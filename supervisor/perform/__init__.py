"""Carry out effects, in order, on one writer thread; what they answer goes to the inbox."""

from __future__ import annotations

import errno
import threading
import traceback
from collections.abc import Callable
from queue import SimpleQueue

from supervisor import clock, environment
from supervisor.core.bandit import BanditState
from supervisor.core.messages import (
    AdvancePivot,
    Answer,
    CloseAttempt,
    Effect,
    Event,
    Exit,
    Failed,
    GiveOrders,
    Journal,
    KeepBandit,
    KeepIntent,
    KeepSample,
    LeaveTerminal,
    Pin,
    Record,
    Recorded,
    RecordStacks,
    Reject,
    Retain,
    Say,
    Seal,
    Sealed,
    SignalTrainer,
    Spawn,
    StageDone,
    Unpin,
    Verify,
)
from supervisor.errors import StepkeeperError
from supervisor.perform import pivoting, retaining, spawning, stacks
from supervisor.perform.intent import read_intent, write_intent
from supervisor.perform.output import leave_terminal, say
from supervisor.perform.parts import Parts
from supervisor.sidecars import bandit_state
from supervisor.sidecars.checkpoints import SealError, SealRecord, pin, reject, unpin, write_seal
from trainer.contract.durable import replace_file
from trainer.contract.wire import format_orders

__all__ = ["Parts", "Performer", "read_intent", "say"]

# A repeated fold tells these again; the journal keeps each once.
_FOLDED = frozenset({"replay", "replay-differed", "evaluation", "checkpoint-refused", "sealed"})
_RETRY_SECONDS = 1.0


class Performer:
    """Owns the parts while its thread runs; ``put`` receives events, Answer and Exit."""

    def __init__(self, parts: Parts, put: Callable[[Event | Answer | Exit], None]) -> None:
        self.parts = parts
        self._put = put
        self._queue: SimpleQueue[Effect | None] = SimpleQueue()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._work, name="writer", daemon=True)

    def start(self) -> None:
        """Begin to work off effects."""
        self._thread.start()

    def submit(self, effect: Effect) -> None:
        """Have an effect carried out after all submitted before it."""
        self._queue.put(effect)

    def close(self) -> None:
        """Finish what was submitted and end the thread."""
        self._closing.set()
        self._queue.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (effect := self._queue.get()) is not None:
            try:
                answer = self._perform(effect)
            except (OSError, StepkeeperError, SealError) as error:
                answer = Failed(_name(effect), f"cannot {_words(effect)}: {error}")
                if self.parts.events.lost:
                    # No seal comes after it, since each is to name the journal's durable head.
                    self._put(answer)
                    answer = Exit(1)
            except Exception as error:  # noqa: BLE001 - a fault of ours: better ended and adopted anew than deaf
                answer = self._fault(effect, error)
            if answer is not None:
                self._put(answer)

    def _fault(self, effect: Effect, error: Exception) -> Exit:
        if environment.traceback_wanted():
            traceback.print_exception(error)
        text = (
            f"a fault in stepkeeper itself, {type(error).__name__}: {' '.join(str(error).split())}"
        )
        hint = "STEPKEEPER_TRACEBACK=1 shows where"
        say(f"cannot {_words(effect)}: {text}; {hint}", alarm=True)
        return Exit(1)

    def _perform(self, effect: Effect) -> Event | Answer | Exit | None:  # noqa: C901, PLR0911, PLR0912 - one short case per effect
        parts = self.parts
        match effect:
            case Record():
                return self._record(effect)
            case Seal():
                return self._seal(effect)
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
            case KeepSample():
                parts.samples.add(effect.attempt, effect.policy, effect.sample)
            case KeepIntent():
                write_intent(parts.run, effect.want, effect.by, done=effect.done, hold=effect.hold)
            case Journal():
                once = effect.event in _FOLDED
                parts.events.append(effect.event, effect.facts, clock.wall(), once=once)
            case CloseAttempt():
                spawning.close_attempt(parts, effect)
            case Retain():
                return retaining.retain(parts, effect)
            case Pin():
                retaining.refuse_to_pin(parts.run, effect.step)
                pin(parts.checkpoints, effect.step, effect.note)
            case Unpin():
                unpin(parts.checkpoints, effect.step)
            case Reject():
                reject(parts.checkpoints, effect.seal, effect.why)
            case Say():
                say(effect.text, alarm=effect.alarm)
            case LeaveTerminal():
                leave_terminal(parts.run)
            case Verify():
                raise StepkeeperError("cannot verify on the writer thread")
        return None

    def _record(self, effect: Record) -> Event:
        """The ledger is never the victim of a full disk: its lines are tried until they are in."""
        told = False
        while True:
            try:
                outcome = self.parts.ledger.record(
                    effect.attempt, effect.policy, effect.steps, clock.wall()
                )
            except OSError as error:
                full = error.errno in (errno.ENOSPC, errno.EDQUOT)
                if not told:
                    say(f"cannot append to the ledger: {error}", alarm=True)
                    told = True
                if not full or self._closing.wait(_RETRY_SECONDS):
                    return Failed("record", f"cannot append to the ledger: {error}")
            else:
                return Recorded(
                    effect.attempt,
                    outcome.position,
                    outcome.proved,
                    outcome.consistent,
                    outcome.differed,
                    outcome.difference,
                )

    def _seal(self, effect: Seal) -> Event:
        parts, verdict = self.parts, effect.verdict
        parts.ledger.sync()
        parts.events.sync()
        record = SealRecord.of(
            effect,
            previous=parts.newest_seal,
            events=parts.events.head,
            bandit=bandit_state.to_record(effect.bandit),
            time=clock.wall(),
        )
        seal = write_seal(parts.checkpoints, record)
        parts.newest_seal = seal
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
        try:
            parts.events.append("sealed", facts, clock.wall(), once=True)
        except OSError as error:  # the seal stands all the same, and the journal owes the line
            say(f"cannot journal the seal of step {verdict.step} yet: {error}", alarm=True)
        return Sealed(effect.attempt, verdict.step, verdict.sha256, seal, head, verdict.name)


def _name(effect: Effect) -> str:
    if isinstance(effect, AdvancePivot):
        return effect.stage
    return type(effect).__name__.lower()


_WORDS = {
    CloseAttempt: "record the attempt's end",
    GiveOrders: "write the trainer's orders",
    Journal: "append to events.jsonl",
    KeepBandit: "write the bandit state",
    KeepIntent: "write down what is wanted",
    KeepSample: "keep the sample",
    Pin: "pin the checkpoint",
    Record: "append to the ledger",
    Reject: "mark the checkpoint as rejected",
    Retain: "delete old checkpoints",
    Seal: "seal the checkpoint",
    SignalTrainer: "signal the trainer",
    Unpin: "unpin the checkpoint",
}


def _words(effect: Effect) -> str:
    """What was to be done, for a person."""
    if isinstance(effect, AdvancePivot):
        return f"make the pivot {effect.stage}"
    return _WORDS.get(type(effect), _name(effect))
