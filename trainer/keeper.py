"""Carry out a checkpoint that is due, beside training where set so, and report it.

One save at a time, and one checkpoint of a step. What is asked for while another save runs waits
for it where it belongs to this very step, and is else owed to a later one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from trainer import clock
from trainer.cadence import Due
from trainer.checkpoint import Saved, Store
from trainer.contract.settings import Background
from trainer.moment import take
from trainer.persisting import Persisting
from trainer.reports import Reports, say
from trainer.saver import Jobs, Save
from trainer.second import Second
from trainer.state import State

_REST_AFTER_FAILURE = 30.0
_LOOK_AGAIN = 0.05
_SHORT = 0.2  # a wait that is not worth a report
_WORTH_A_THREAD = 64_000_000  # bytes: less is written in the time that a step takes anyway


class Keeper:
    """``store`` takes the checkpoints; ``last`` is the newest of this life, or resumed from.

    ``answers`` counts the checkpoints begun, reported, told again, and those that failed.
    ``waited`` is how long training stood still for saves, in seconds. ``elsewhere`` says that the
    last activity reported is a save or a wait, so that training has to be reported again.
    """

    def __init__(
        self,
        store: Store,
        identities: dict[str, Any],
        reports: Reports,
        stopping: Callable[[], bool],
        last: Saved | None,
        background: Background = "auto",
    ) -> None:
        """``background`` says how to save beside training; ``auto`` copies what is large."""
        self._store = store
        self._identities = identities
        self._reports = reports
        self._stopping = stopping
        self.last = last
        self.answers = 0
        self.waited = 0.0
        self.elsewhere = False
        self._background = background
        self._second = Second()
        self._save: Save | None = None
        self._owed: list[Due] = []
        self._closing = False
        self._direct = True
        self._since = clock.seconds()
        self._rest_until = 0.0

    @property
    def since(self) -> float:
        """Seconds since the last checkpoint was begun, or since this life began."""
        return clock.seconds() - self._since

    @property
    def saving(self) -> bool:
        """Whether a save is under way."""
        return self._save is not None

    def keep(self, state: State, due: Due) -> None:
        """Write what is due, or begin to, unless this step has a checkpoint; answer an order.

        Raises TrainerError where the trainer was to leave and cannot save what it did.
        """
        save = self._save
        if save is not None and not due.leave:
            same = save.moment.step == state.step
            if same and due.save is None:
                return
            # A boundary is where an order's checkpoint has to be; what else is asked for may as
            # well be of a later step.
            if not same and due.reason != "cadence":
                self._owed.append(due)
                return
        if save is not None:
            self._wait(save, save.over, state, report=True)
            self.collect()
        if self.last is not None and self.last.step == state.step:
            if due.save is not None:
                self._report(self.last, due)
        elif due.leave or clock.seconds() > self._rest_until:
            background = "off" if due.leave else self._way(state)
            self._begin(state, due, copied=background == "copy")
            if background == "off":
                self.finish(state)
        else:
            self._owed.append(due)

    def take_owed(self) -> list[Due]:
        """What was due and has failed, or could not be begun, since the last call."""
        owed, self._owed = self._owed, []
        return owed

    def collect(self) -> None:
        """Report a save that is over. Raises TrainerError as ``keep`` does."""
        save = self._save
        if save is None or not save.over.is_set():
            return
        self._save = None
        saved = save.result()
        if saved is None:
            self.answers += 1
            self._owed.append(save.due)
            self._rest_until = clock.seconds() + _REST_AFTER_FAILURE
            return
        self.last = saved
        self._report(saved, save.due)
        if not saved.directly and self._direct:
            self._direct = False
            say(
                f"cannot pass by the page cache in {self._store.folder}: its file system refuses "
                "O_DIRECT, so a save takes more time from training"
            )

    def before_update(self, state: State) -> None:
        """Wait until the arrays of a save under way may change. Raises TrainerError."""
        if self._save is not None:
            self._wait(self._save, self._save.free, state, report=True)
            self._save.guard_update()

    def finish(self, state: State) -> None:
        """Wait for the save under way and report it. Raises TrainerError as ``keep`` does."""
        if self._save is not None:
            self._wait(self._save, self._save.over, state, report=False)
            self.collect()

    def close(self) -> None:
        """Let a save under way come to its end, but not wait for room without limit."""
        self._closing = True
        if self._save is not None:
            self._save.over.wait()

    def _way(self, state: State) -> Background:
        if self._background != "auto":
            return self._background
        return "copy" if 12 * state.n_params >= _WORTH_A_THREAD else "off"

    def _begin(self, state: State, due: Due, *, copied: bool) -> None:
        self.answers += 1
        self.elsewhere = True
        self._reports.send("doing", what="save", step=state.step)
        moment = take(state, due.reason, self._identities, self.last.step if self.last else 0)
        tries = Persisting(
            state.step, lambda: self._closing or self._stopping(), leave=bool(due.leave)
        )
        self._save = Save(moment, due, self._jobs(tries), self._second if copied else None)
        self._since = clock.seconds()

    def _jobs(self, tries: Persisting) -> Jobs:
        folder, write = self._store
        return Jobs(self._reports.sync, tries, lambda moment: write(folder, moment))

    def _wait(self, save: Save, event: threading.Event, state: State, *, report: bool) -> None:
        """Stand still until ``event``; waiting for room is reported, or any long wait.

        Waiting for room has no limit. A save that is waited for has that of a save: its thread
        may hang, and nobody else would notice.
        """
        began = clock.seconds()
        said = ""
        while not event.wait(_LOOK_AGAIN):
            what = "wait" if save.full else "save"
            if what != said and (save.full or (report and clock.seconds() - began > _SHORT)):
                said, self.elsewhere = what, True
                step = state.step if save.full else save.moment.step
                self._reports.send("doing", what=what, step=step)
        self.waited += clock.seconds() - began
        if said and event is save.free:
            self.elsewhere = False
            self._reports.send("doing", what="train", step=state.step)

    def _report(self, saved: Saved, due: Due) -> None:
        self.answers += 1
        self.elsewhere = False
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
