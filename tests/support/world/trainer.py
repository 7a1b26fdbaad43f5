"""A trainer for the simulated world: its steps are a pure function of seed, step and mix.

It keeps the contract with the real rules for phases and saves, and breaks it where its habits say.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal

from tests.support.world.disk import Bin, Disk
from trainer.cadence import Due, Saves
from trainer.contract.settings import CheckpointSettings
from trainer.contract.wire import (
    ArmResult,
    Checkpoint,
    Doing,
    Finished,
    Phase,
    Ready,
    Report,
    Sample,
    Step,
)
from trainer.phases import Phase as Running
from trainer.phases import follow, read_phase, rejoin, repeat

SECONDS_A_STEP = 1.0
PHASE_WAIT = 30.0
COMPANION = True
ARM = "alpha"  # what a trainer that knows no orders takes
MASK = (1 << 64) - 1
NAMES = {"TERM": -15, "KILL": -9}


@dataclass(frozen=True)
class Habits:
    """How a trainer behaves. ``differs_from`` is the first step whose loss this life changes."""

    steps: int
    cadence: int
    sigusr1: Literal["now", "boundary"] = "now"
    orders: bool = True
    exits: bool = True
    bad: frozenset[int] = frozenset()
    differs_from: int = 0
    gap_at: int = 0
    fuse: int = 0  # dies at this point of its life; 0: never by itself
    poison: int = 0  # fails once it has reported this step
    blind: bool = False  # fails before it has read its checkpoint
    lost: frozenset[int] = frozenset()  # data whose loss is no number, by their place in the order


class _DeadError(Exception):
    pass


def mix(number: int) -> int:
    """64 well-mixed bits of a number."""
    z = (number * 0x9E3779B97F4A7C15 + 0x1234567) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    return z ^ (z >> 27)


class Trainer:
    """One life. Reports wait in ``_buffer`` until flushed and are lost with the process."""

    def __init__(self, disk: Disk, attempt: int, seed: int, habits: Habits, now: float) -> None:
        self.attempt = attempt
        self.habits = habits
        self.status: int | None = None
        self.ready = False
        self.step = 0
        self.left = ""
        self.saved: int | None = None
        self.pause_at = -1  # the world may hold it at this step's end
        self._disk = disk
        self._seed = seed
        self._points = 0
        self._seq = 0
        self._now = now
        self._buffer: list[Report] = []
        self._resume = disk.attempts[attempt].resume
        self._drawn = 0
        self._saves = Saves(CheckpointSettings(every_steps=habits.cadence, sigusr1=habits.sigusr1))
        self._phase: Running | None = None
        self._waiting_since: float | None = None
        self._stop = self._signalled = self._stalled = False
        disk.reports[attempt] = []

    @property
    def alive(self) -> bool:
        """Whether the process exists."""
        return self.status is None

    @property
    def stalled(self) -> bool:
        """Whether it waits for a phase and would only look again."""
        return self._stalled and not self._stop

    @property
    def held(self) -> bool:
        """Whether it does no step until the orders let it."""
        return self.ready and not self._stop and self._disk.orders.hold is not None

    def send(self, name: str) -> None:
        """A signal; before the handlers are in, TERM kills and USR1 is ignored."""
        if not self.alive:
            return
        if name == "KILL" or (name == "TERM" and not self.ready):
            self._die(NAMES[name])
        elif name == "TERM":
            self._stop = True
        elif name == "USR1" and self.ready:
            self._signalled = True

    def work(self, steps: int, now: float) -> float:
        """Live on for at most ``steps`` steps; returns the time."""
        self._now = now
        try:
            if self._seq == 0:
                self._say(Doing, "load", 0)
                self._point()
            elif not self.ready:
                self._load()
            else:
                self._train(steps)
        except _DeadError:
            pass
        return self._now

    def flush(self) -> None:
        """What was reported is in the file."""
        self._disk.reports[self.attempt] += self._buffer
        self._buffer = []

    def _die(self, status: int) -> None:
        self._buffer = []
        self.status = status

    def _point(self) -> None:
        """A place to die."""
        self._points += 1
        if self._points == self.habits.fuse:
            self._die(-9)
            raise _DeadError

    def _say(self, report: type[Report], *fields: object) -> None:
        self._seq += 1
        self._buffer.append(report(self._seq, self._now, *fields))

    def _load(self) -> None:
        if self.habits.blind:
            self._die(1)
            raise _DeadError
        if self._resume is not None:
            found = self._disk.bins[self._resume.step]
            assert found.sha256 == self._resume.sha256, "the trainer loads another checkpoint"
            assert found.good, "the trainer loads a bad checkpoint"
            self.step = self.saved = found.step
            self._phase = read_phase(found.phase)
            self._drawn = found.drawn
        self._drawn += self._disk.attempts[self.attempt].skip
        if self.habits.orders:
            self._phase = rejoin(self._phase, self._disk.orders, self.step)
        self.began = self.step
        self.ready = True
        self._say(Ready, 1000 + self.attempt, 64, self.step, COMPANION)
        self._point()
        self.flush()

    def _train(self, most: int) -> None:
        leave = "steps" if self.step >= self.habits.steps else ""
        for _ in range(most):
            leave = leave or self._begin_phase()
            if leave or self._stalled or self.step == self.pause_at:
                break
            self._one_step()
            leave = self._attend()
        if self._stalled or self.step == self.pause_at:
            leave = leave or self._attend()
        if leave:
            self._say(Finished, leave, self.step)
            self.flush()
            self.left, self.status = leave, 0

    def _begin_phase(self) -> str:
        self._stalled = False
        if not self.habits.orders or (self._phase is not None and not self._phase.over):
            return ""
        orders = self._disk.orders
        found = follow(self._phase, orders, self.step)
        if found is not None:
            self._waiting_since = None
            self._phase = found
            return ""
        if self._waiting_since is None:
            self._waiting_since = self._now
            self._say(Doing, "wait", self.step)
        self.flush()
        if self._phase is not None and self._now - self._waiting_since > PHASE_WAIT:
            self._phase = repeat(self._phase, self.step)
            self._waiting_since = None
            return ""
        self._stalled = True
        return "stop" if self._stop else ""

    def _one_step(self) -> None:
        before = self.step
        self.step += 1
        self._now += SECONDS_A_STEP
        step, phase = self.step, self._phase
        if step == self.habits.gap_at:
            self.step = step = step + 1
        self._drawn += step - before
        bits = mix(self._seed * 1_000_003 + self._drawn)
        arm = self._draw(bits / 2**64)
        loss = 2.0 + 400.0 / (step + 100) + (bits & 1023) / 10240 + 0.01 * (ord(arm[0]) & 15)
        if 0 < self.habits.differs_from <= step:
            loss += 0.001
        number = 0
        if phase is not None:
            number = phase.number
            phase.done += 1
            phase.served(arm, loss)
        lost = self._drawn in self.habits.lost
        told = (None, "nan") if lost else (loss, "")
        self._say(Step, step, *told, arm, 3e-4, f"{bits ^ ord(arm[0]):016x}", number, ())
        if step == self.habits.poison:
            self.flush()
            self._die(1)
            raise _DeadError
        self._point()
        if phase is not None and phase.over:
            told = phase.report({})
            results = tuple(ArmResult(**arm) for arm in told["arms"])
            weights = tuple(phase.weights.items())
            fields = (phase.number, told["first"], told["last"], phase.repeated, weights, results)
            self._say(Phase, *fields)
            self._point()
        if step % self.habits.cadence == 0:
            self._say(Sample, step, "say", f"said at {step}", 0.8)

    def _draw(self, share: float) -> str:
        weights = self._phase.weights if self._phase is not None else {ARM: 1.0}
        arm = ""
        for name, weight in weights.items():
            if weight > 0:
                arm = name
                share -= weight
            if share < 0:
                break
        return arm

    def _attend(self) -> str:
        signalled, self._signalled = self._signalled, False
        if self.step == self.began:
            self._signalled = signalled
            return "stop" if self._stop else ""
        due = self._saves.decide(
            self.step,
            last=self.step >= self.habits.steps,
            stop=self._stop,
            signalled=signalled,
            order=self._disk.orders.save if self.habits.orders else None,
            since=0.0,
        )
        if due.reason or due.save is not None:
            self._save(due)
        return due.leave if due.leave != "order" or self.habits.exits else ""

    def _save(self, due: Due) -> None:
        new = self.saved != self.step
        if new:
            self.flush()
            self._point()
            phase = asdict(self._phase) if self._phase is not None else None
            good = self.step not in self.habits.bad
            digest = f"{mix(self._seed + 7 * self.step + 1_000_003 * self.attempt):064x}"
            assert self.step not in self._disk.seals, f"step {self.step} is sealed already"
            self._disk.bins[self.step] = Bin(
                self.step, digest, self.attempt, phase, good, self._drawn
            )
            self.saved = self.step
            self._point()
        if new or due.save is not None:
            digest = self._disk.bins[self.step].sha256
            name = f"step_{self.step:06d}.bin"
            self._say(Checkpoint, self.step, name, digest, 776, due.reason, 0.01, due.save)
            self.flush()
            self._point()
