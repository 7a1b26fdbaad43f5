"""One supervisor's life in the simulated world: the mirror of the daemon, one move at a time."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable

from supervisor.core.beginning import Found, begin
from supervisor.core.decide import decide
from supervisor.core.messages import (
    Answer,
    Effect,
    Ended,
    Event,
    Exit,
    Failed,
    GiveOrders,
    KeepBandit,
    Prove,
    Proved,
    Record,
    Recorded,
    Reports,
    ReportsPosition,
    ResumePoint,
    SignalTrainer,
    Spawned,
    Tick,
    Verdict,
    Verified,
    Verify,
    VisibleCheckpoint,
)
from supervisor.core.proving import BEFORE_USE
from supervisor.core.state import State
from tests.support.world.disk import Disk
from tests.support.world.writer import Writer, Writing
from trainer.contract.wire import Checkpoint, Report

AHEAD = 2
READS = (1, 5, 20, 100, 400)  # reports in one read, at most
Watch = Callable[[State, Event | None, State, list[Effect]], None]


class Supervisor:
    """Inbox, following, verifier and writer of one process; all of it is lost when it dies.

    ``watch`` is called after every decision with what was, what came, and what is.
    """

    def __init__(self, disk: Disk, writer: Writer, rng: random.Random, watch: Watch) -> None:
        self.writer = writer
        self.exit: int | None = None
        self.answers: dict[int, dict[str, object]] = {}
        self._disk = disk
        self._rng = rng
        self._watch = watch
        self._inbox: deque[Event | Answer | Exit] = deque()
        self._queue: deque[Effect] = deque()
        self._writing: Writing | None = None
        self._to_verify: deque[Verify] = deque()
        self._to_prove: deque[ResumePoint] = deque()
        self._held_back: dict[type, Effect] = {}
        self._ahead = 0
        self._following: ReportsPosition | None = None
        self._caught_up = self._told = True

    def begin(self, state: State, found: Found, now: float) -> None:
        """The first turn."""
        after, effects = begin(state, found, now)
        if found.attempt is not None:
            self._follow(found.attempt.position)
        self.state = after
        self._watch(state, None, after, effects)
        self._carry_out(effects)

    def put(self, event: Event) -> None:
        """Something happened."""
        self._inbox.append(event)

    def moves(self, now: float) -> list[Callable[[float], None]]:
        """What this process could do next."""
        found: list[Callable[[float], None]] = []
        if self._inbox:
            found.append(self._take)
        if self._queue or self._writing is not None:
            found.append(self._write)
        if self._to_verify:
            found.append(self._verify)
        if self._to_prove:
            found.append(self._prove)
        if self._may_poll():
            found.append(self._poll)
        if self._held_back and self._caught_up and not self._inbox:
            found.append(self._let_go)
        if self.state.deadline is not None and now >= self.state.deadline and not self._inbox:
            found.append(lambda _: self._inbox.append(Tick()))
        return found

    def _may_poll(self) -> bool:
        """Whether a read would find something."""
        if self._following is None or self._ahead >= AHEAD or self._told:
            return False
        attempt, seq, _ = self._following
        gone = self.writer.trainer is None or not self.writer.trainer.alive
        return gone or not self._caught_up or len(self._disk.reports.get(attempt, ())) > seq

    def _take(self, now: float) -> None:
        item = self._inbox.popleft()
        if isinstance(item, Answer):
            assert item.reply not in self.answers, "a request is answered twice"
            self.answers[item.reply] = item.fields
            return
        if isinstance(item, Exit):
            self.exit = item.code
            while self._queue or self._writing is not None:
                self._write(now)
            return
        if isinstance(item, Recorded) or (isinstance(item, Failed) and item.what == "record"):
            self._ahead -= 1
        elif isinstance(item, Spawned):
            self._follow(ReportsPosition(item.attempt, 0, 0))
        before = self.state
        self.state, effects = decide(before, item, now)
        self._watch(before, item, self.state, effects)
        self._carry_out(effects)

    def _carry_out(self, effects: list[Effect]) -> None:
        if effects and self._caught_up:
            self._let_go(0.0)
        for effect in effects:
            if isinstance(effect, Verify):
                self._to_verify.append(effect)
            elif isinstance(effect, Prove):
                self._to_prove = deque(effect.points)
            elif not self._caught_up and _is_projection(effect):
                self._held_back[type(effect)] = effect
            else:
                self._ahead += isinstance(effect, Record)
                self._queue.append(effect)

    def _write(self, now: float) -> None:
        """The writer's next write."""
        self.writer.now = now
        if self._writing is None:
            self._writing = self.writer.perform(self._queue.popleft())
        try:
            next(self._writing)
        except StopIteration as done:
            self._writing = None
            if done.value is not None:
                self._inbox.append(done.value)

    def _verify(self, _: float) -> None:
        effect = self._to_verify.popleft()
        found = self._disk.bins.get(effect.step)
        problem, digest = "", ""
        if found is None:
            problem = f"cannot read {effect.name} back: it is gone"
        elif not found.good or (effect.sha256 and effect.sha256 != found.sha256):
            problem = f"cannot use {effect.name}: v holds a negative value"
        else:
            digest = found.sha256
        verdict = Verdict(effect.step, effect.name, digest, 776, "", problem)
        self._inbox.append(Verified(effect.attempt, verdict))

    def _prove(self, _: float) -> None:
        """What an earlier life sealed may have rotted, though neither all of it nor a pin."""
        step, _, seal = self._to_prove.popleft()
        may_rot = len(self._disk.lineage()) > BEFORE_USE and seal not in self._disk.pivot_points
        problem = "it has rotted" if may_rot and self.writer.chance("rot") else ""
        self._inbox.append(Proved(step, seal, f"step_{step:06d}.bin", problem))

    def _follow(self, position: ReportsPosition) -> None:
        self._following = position
        self._caught_up = self._told = False

    def _poll(self, _: float) -> None:
        if self._following is None:
            return
        trainer = self.writer.trainer
        gone = trainer is None or not trainer.alive
        attempt, seq, at = self._following
        file = self._disk.reports.get(attempt, [])
        taken = file[seq : seq + self._rng.choice(READS)]
        for event in _split(attempt, taken, seq, at):
            self._following = event.position
            self._inbox.append(event)
        self._caught_up = self._following.seq == len(file)
        if self._caught_up and gone:
            self._tell_end()

    def _let_go(self, _: float) -> None:
        """The fold has caught up: write its projections, before anything newer."""
        for kind in (KeepBandit, GiveOrders, SignalTrainer):
            if kind in self._held_back:
                self._queue.append(self._held_back.pop(kind))

    def _tell_end(self) -> None:
        self._told = True
        trainer = self.writer.trainer
        status = trainer.status if trainer is not None and self.writer.parent else None
        visible = tuple(
            VisibleCheckpoint(step, f"step_{step:06d}.bin") for step in self._disk.unsealed
        )
        if self._following is not None:
            number, draw = self._following.attempt, self._rng.random()
            self._inbox.append(
                Ended(number, status, out_of_memory=False, visible=visible, draw=draw)
            )


def _split(attempt: int, taken: list[Report], seq: int, at: int) -> list[Reports]:
    """Events as the follower makes them: a checkpoint is always the last of its event."""
    events: list[Reports] = []
    first = 0
    for index, report in enumerate(taken):
        if isinstance(report, Checkpoint) or index == len(taken) - 1:
            part = tuple(taken[first : index + 1])
            first = index + 1
            events.append(
                Reports(attempt, part, ReportsPosition(attempt, seq + first, at + 100 * first))
            )
    return events


def _is_projection(effect: Effect) -> bool:
    if isinstance(effect, SignalTrainer):
        return effect.name == "USR1"
    return isinstance(effect, GiveOrders | KeepBandit)
