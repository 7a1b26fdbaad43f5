"""Write one checkpoint in spite of a disk that is full or fails, or say why it cannot be.

A disk that is full or read-only is waited for. Any other failure is tried again with a new file,
never with the one whose sync failed, and then left to the next occasion.
"""

from __future__ import annotations

import errno
from collections.abc import Callable

from trainer import clock
from trainer.checkpoint import Saved, SealedError
from trainer.errors import TrainerError
from trainer.reports import say

_TRIES = 3
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS})
_PAUSE_WHEN_FULL = 0.5
_PATIENCE_OF_A_STOP = 30.0


class Persisting:
    """The tries at one checkpoint; ``full`` while they wait for room."""

    def __init__(self, step: int, stopping: Callable[[], bool], *, leave: bool) -> None:
        """``leave`` says that the trainer ends after it; ``stopping`` that it shall end soon."""
        self._step = step
        self._stopping = stopping
        self._leave = leave
        self.full = False

    def carry_out(self, write: Callable[[], Saved]) -> Saved | None:
        """Call ``write`` until it succeeds; None where this step gets no checkpoint.

        Raises TrainerError where the trainer was to leave and cannot save what it did.
        """
        tries, last_try = 0, float("inf")
        while True:
            try:
                return write()
            except SealedError as error:
                say(str(error))
                return None
            except OSError as error:
                text = f"cannot write the checkpoint of step {self._step}: {error}"
                self.full = error.errno in _FULL
            tries += 1
            if tries == 1 or not self.full:  # once: each line of it would take room
                say(f"{text}; {'waiting for room' if self.full else 'that file is discarded'}")
            if self.full and self._stopping():
                last_try = min(last_try, clock.seconds() + _PATIENCE_OF_A_STOP)
            if clock.seconds() > last_try or (not self.full and tries >= _TRIES):
                if self._leave:
                    raise TrainerError(text)
                return None
            if self.full:
                clock.pause(_PAUSE_WHEN_FULL)
