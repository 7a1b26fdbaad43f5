"""Hold sealed checkpoints against their seals: those an attempt waits for, then all others.

One at a time, each once in a supervisor's life, and behind every checkpoint that waits for its
seal, though never for long. What nobody waits for leaves processor and disk to whoever wants them.
"""

from __future__ import annotations

import selectors
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from supervisor import clock
from supervisor.core.messages import Prove, Proved, ResumePoint
from supervisor.core.state import Life, State
from supervisor.errors import RefusedError
from supervisor.perform import say
from supervisor.sidecars.checkpoints import SealError, SealRecord, rejections, scan
from supervisor.sidecars.checkpoints.seals import read
from supervisor.sidecars.checkpoints.verifying import Sealed, Verifier
from trainer.contract.checkpoint_format import seal_of

TRIES = 4  # of one of which it cannot be told: a disk may have a bad moment
PAUSE_SECONDS = 0.5  # before the second try, doubling
YIELD_SECONDS = 10.0  # on a machine where some checkpoint always waits for its seal
TELL_SECONDS = 5.0  # between lines about one that an attempt waits for


class _Reading(NamedTuple):
    """A checkpoint that is being read back; ``wanted``: an attempt waits for it."""

    seal: SealRecord
    wanted: bool


class Proofs:
    """``put`` receives Proved; ``selector`` watches the child that reads, as ``"verifier"``.

    ``everything``: what nobody waits for is read back too.
    """

    def __init__(
        self,
        folder: Path,
        selector: selectors.BaseSelector,
        put: Callable[[Proved], None],
        roots: Mapping[str, Path] | None = None,
        *,
        everything: bool,
    ) -> None:
        self._folder = folder
        self._selector = selector
        self._put = put
        self._verifier = Verifier(roots)
        self._wanted: deque[ResumePoint] = deque()
        self._others: deque[int] | None = None if everything else deque()
        self._known: set[str] = set()
        self._current: _Reading | None = None
        self._paused = False
        self._tries = 0
        self._not_before = self._told = 0.0
        self._yields_since = clock.monotonic()

    def want(self, effect: Prove) -> None:
        """An attempt waits for these: they go before all others."""
        at_work = self._current.seal.digest if self._current else ""
        if self._current is not None and at_work in [point.seal for point in effect.points]:
            self._current = self._current._replace(wanted=True)
        elif self._current is not None:
            self._later.appendleft(self._current.seal.step)
            self._stop_reading()
        self._wanted = deque(point for point in effect.points if point.seal != at_work)

    def ready(self) -> None:
        """The child has said something: pass its verdict on."""
        current = self._current
        verdict = self._verifier.result() if current is not None else None
        if current is None or verdict is None:
            return
        self._selector.unregister(self._descriptor)
        self._current = None
        self._conclude(current, verdict.problem)

    def progress(self) -> str:
        """How far the one is that an attempt waits for, in words; empty where none waits."""
        current = self._current
        if current is None or not current.wanted:
            return ""
        done, total = self._verifier.done / 1e6, current.seal.bin.bytes / 1e6
        return (
            f"reading {current.seal.bin.name} back before it is used: {done:.0f} of {total:.0f} MB"
        )

    def keep_up(self, state: State, now: float, *, busy: bool) -> None:
        """Begin the next one; wait while a checkpoint is read back for its seal (``busy``)."""
        if not busy:
            self._yields_since = now
        busy = busy and now < self._yields_since + YIELD_SECONDS
        if self._current is not None and busy != self._paused:
            self._verifier.pause(paused=busy)
            self._paused = busy
        if self._current is None and not busy and now >= self._not_before:
            self._known |= {seal.point.seal for seal in state.seals if seal.proved}
            self._next(now)
        if state.life is Life.PROVING and now >= self._told + TELL_SECONDS:
            self._told = now
            if text := self.progress():
                say(text)

    def close(self) -> None:
        """End the child if it still runs."""
        self._verifier.close()

    @property
    def _later(self) -> deque[int]:
        """What nobody waits for, the newest first, listed when it is first asked for."""
        if self._others is None:
            self._others = deque(scan(self._folder).present)
        return self._others

    def _next(self, now: float) -> None:
        self._told = now
        while self._wanted:
            point = self._wanted.popleft()
            seal = self._seal(point.step)
            if seal is not None and seal.digest == point.seal:
                self._start(_Reading(seal, wanted=True))
                return
            self._answer_unread(point)
        while self._later:
            seal = self._seal(self._later.popleft())
            if seal is not None:
                self._start(_Reading(seal, wanted=False))
                return

    def _answer_unread(self, point: ResumePoint) -> None:
        """One that is wanted and not to be read: it is known, or its seal is gone."""
        name = f"the checkpoint of step {point.step}"
        known = point.seal in self._known
        problem = "" if known else f"cannot tell whether {name} is good: its seal has changed"
        self._put(Proved(point.step, point.seal, name, problem, doubt=not known))

    def _seal(self, step: int) -> SealRecord | None:
        """What is to be read back at that step; None where nothing is, or it is known."""
        try:
            seal = read(self._folder / seal_of(step))
            if seal.digest in self._known or seal.digest in rejections(self._folder):
                return None
        except (OSError, SealError, RefusedError):
            return None  # moved away meanwhile, or no seal: whoever lists them tells
        return seal

    def _start(self, reading: _Reading) -> None:
        seal = reading.seal
        sealed = Sealed(seal.bin.sha256, seal.companion)
        self._paused = False
        try:
            self._descriptor = self._verifier.start_again(
                self._folder, seal.bin.name, sealed, idle=not reading.wanted
            )
        except OSError as error:
            problem = f"cannot tell whether {seal.bin.name} is good: {error.strerror or error}"
            self._conclude(reading, problem)
            return
        self._current = reading
        self._selector.register(self._descriptor, selectors.EVENT_READ, "verifier")

    def _stop_reading(self) -> None:
        self._selector.unregister(self._descriptor)
        self._verifier.close()
        self._current = None
        self._tries = 0

    def _conclude(self, reading: _Reading, problem: str) -> None:
        seal, name = reading.seal, reading.seal.bin.name
        doubt = problem.startswith("cannot tell")
        gone = (
            not (self._folder / name).exists() or not (self._folder / seal_of(seal.step)).exists()
        )
        self._tries += 1
        if gone and not reading.wanted:
            self._tries = 0  # retention or a new attempt took it away meanwhile
            return
        if doubt and self._tries < TRIES:
            if reading.wanted:
                self._wanted.appendleft(ResumePoint(seal.step, seal.bin.sha256, seal.digest))
            else:
                self._later.appendleft(seal.step)
            self._not_before = clock.monotonic() + PAUSE_SECONDS * 2 ** (self._tries - 1)
            return
        self._tries = 0
        if not problem:
            self._known.add(seal.digest)
        self._put(Proved(seal.step, seal.digest, name, problem, doubt=doubt or gone))
