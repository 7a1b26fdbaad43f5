"""Carry out effects, in order, on one writer thread; what they answer goes to the inbox."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable
from queue import Empty, SimpleQueue

from supervisor import clock, environment
from supervisor.core.bandit import BanditState
from supervisor.core.messages import (
    AdvancePivot,
    Answer,
    CloseAttempt,
    DiskSeen,
    Effect,
    EndLeft,
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
    Spawn,
    SpawnFailed,
    StageDone,
    Unpin,
    Verify,
)
from supervisor.errors import StepkeeperError
from supervisor.perform import pivoting, retaining, spawning, stacks
from supervisor.perform.backlog import FULL, TROUBLE, Backlog
from supervisor.perform.intent import read_intent, write_intent
from supervisor.perform.output import leave_terminal, say
from supervisor.perform.parts import Parts
from supervisor.perform.wording import name, reason, words
from supervisor.sidecars import bandit_state
from supervisor.sidecars.checkpoints import SealError, SealRecord, pin, reject, unpin, write_seal
from trainer.contract.durable import replace_file
from trainer.contract.wire import format_orders

__all__ = ["Parts", "Performer", "read_intent", "say"]

# A repeated fold tells these again; the journal keeps each once.
_FOLDED = frozenset({"replay", "replay-differed", "evaluation", "checkpoint-refused", "sealed"})
_OF_THE_LEDGER = frozenset({"replay", "replay-differed"})  # speak of lines: those first
_RETRY_SECONDS = 1.0
_TO_BE_RESTARTED = 1


class Performer:
    """Owns the parts while its thread runs; ``put`` receives events, Answer and Exit.

    What the disk refuses waits, with all that must stay behind it, and is tried each second.
    ``refused`` counts such refusals and says what the last one was; ``waiting`` says whether
    anything still waits. Both may be read from any thread.
    """

    def __init__(self, parts: Parts, put: Callable[[Event | Answer | Exit], None]) -> None:
        self.parts = parts
        self.refused: tuple[int, str] = (0, "")
        self.waiting = False
        self._put = put
        self._queue: SimpleQueue[Effect | None] = SimpleQueue()
        self._backlog = Backlog()
        self._owed = self._lost = False
        self._submitted = self._performed = 0
        self._thread = threading.Thread(target=self._work, name="writer", daemon=True)

    def start(self) -> None:
        """Begin to work off effects."""
        self._thread.start()

    def submit(self, effect: Effect) -> None:
        """Have an effect carried out after all submitted before it, urgent ones aside."""
        self._submitted += 1
        self._queue.put(effect)

    @property
    def idle(self) -> bool:
        """Whether all that was submitted is done, and its answers given."""
        return self._submitted == self._performed and not self.waiting

    def close(self) -> None:
        """Finish what was submitted and end the thread; what finds no room is only named."""
        self._queue.put(None)
        self._thread.join()

    def _work(self) -> None:
        retry_at = 0.0
        while True:
            try:
                wait = max(0.0, retry_at - clock.monotonic()) if self.waiting else None
                effect = self._queue.get(timeout=wait)
            except Empty:
                self._try_again()
                retry_at = clock.monotonic() + _RETRY_SECONDS
                continue
            if effect is None:
                break
            if not self.waiting:
                retry_at = clock.monotonic() + _RETRY_SECONDS
            self._take(effect)
            self._performed += 1
        self._try_again()
        if self.waiting:
            left = [words(effect) for effect in self._backlog] or [words(None)]
            say(f"left undone, since the disk takes nothing: {', '.join(dict.fromkeys(left))}")

    def _take(self, effect: Effect) -> None:
        """Carry it out, or let it wait behind what waits."""
        if isinstance(effect, SignalTrainer) and self._backlog.withdraw(effect):
            text = f"attempt {effect.attempt} was not started: the disk had no room for it"
            self._put(SpawnFailed(effect.attempt, text))
        elif self._backlog.holds_back(effect) or not self._carry_out(effect):
            self._backlog.add(effect)
        self.waiting = bool(self._backlog) or self._owed

    def _try_again(self) -> None:
        if self._owed:
            self._owed = not self._carry_out(None)
        while (effect := self._backlog.first()) is not None and self._carry_out(effect):
            self._backlog.done()
        self.waiting = bool(self._backlog) or self._owed

    def _carry_out(self, effect: Effect | None) -> bool:
        """Do it, or with None what the journal owes; False where the disk did not take it."""
        try:
            answer = self._do(effect)
        except (OSError, StepkeeperError, SealError) as error:
            text = f"cannot {words(effect)}: {reason(error)}"
            if self._is_lost():
                self._leave(text)
                return True
            if isinstance(error, OSError) and error.errno in TROUBLE:
                return self._refuse(effect, text, error)
            answer = Failed(name(effect), text)
        except Exception as error:  # noqa: BLE001 - a fault of ours: better ended and adopted anew than deaf
            answer = self._fault(effect, error)
        if answer is not None:
            self._put(answer)
        if self._is_lost():  # noticed where the effect itself could do without
            self._leave(f"cannot {words(effect)}: a sync failed")
        return True

    def _refuse(self, effect: Effect | None, text: str, error: OSError) -> bool:
        """The disk does not take it: give the ballast back and try once more, or let it wait."""
        self.refused = (self.refused[0] + 1, text)
        if not self.waiting:
            self._put(DiskSeen(text))
        given_back = error.errno in FULL and self._give_back()
        if isinstance(effect, Journal):  # the journal has taken it, and owes the line
            self._owed = not (given_back and self._carry_out(None))
            return True
        return given_back and self._carry_out(effect)

    def _give_back(self) -> bool:
        try:
            return self.parts.reserve.give_back()
        except OSError:
            return False

    def _do(self, effect: Effect | None) -> Event | Answer | Exit | None:
        if effect is not None:
            return self._perform(effect)
        self.parts.events.flush()
        return None

    def _is_lost(self) -> bool:
        return self.parts.events.lost or self.parts.ledger.lost

    def _leave(self, text: str) -> None:
        """After a failed sync only the disk can tell what it holds: the next life asks it."""
        if not self._lost:
            self._lost = True
            hint = "leaving; the next start reads back what the disk holds"
            say(f"{text}; {hint}", alarm=True)
            self._put(Exit(_TO_BE_RESTARTED))

    def _fault(self, effect: Effect | None, error: Exception) -> Exit:
        if environment.traceback_wanted():
            traceback.print_exception(error)
        text = (
            f"a fault in stepkeeper itself, {type(error).__name__}: {' '.join(str(error).split())}"
        )
        hint = "STEPKEEPER_TRACEBACK=1 shows where"
        say(f"cannot {words(effect)}: {text}; {hint}", alarm=True)
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
                self._journal(effect)
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
            case EndLeft():
                spawning.end_left(parts)
            case Verify() | Prove() | Reload():
                raise StepkeeperError(f"cannot {name(effect)} on the writer thread")
        return None

    def _journal(self, effect: Journal) -> None:
        if effect.event in _OF_THE_LEDGER:
            self.parts.ledger.sync()
        once = effect.event in _FOLDED
        self.parts.events.append(effect.event, effect.facts, clock.wall(), once=once)

    def _record(self, effect: Record) -> Event:
        outcome = self.parts.ledger.record(
            effect.attempt, effect.policy, effect.steps, clock.wall()
        )
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
            self._owed = True
            self.refused = (self.refused[0] + 1, f"cannot journal the seal: {reason(error)}")
        return Sealed(effect.attempt, verdict.step, verdict.sha256, seal, head, verdict.name)
