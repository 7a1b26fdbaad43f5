"""What one life of the trainer works with: built once, then handed to every part of the loop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from torch import Tensor

from trainer import clock
from trainer.cadence import Saves
from trainer.contract.settings import TrainerSections
from trainer.device import Compute
from trainer.first_step import Expected
from trainer.keeper import Keeper
from trainer.orders import OrderBook
from trainer.orphan import OrphanWatch
from trainer.reports import Reports, say
from trainer.resume import Digest
from trainer.signals import Requests
from trainer.state import State

PHASE_WAIT = 30.0
_SAY_AGAIN = 30.0


@dataclass
class Run:
    """``forward`` is the model, compiled where asked: int64 [n, time + 1] to float32 [n].

    ``began`` is the step this life resumed from, ``expected`` what its first step has to find, None
    once it was looked at; likewise ``digest``, that of the checkpoint. ``skip`` steps' data are
    still to be thrown away. ``phase_wait`` is how long, in seconds, a phase that the orders do not
    name yet is waited for. ``spoken`` is the newest step that samples were drawn at.
    """

    sections: TrainerSections
    compute: Compute
    state: State
    forward: Callable[[Tensor], Tensor]
    reports: Reports
    orders: OrderBook
    requests: Requests
    saves: Saves
    keeper: Keeper
    orphan: OrphanWatch | None
    began: int
    expected: Expected | None = None
    digest: Digest | None = None
    skip: int = 0
    phase_wait: float = PHASE_WAIT
    said: set[str] = field(default_factory=set)
    waits: bool = False
    spoken: int = -1

    @property
    def last_step(self) -> int:
        """The step that training ends with."""
        return self.sections.train.steps

    def stopping(self) -> bool:
        """Whether the trainer was asked to end."""
        return self.requests.stop

    def doing(self, what: str) -> None:
        """Report an activity, until the next report."""
        self.waits = what == "wait"
        self.reports.send("doing", what=what, step=self.state.step)

    def waited(self) -> None:
        """Report that a wait or a save's begin, if reported, is over: now silence is a hang."""
        if self.waits or self.keeper.elsewhere:
            self.keeper.elsewhere = False
            self.doing("train")

    def before_update(self) -> None:
        """What has to be over before the weights change. Raises TrainerError.

        Raises CheckpointFormatError where those resumed from are not what was saved.
        """
        if self.digest is not None:
            self.digest.check()
            self.digest = None
        self.keeper.before_update(self.state)

    def stopping_amid(self, what: str) -> Callable[[], bool]:
        """``stopping`` for work of unknown length, which is reported again now and then.

        So a long evaluation is known from one that hangs.
        """
        due = clock.seconds() + _SAY_AGAIN

        def asked() -> bool:
            nonlocal due
            if clock.seconds() > due:
                due = clock.seconds() + _SAY_AGAIN
                self.doing(what)
            return self.stopping()

        return asked

    def say_once(self, text: str) -> None:
        """One line to the operator, however often the same thing happens."""
        if text not in self.said:
            self.said.add(text)
            say(text)
