"""One save beside training: a thread copies the state, or reads it as it stands, and writes it.

The thread holds no interpreter lock while it does what is long. It sends no report: what it came
to is told by the loop, which waits only where the next update would change what is still read.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import NamedTuple

from trainer import clock
from trainer.cadence import Due
from trainer.checkpoint import Saved
from trainer.moment import Moment
from trainer.persisting import Persisting
from trainer.reports import say
from trainer.second import Second


class Jobs(NamedTuple):
    """What the thread does behind the copy: ``sync`` the reports once, then ``tries`` to write."""

    sync: Callable[[], None]
    tries: Persisting
    write: Callable[[Moment], Saved]


class Save:
    """A save under way, of ``moment`` for ``due``, from the instant it is made.

    ``free`` is set when the live arrays may change, ``over`` when there is a result.
    """

    def __init__(self, moment: Moment, due: Due, jobs: Jobs, second: Second | None) -> None:
        """With ``second`` the state is copied into it first, and without it read as it stands."""
        self.moment = moment
        self.due = due
        self.free = threading.Event()
        self.over = threading.Event()
        self._jobs = jobs
        self._second = second
        self._saved: Saved | None = None
        self._error: BaseException | None = None
        if second is not None:
            second.begin(moment)
        threading.Thread(target=self._run, name="save", daemon=True).start()

    @property
    def full(self) -> bool:
        """Whether it waits for room on the disk."""
        return self._jobs.tries.full

    def guard_update(self) -> None:
        """Let the next update of a GPU come after the copies; to be called once ``free``."""
        if self._second is not None and self._second.fence is not None:
            self._second.fence.wait()

    def result(self) -> Saved | None:
        """What it came to, once ``over``; None for no checkpoint. Raises what stopped it."""
        if self._error is not None:
            raise self._error
        return self._saved

    def _run(self) -> None:
        try:
            began = clock.seconds()
            moment = self.moment if self._second is None else self._copied(self._second)
            copied = clock.seconds() - began
            self._jobs.sync()
            saved = self._jobs.tries.carry_out(lambda: self._jobs.write(moment))
            self._saved = saved and saved._replace(seconds=saved.seconds + copied)
        except BaseException as error:  # noqa: BLE001 - the loop raises it again
            self._error = error
        finally:
            self.free.set()
            self.over.set()

    def _copied(self, second: Second) -> Moment:
        try:
            moment = second.copy(self.moment)
        except (OSError, MemoryError) as error:
            say(f"cannot copy the state before it is written: {error}; updates wait for the disk")
            return self.moment
        self.free.set()
        if second.fence is not None:
            second.fence.synchronize()
        return moment
