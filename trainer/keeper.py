"""Carry out a checkpoint that is due: sync the reports, write, try again, report.

A disk that is full or read-only is waited for. Any other failure is tried again with a new file,
never with the one whose sync failed, and then left to the next occasion half a minute later or
more.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

from trainer import clock
from trainer.cadence import Due
from trainer.checkpoint import Saved, SealedError, write
from trainer.errors import TrainerError
from trainer.moment import take
from trainer.reports import Reports, say
from trainer.state import State

_TRIES = 3
_REST_AFTER_FAILURE = 30.0
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS})
_PAUSE_WHEN_FULL = 0.5
_PATIENCE_OF_A_STOP = 30.0


class Keeper:
    """``folder`` takes the checkpoints; ``last`` is the newest of this life, or resumed from.

    ``answers`` counts the checkpoints reported, told again or new, and those that failed.
    """

    def __init__(
        self,
        folder: Path,
        identities: dict[str, Any],
        reports: Reports,
        stopping: Callable[[], bool],
        last: Saved | None,
    ) -> None:
        self._folder = folder
        self._identities = identities
        self._reports = reports
        self._stopping = stopping
        self.last = last
        self.answers = 0
        self._since = clock.seconds()
        self._rest_until = 0.0

    @property
    def since(self) -> float:
        """Seconds since the last checkpoint, or since this life began."""
        return clock.seconds() - self._since

    def keep(self, state: State, due: Due) -> bool:
        """Write what is due, unless this step has a checkpoint, and answer an order.

        Returns whether the step has a checkpoint now. Raises TrainerError where the trainer was
        to leave and cannot save what it did.
        """
        new = self.last is None or self.last.step != state.step
        if new and due.reason and (due.leave or clock.seconds() > self._rest_until):
            self.answers += 1
            self._reports.send("doing", what="save", step=state.step)
            self._reports.sync()
            self.last = self._try(state, due) or self.last
            self._since = clock.seconds()
        saved = self.last
        if saved is None or saved.step != state.step:
            return False
        if new or due.save is not None:
            self.answers += 1
            self._reports.send(
                "checkpoint",
                step=saved.step,
                name=saved.name,
                sha256=saved.sha256,
                bytes=saved.bytes,
                reason=due.reason,
                seconds=round(saved.seconds, 6),
                save=due.save,
            )
        return True

    def _try(self, state: State, due: Due) -> Saved | None:
        since = self.last.step if self.last else 0
        moment = take(state, due.reason, self._identities, since)
        tries = 0
        last_try = float("inf")
        while True:
            try:
                return write(self._folder, moment)
            except SealedError as error:
                say(str(error))
                return None
            except OSError as error:
                text = f"cannot write the checkpoint of step {state.step}: {error}"
                full = error.errno in _FULL
            tries += 1
            if tries == 1 or not full:
                say(f"{text}; {'waiting for room' if full else 'that file is discarded'}")
            if full and self._stopping():
                last_try = min(last_try, clock.seconds() + _PATIENCE_OF_A_STOP)
            if clock.seconds() > last_try or (not full and tries >= _TRIES):
                if due.leave:
                    raise TrainerError(text)
                self._rest_until = clock.seconds() + _REST_AFTER_FAILURE
                return None
            if full:
                if tries == 1:  # once: each line of it would take room
                    self._reports.send("doing", what="wait", step=state.step)
                clock.pause(_PAUSE_WHEN_FULL)
