"""What the disk did not take yet: effects that wait, in order, and those that may go past them.

A ledger line that finds no room holds back whatever must stay behind it, a seal for one, but
neither a signal nor an order, nor what is said to a person.
"""

from __future__ import annotations

import errno
from collections import deque
from collections.abc import Iterator
from dataclasses import replace

from supervisor.core.messages import (
    Answer,
    Effect,
    EndLeft,
    Exit,
    GiveOrders,
    KeepIntent,
    LeaveTerminal,
    RecordStacks,
    Say,
    SignalTrainer,
    Spawn,
)

FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
NO_ROOM = FULL | {errno.EROFS}
TROUBLE = NO_ROOM | {errno.EIO}
_URGENT = (
    SignalTrainer,
    RecordStacks,
    GiveOrders,
    KeepIntent,
    Answer,
    Say,
    LeaveTerminal,
    EndLeft,
    Exit,
)


class Backlog:
    """Two lines: small urgent files that are tried first, and everything else, in order."""

    def __init__(self) -> None:
        self._small: list[Effect] = []
        self._line: deque[Effect] = deque()

    def __bool__(self) -> bool:
        return bool(self._small or self._line)

    def __iter__(self) -> Iterator[Effect]:
        return iter((*self._small, *self._line))

    def holds_back(self, effect: Effect) -> bool:
        """Whether it has to wait behind what waits already."""
        if isinstance(effect, GiveOrders):  # a start writes orders of its own, older ones
            return any(isinstance(waiting, Spawn) for waiting in self._line)
        return bool(self._line) and not isinstance(effect, _URGENT)

    def add(self, effect: Effect) -> None:
        """It waits behind all others of its line; the latest orders are the only ones."""
        if not isinstance(effect, _URGENT) or self.holds_back(effect):
            self._line.append(effect)
            return
        if isinstance(effect, GiveOrders):
            self._small = [e for e in self._small if not isinstance(e, GiveOrders)]
        if isinstance(effect, KeepIntent):
            effect = self._together(effect)
        self._small.append(effect)

    def first(self) -> Effect | None:
        """What is to be tried next; it stays until it is ``done``."""
        waiting = self._small or self._line
        return waiting[0] if waiting else None

    def done(self) -> None:
        """What was first is carried out."""
        if self._small:
            del self._small[0]
        else:
            self._line.popleft()

    def withdraw(self, signal: SignalTrainer) -> bool:
        """Take back the start of an attempt that is to be ended; False where none waits."""
        if signal.name == "USR1":
            return False
        before = len(self._line)
        self._line = deque(
            effect
            for effect in self._line
            if not (isinstance(effect, Spawn) and effect.attempt == signal.attempt)
        )
        return len(self._line) < before

    def _together(self, intent: KeepIntent) -> KeepIntent:
        """One intent for all that wait: what the later ones leave as it is comes from before."""
        for effect in self._small:
            if isinstance(effect, KeepIntent):
                self._small.remove(effect)
                hold = effect.hold if intent.hold is None else intent.hold
                return replace(intent, by=intent.by or effect.by, hold=hold)
        return intent
