"""Carry out effects, in order, on one writer thread; what they answer goes to the inbox."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable
from queue import Empty, SimpleQueue

from supervisor import clock, environment
from supervisor.core.messages import (
    Answer,
    DiskSeen,
    Effect,
    Event,
    Exit,
    Failed,
    Journal,
    SignalTrainer,
    SpawnFailed,
)
from supervisor.errors import StepkeeperError
from supervisor.perform.backlog import FULL, TROUBLE, Backlog
from supervisor.perform.effects import carry_out
from supervisor.perform.intent import read_intent
from supervisor.perform.output import say
from supervisor.perform.parts import Parts
from supervisor.perform.retaining import wait_for_deletions
from supervisor.perform.wording import name, reason, words
from supervisor.sidecars.checkpoints import SealError

__all__ = ["Parts", "Performer", "read_intent", "say"]

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
        self._lost = False
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
        wait_for_deletions(self.parts)

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
        self.waiting = bool(self._backlog) or self.parts.events.owes

    def _try_again(self) -> None:
        if self.parts.events.owes:
            self._carry_out(None)
        while (effect := self._backlog.first()) is not None and self._carry_out(effect):
            self._backlog.done()
        self.waiting = bool(self._backlog) or self.parts.events.owes

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
        if isinstance(effect, Journal) and self.parts.events.owes:  # it is taken, and owed
            if given_back:
                self._carry_out(None)
            return True
        return given_back and self._carry_out(effect)

    def _give_back(self) -> bool:
        try:
            return self.parts.reserve.give_back()
        except OSError:
            return False

    def _do(self, effect: Effect | None) -> Event | Answer | Exit | None:
        if effect is not None:
            return carry_out(self.parts, effect)
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
