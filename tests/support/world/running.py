"""The world itself: one move after the other, in an order drawn from a seed, on a virtual clock."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

from supervisor.core.messages import (
    Asked,
    DiskSeen,
    Effect,
    Event,
    LimitNear,
    Quiet,
    Seal,
    Signalled,
)
from supervisor.core.policy import Policy
from supervisor.core.state import Settings, State
from tests.support.world.chances import Chances
from tests.support.world.disk import Disk
from tests.support.world.laws import Laws
from tests.support.world.life import Supervisor
from tests.support.world.recovery import recover
from tests.support.world.trainer import Habits, Trainer
from tests.support.world.writer import Writer

MOVE_SECONDS = 0.01
OFTEN = 0.05  # of all moves look for a mishap; chances are of all moves
MOST_MOVES_WITHOUT_A_STEP = 20_000


class World:
    """A run of ``steps`` steps under ``policies``, the first of them in force.

    ``orders`` says whether its trainers know orders. Everything follows from ``seed``.
    """

    def __init__(
        self,
        policies: tuple[Policy, ...],
        chances: Chances,
        *,
        seed: int,
        steps: int,
        settings: Settings,
        orders: bool = True,
    ) -> None:
        self.rng = random.Random(seed)  # noqa: S311 - chance that can be repeated
        self.policies = policies
        self.chances = chances
        self.steps = steps
        self.settings = settings
        self.live = frozenset(arm.name for arm in policies[0].arms)
        self.disk = Disk({policies[0].number: policies[0]})
        exact = not (chances.differs or not orders or chances.lost)
        self.laws = Laws(self.disk, self.live, seed, exact=exact)
        self.now = 1000.0
        self.trainer: Trainer | None = None
        self.supervisor: Supervisor | None = None
        self.exits: list[int] = []
        self.counts: dict[str, int] = {}
        self.before: Callable[[World], None] = lambda _: None
        self.only: frozenset[str] | None = None  # while set, no other mishaps than these
        self.pace = 120  # steps that a trainer may do before anybody else moves
        self.hold_at = -1  # trainers wait at the end of this step
        self.poison = 0  # every trainer fails once it has reported this step
        self.blind_until = 0.0  # until then trainers fail before they have read a checkpoint
        self._orders = orders
        self._left = False  # whether the last life ended by itself
        self._seed = seed
        self._reply = 0

    def run(self) -> None:
        """Until the trainer has done all steps and the supervisor has left over it."""
        idle, furthest = 0, 0
        while not self._finished():
            self.before(self)
            self._move()
            idle += 1
            if self.disk.ledger.step > furthest:
                idle, furthest = 0, self.disk.ledger.step
            assert idle < MOST_MOVES_WITHOUT_A_STEP, f"nothing moves on: {self.supervisor}"

    def go_on_until(self, until: Callable[[World], bool], most: int = 2_000_000) -> None:
        """Let it go on until something has come to be, within ``most`` moves."""
        for _ in range(most):
            if until(self):
                return
            self._move()
        raise AssertionError(f"it never came to be: {self.supervisor}")

    def ask(self, verb: str, **fields: object) -> int:
        """An operator's request to the supervisor; returns the number of its reply."""
        assert self.supervisor is not None
        self._reply += 1
        self.supervisor.put(Asked(self._reply, verb, fields))
        return self._reply

    def pivot(self, when: str = "boundary") -> int:
        """Ask for a pivot to the next policy, its text being the policy itself."""
        number = max(self.disk.policies) + 1
        policy = replace(self.policies[number % len(self.policies)], number=number)
        return self.ask("pivot", policy=policy, text=policy, when=when, by="an operator")

    def kill_supervisor(self) -> None:
        """SIGKILL: memory is gone, the trainer goes on."""
        self.supervisor = None

    def _finished(self) -> bool:
        done = bool(self.disk.seals) and max(self.disk.seals) == self.steps
        intent = self.disk.intent
        return self._left and done and intent.get("want") == "run" and intent["done"]

    def _count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1

    def _happens(self, chance: float) -> bool:
        return chance > 0 and self.only is None and self.rng.random() < chance

    def _move(self) -> None:
        """One move of anybody, or a mishap."""
        self.now += MOVE_SECONDS
        if self.supervisor is None:
            if self.rng.random() < 0.2:
                self._start_supervisor()
                return
        elif self._mishap():
            return
        elif self.supervisor.state.trouble and self.rng.random() < OFTEN:
            self.supervisor.put(DiskSeen(""))
        moves = self.supervisor.moves(self.now) if self.supervisor else []
        trainer = self.trainer
        works = trainer is not None and trainer.alive and not trainer.held
        if works and (not moves or self.rng.random() < 0.3):
            self._train(quiet=not moves)
        elif moves:
            self.rng.choice(moves)(self.now)
            self._look_for_the_exit()
        elif self.supervisor is not None and self.supervisor.state.deadline is not None:
            self.now = max(self.now, self.supervisor.state.deadline)

    def _train(self, *, quiet: bool) -> None:
        trainer = self.trainer
        if trainer is None:
            return
        self.now = max(self.now, trainer.work(self.rng.randint(1, self.pace), self.now))
        if trainer.stalled and quiet and self.supervisor is not None:
            self.now += 1.0
        if self.rng.random() < 0.9 or quiet:
            trainer.flush()

    def _look_for_the_exit(self) -> None:
        if self.supervisor is not None and self.supervisor.exit is not None:
            self.exits.append(self.supervisor.exit)
            self._left = True
            self._count(f"exit {self.supervisor.exit}")
            if self.supervisor.exit == 11:
                self.disk.quarantined.clear()  # the operator vouches for all of them
            self._judge_exit(self.supervisor)
            self.supervisor = None

    def _judge_exit(self, supervisor: Supervisor) -> None:
        """A trainer outlives its supervisor only where a fault of ours ended that."""
        if supervisor.exit != 1:
            assert self.trainer is None or not self.trainer.alive, "left with the trainer alive"
        if supervisor.exit == 0:
            assert self.disk.intent["done"]

    def _start_supervisor(self) -> None:
        self.laws.restart()
        state, found = recover(self.disk, self.settings, self.live, self._seed, self.now)
        newest = self.disk.seals[max(self.disk.seals)].point.seal if self.disk.seals else ""
        writer = Writer(self.disk, self._fails, self._spawn, newest)
        if found.attempt is not None and self.trainer is not None and self.trainer.alive:
            assert self.trainer.attempt == found.attempt.number
            writer.trainer = self.trainer
        writer.sealed = self._sealed
        writer.rules = self.settings.retention
        self._left = False
        self.supervisor = Supervisor(self.disk, writer, self.rng, self._watch)
        self.supervisor.begin(state, found, self.now)
        self._count("supervisor started")

    def _fails(self, what: str) -> bool:
        return self._happens(self.chances.fails.get(what, 0.0))

    def _sealed(self, effect: Seal) -> None:
        self.laws.of_seal(effect)
        self._count("sealed")

    def _watch(self, before: State, event: Event | None, after: State, does: list[Effect]) -> None:
        self.laws.look(before, event, after, does)

    def _spawn(self, attempt: int, now: float) -> Trainer:
        self._count("spawned")
        assert self.trainer is None or not self.trainer.alive, "two trainers live at once"
        step = self.disk.attempts[attempt].resumed
        rng, chances = self.rng, self.chances
        cadence = self.settings.cadence
        bad = range(step + 1, step + 4 * cadence)
        habits = Habits(
            self.steps,
            cadence,
            sigusr1="boundary" if self.settings.boundary else "now",
            orders=self._orders,
            exits=not self._happens(chances.ignores_exit),
            bad=frozenset(bad) if self._happens(chances.bad) else frozenset(),
            differs_from=step + rng.randint(1, cadence) if self._happens(chances.differs) else 0,
            gap_at=step + rng.randint(2, cadence) if self._happens(chances.gap) else 0,
            fuse=rng.randint(1, 3 * cadence) if self._happens(chances.fuse) else 0,
            poison=self.poison,
            lost=chances.lost,
            blind=now < self.blind_until,
        )
        self.trainer = Trainer(self.disk, attempt, self._seed, habits, now)
        self.trainer.pause_at = self.hold_at
        return self.trainer

    def _mishap(self) -> bool:
        """Somebody dies, or somebody asks for something."""
        if self.rng.random() >= OFTEN:
            return False
        for name, chance in (
            ("trainer_killed", self.chances.trainer_killed),
            ("trainer_stopped", self.chances.trainer_stopped),
            ("supervisor_killed", self.chances.supervisor_killed),
            ("both_killed", self.chances.both_killed),
            ("stop", self.chances.stop),
            ("save", self.chances.save),
            ("pivot", self.chances.pivot),
            ("cancel", self.chances.cancel),
            ("silence", self.chances.silence),
            ("disk", self.chances.disk),
            ("limit", self.chances.limit),
        ):
            if self.only is not None and name not in self.only:
                continue
            if self.rng.random() < chance / OFTEN:
                self._count(name)
                self._befall(name)
                return True
        return False

    def _befall(self, name: str) -> None:
        supervisor, trainer = self.supervisor, self.trainer
        if supervisor is None:
            return
        match name:
            case "trainer_killed" | "both_killed" if trainer is not None:
                trainer.send("KILL")
            case "trainer_stopped" if trainer is not None:
                trainer.send("TERM")
            case "stop":
                self._stop(supervisor)
            case "save" if self.rng.random() < 0.5:
                self.ask("save", pin=self.rng.random() < 0.3, note="by chance")
            case "save":
                supervisor.put(Signalled("USR1"))
            case "pivot":
                self.pivot(self.rng.choice(("boundary", "now")))
            case "cancel":
                self.ask("cancel-pivot")
            case _:
                self._see(name, supervisor)
        if name in ("supervisor_killed", "both_killed"):
            self.kill_supervisor()

    def _see(self, name: str, supervisor: Supervisor) -> None:
        """What the shell would notice by itself."""
        attempt = supervisor.state.attempt
        if name == "silence" and attempt is not None:
            supervisor.put(Quiet(attempt.number, attempt.position.seq, 1e9))
        elif name == "disk":
            supervisor.put(DiskSeen("no room"))
        elif name == "limit":
            supervisor.put(LimitNear("max_hours", 10.0, 60.0))

    def _stop(self, supervisor: Supervisor) -> None:
        match self.rng.randrange(3):
            case 0:
                supervisor.put(Signalled("TERM"))
            case 1:
                self.ask("stop", by="an operator", hold=False, now=False)
            case _:
                self.ask("stop", by="an operator", hold=False, now=self.rng.random() < 0.5)
