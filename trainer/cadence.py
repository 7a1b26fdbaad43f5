"""Whether this step ends with a checkpoint, why, and whether the trainer leaves after it.

A value in, a value out; the loop carries it out.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from trainer.contract.settings import CheckpointSettings
from trainer.contract.wire import SaveOrder

Reason = Literal["", "cadence", "clock", "signal", "stop"]
Leave = Literal["", "steps", "stop", "order"]


class Due(NamedTuple):
    """``reason`` is empty where nothing is to be written, ``leave`` where training goes on.

    ``save`` is the serial of the order that this answers, or None.
    """

    reason: Reason
    save: int | None
    leave: Leave


class Saves:
    """Requests for a checkpoint that are not answered yet."""

    def __init__(self, settings: CheckpointSettings) -> None:
        self._settings = settings
        self._signalled = False
        self._honoured: int | None = None

    def decide(
        self,
        step: int,
        *,
        last: bool,
        stop: bool,
        signalled: bool,
        order: SaveOrder | None,
        since: float,
    ) -> Due:
        """What is due at the end of ``step``; ``since`` is seconds since the last checkpoint.

        An order that is not honoured yet decides over the signal and its setting, since the
        signal may only have announced it.
        """
        boundary = step % self._settings.every_steps == 0
        self._signalled = self._signalled or signalled
        if order is not None and order.serial != self._honoured:
            self._signalled = False
            ordered = order.align == "step" or boundary or last
        else:
            order, ordered = None, False
        asked = ordered or (
            self._signalled and (self._settings.sigusr1 == "now" or boundary or last)
        )
        every = self._settings.every_seconds
        reason: Reason = ""
        if boundary:
            reason = "cadence"
        elif stop or last:
            reason = "stop"
        elif asked:
            reason = "signal"
        elif every is not None and since >= every:
            reason = "clock"
        if reason:
            self._signalled = False
        leave: Leave = "steps" if last else "stop" if stop else ""
        if order is None or not ordered:
            return Due(reason, None, leave)
        self._honoured = order.serial
        return Due(reason, order.serial, leave or ("order" if order.then == "exit" else ""))

    def reopen(self, due: Due) -> None:
        """What ``due`` answered is still owed: the checkpoint could not be written."""
        if due.save is not None:
            self._honoured = None
        elif due.reason == "signal":
            self._signalled = True
