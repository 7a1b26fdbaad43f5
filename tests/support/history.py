"""Histories: a list of events run through the core, the states and effects that come of it.

The words here say what happened (a trainer was ready, steps were reported, a seal became
durable); ``History`` numbers the reports and keeps the time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, replace
from typing import TypeVar

from supervisor.core.bandit import fresh
from supervisor.core.beginning import Found, begin
from supervisor.core.decide import decide
from supervisor.core.messages import (
    Asked,
    Effect,
    Ended,
    Event,
    Failed,
    Journal,
    LedgerPosition,
    LossDifference,
    Recorded,
    Reports,
    ReportsPosition,
    ResumePoint,
    Sealed,
    Spawned,
    StageDone,
    Tick,
    Verdict,
    Verified,
    VisibleCheckpoint,
)
from supervisor.core.policy import Algorithm, Arm, Policy, Unit
from supervisor.core.restarting import RestartPolicy
from supervisor.core.state import SealPoint, Settings, State
from trainer.contract.wire import (
    ArmResult,
    Checkpoint,
    Finished,
    Phase,
    Ready,
    Report,
    Step,
)

ARMS = (Arm("chat", 0.1, 0.8), Arm("code", 0.1, 0.8), Arm("prose", 0.0, 0.8))
POLICY = Policy(1, "1" * 32, Algorithm.UCB1, Unit.SHARE, ARMS)
NEW = replace(POLICY, number=2, digest="2" * 32, arms=(Arm("chat", 0.3), Arm("code"), Arm("prose")))
LIVE = frozenset(arm.name for arm in ARMS)
RULES = {field.name for field in fields(RestartPolicy)}
NOTHING = Found(attempt=None, pivot=None, stop_unfinished=False)
T = TypeVar("T")


def fresh_state(**settings: object) -> State:
    """A run that never started; ``settings`` are fields of Settings or of its RestartPolicy."""
    rules = {name: settings.pop(name) for name in RULES & settings.keys()}
    restart = RestartPolicy(**rules)  # type: ignore[arg-type]  # by name, in tests
    chosen = Settings(cadence=100, restart=restart, **settings)  # type: ignore[arg-type]  # as above
    return State(chosen, POLICY, LIVE, seed=7, bandit=fresh(POLICY, LIVE, 8))


def point(step: int) -> ResumePoint:
    """The sealed checkpoint of a step."""
    return ResumePoint(step, f"{step:064x}", f"{step + 1:064x}")


def with_seals(state: State, *steps: int, policy: int = 1) -> State:
    """The state with these seals, newest first, their bandit states empty."""
    seals = tuple(SealPoint(point(step), policy, state.bandit) for step in steps)
    return replace(state, seals=seals, restarts=replace(state.restarts, best=max(steps)))


def step_report(step: int, seq: int, arm: str = "chat") -> Step:
    """One step of this run."""
    return Step(seq, step / 10, step, 5.0 - step / 1000, "", arm, 3e-4, f"{step:016x}", 1, ())


class History:
    """Feeds events to the core, one after the other; raises whatever the core raises."""

    def __init__(self, state: State | None = None, now: float = 1000.0) -> None:
        self.state = state if state is not None else fresh_state()
        self.now = now
        self.turns: list[tuple[Event | None, list[Effect], State]] = []
        self.seq = 0
        self.proved = 0

    @property
    def attempt(self) -> int:
        """The number of the newest attempt."""
        return self.state.last_attempt

    @property
    def last(self) -> list[Effect]:
        """The effects of the last turn."""
        return self.turns[-1][1]

    def begin(self, found: Found = NOTHING) -> list[Effect]:
        """The first turn of a supervisor's life."""
        self.state, effects = begin(self.state, found, self.now)
        self.turns.append((None, effects, self.state))
        return effects

    def tell(self, *events: Event) -> list[Effect]:
        """These events happen now; returns the effects of all of them."""
        told: list[Effect] = []
        for event in events:
            self.state, effects = decide(self.state, event, self.now)
            self.turns.append((event, effects, self.state))
            told += effects
        return told

    def all_of(self, kind: type[T]) -> list[T]:
        """Every effect of this kind so far."""
        return [e for _, effects, _ in self.turns for e in effects if isinstance(e, kind)]

    def journal(self, event: str) -> list[dict[str, object]]:
        """The facts journalled under this name."""
        return [entry.facts for entry in self.all_of(Journal) if entry.event == event]

    def report(self, *reports: Report) -> list[Effect]:
        """A run of reports, as the follower hands it over; their seq is set here."""
        numbered: list[Report] = []
        for report in reports:
            self.seq += 1
            numbered.append(report._replace(seq=self.seq))
        position = ReportsPosition(self.attempt, self.seq, self.seq * 100)
        return self.tell(Reports(self.attempt, tuple(numbered), position))

    def spawned(self, ledger_step: int = 0) -> list[Effect]:
        """The trainer process exists."""
        self.seq = 0
        return self.tell(Spawned(self.attempt, 4242, ledger_step))

    def ready(self, step: int | None = None) -> list[Effect]:
        """It has loaded its checkpoint and its handlers are in."""
        attempt = self.state.attempt
        resumed = attempt.resumed if attempt and step is None else step
        return self.report(Ready(0, 1.0, 4242, 64, resumed or 0, companion=True))

    def steps(self, first: int, last: int, *, recorded: bool = True) -> list[Effect]:
        """Steps are reported and, unless told otherwise, in the ledger."""
        told = self.report(*(step_report(step, 0) for step in range(first, last + 1)))
        return told + (self.recorded(last) if recorded else [])

    def recorded(self, step: int, **changes: object) -> list[Effect]:
        """The ledger holds steps up to this one."""
        event = Recorded(self.attempt, self.position(step), 0, 0, None, "")
        return self.tell(replace(event, **changes))  # type: ignore[arg-type]  # by name, in tests

    def position(self, step: int) -> LedgerPosition:
        """The ledger position of a step that was never written twice."""
        return LedgerPosition(step, step * 100, f"{step:032x}", step)

    def checkpoint(
        self, step: int, reason: str = "cadence", save: int | None = None
    ) -> list[Effect]:
        """A checkpoint is visible and reported."""
        name, digest = f"step_{step:06d}.bin", f"{step:064x}"
        return self.report(Checkpoint(0, step / 10, step, name, digest, 776, reason, 0.1, save))

    def verified(self, step: int, problem: str = "") -> list[Effect]:
        """The checkpoint was read back."""
        name, digest = f"step_{step:06d}.bin", f"{step:064x}"
        return self.tell(Verified(self.attempt, Verdict(step, name, digest, 776, "", problem)))

    def sealed(self, step: int, differs: LossDifference | None = None) -> list[Effect]:
        """Its seal is durable."""
        at = point(step)
        name = f"step_{step:06d}.bin"
        return self.tell(
            Sealed(self.attempt, step, at.sha256, at.seal, f"{step}:0:0", name, differs)
        )

    def seal(self, step: int, reason: str = "cadence", save: int | None = None) -> None:
        """Written, read back, sealed."""
        self.checkpoint(step, reason, save)
        self.verified(step)
        self.sealed(step)

    def phase(self, number: int, first: int, last: int, *, repeated: bool = False) -> list[Effect]:
        """A phase is over; all its pulls were of one arm, under the weights that were ordered."""
        decided = {phase.phase: phase for phase in self.state.bandit.phases}
        weights = decided[number].weights if number in decided else (("chat", 1.0),)
        results = (ArmResult("chat", last - first + 1, 0, 5.0 - last / 1000),)
        return self.report(Phase(0, last / 10, number, first, last, repeated, weights, results))

    def finished(self, reason: str) -> list[Effect]:
        """The trainer says that it ends of its own will."""
        step = self.state.attempt.last_step if self.state.attempt else 0
        return self.report(Finished(0, 0.0, reason, step))

    def end(
        self, status: int | None = -9, visible: Iterable[int] = (), draw: float = 0.5
    ) -> list[Effect]:
        """The process is gone and its reports are read to the end."""
        found = tuple(VisibleCheckpoint(step, f"step_{step:06d}.bin") for step in visible)
        event = Ended(self.attempt, status, out_of_memory=False, visible=found, draw=draw)
        return self.tell(event)

    def stage(self, name: str) -> list[Effect]:
        """A stage of the pivot is durable."""
        return self.tell(StageDone(name, {}))

    def fails(self, what: str) -> list[Effect]:
        """An effect could not be carried out."""
        return self.tell(Failed(what, f"cannot {what}: no room"))

    def ask(self, verb: str, reply: int = 5, **fields: object) -> list[Effect]:
        """An operator asks."""
        return self.tell(Asked(reply, verb, dict(fields)))

    def pivot(self, when: str = "boundary", policy: Policy = NEW) -> list[Effect]:
        """An operator asks for a pivot and its request becomes durable."""
        told = self.ask("pivot", policy=policy, text="...", when=when, by="operator")
        return told + self.stage("requested")

    def wait(self) -> list[Effect]:
        """Time passes until the deadline."""
        if self.state.deadline is not None:
            self.now = self.state.deadline
        return self.tell(Tick())


def running(step: int = 0, state: State | None = None) -> History:
    """A trainer that is ready and has done ``step`` steps since it began."""
    history = History(state)
    history.begin()
    history.spawned()
    history.ready()
    resumed = history.state.seals[0].point.step if history.state.seals else 0
    if step > resumed:
        history.steps(resumed + 1, step)
    return history
