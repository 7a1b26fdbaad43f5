"""What the supervisor knows, as one immutable value.

States of the trainer's life:

    STARTING   spawned, not ready: nothing can be lost yet
    RUNNING    ready, or adopted
    STOPPING   asked by SIGTERM; the deadline moves on while reports come
    KILLING    sent SIGKILL
    DRAINING   gone; its last checkpoints wait for their seals
    BACKOFF    waiting for the deadline of the next attempt
    PROVING    no attempt before the newest checkpoints are read back
    IDLE       nothing runs: a pivot's files are being moved
    LEAVING    Exit was decided: nothing is begun any more
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from supervisor.core.bandit import BanditState
from supervisor.core.coherence.gate import NOTHING_SAMPLED, WATCHING, GateState, Rules
from supervisor.core.guard_rules import GUARDED, Guards
from supervisor.core.guards import NOTHING_SEEN, GuardState
from supervisor.core.hang import PATIENT, UNMEASURED, HangPolicy, Pace
from supervisor.core.limits import UNLIMITED, Limits
from supervisor.core.messages import (
    Cause,
    LedgerPosition,
    ReportsPosition,
    ResumePoint,
    SampleVerdict,
    Verdict,
)
from supervisor.core.policy import Policy
from supervisor.core.presence import Absence
from supervisor.core.restarting import NO_FAILURE, USUAL, RestartPolicy, Restarts
from supervisor.core.retention import KEEPING, Retention
from trainer.contract.wire import Orders, PhaseOrder

KEPT_SEALS = 16
NO_ORDERS = Orders(0, (), None, None)


class Life(StrEnum):
    """Where the trainer's life stands."""

    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    KILLING = "killing"
    DRAINING = "draining"
    BACKOFF = "backing off"
    PROVING = "reading checkpoints back"
    IDLE = "idle"
    LEAVING = "leaving"


class Want(StrEnum):
    """What the operator wants."""

    RUN = "run"
    STOP = "stop"


class PivotStage(StrEnum):
    """How far a pivot is durable; it only goes forward."""

    ASKED = "asked"
    REQUESTED = "requested"
    STOPPING = "stopping"
    STOPPED = "stopped"
    INSTALLED = "installed"
    FINISHING = "finishing"


@dataclass(frozen=True, slots=True)
class Settings:
    """Rules of the operator that the core applies; durations in seconds.

    ``cadence`` is in steps (0: by clock only); ``boundary`` says where SIGUSR1 saves.
    """

    cadence: int = 100
    boundary: bool = False
    grace: float = 60.0
    restart: RestartPolicy = USUAL
    hang: HangPolicy = PATIENT
    retention: Retention = KEEPING
    limits: Limits = UNLIMITED
    prove_all: bool = False
    guards: Guards = GUARDED
    gate: Rules = WATCHING


@dataclass(frozen=True, slots=True)
class SealPoint:
    """A sealed checkpoint of this lineage with the bandit state of its step.

    ``proved``: it was read back in this life. ``guards`` is what they knew then, None where nobody
    knows it any more. ``skips`` are the attempts that were rolled back to it, each with how many
    steps' data the later ones skip.
    """

    point: ResumePoint
    policy: int
    bandit: BanditState | None
    proved: bool = True
    guards: GuardState | None = None
    skips: tuple[tuple[int, int], ...] = ()

    def skip_of(self, attempt: int) -> tuple[int, int]:
        """The attempt rolled back last before that of this number, and whose data that one skips.

        As a number of steps; both are 0 where none was rolled back to here.
        """
        return next((mark for mark in reversed(self.skips) if mark[0] < attempt), (0, 0))


@dataclass(frozen=True, slots=True)
class PendingSeal:
    """A checkpoint on its way to a seal, which needs its verdict and its ledger position.

    ``replay`` counts the steps proved and consistent up to that position. ``sample_verdict`` and
    ``suspect`` are what the seal will say of its sample, and against it.
    """

    step: int
    name: str
    sha256: str
    reports: ReportsPosition
    bandit: BanditState
    sample: int | None
    reason: str
    save: int | None
    ledger: LedgerPosition | None = None
    replay: tuple[int, int] = (0, 0)
    verdict: Verdict | None = None
    asked: bool = False
    sample_verdict: SampleVerdict | None = None
    suspect: str = ""
    guards: GuardState = NOTHING_SEEN


@dataclass(frozen=True, slots=True)
class Back:
    """The attempt ends by being rolled back: for what a guard found at ``step``."""

    guard: str
    step: int


@dataclass(frozen=True, slots=True)
class Ending:
    """How the trainer process ended, while its seals are awaited."""

    status: int | None
    out_of_memory: bool
    draw: float


@dataclass(frozen=True, slots=True)
class Attempt:
    """One life of the trainer, as folded from its reports so far, from after step ``began``.

    ``begun`` is what its newest seal will say of a checkpoint that is being written, and that is
    reported steps later by a trainer that goes on meanwhile.

    ``last_step`` is the last step reported, ``at`` its trainer clock. ``rate`` is in
    steps/s, over the last ``rated`` seconds.
    ``replay_until`` is the last step that the ledger held when the attempt began; ``skip`` steps'
    data it left out before its first step, since attempt ``rolled`` was rolled back to where it
    began. ``back``: it is to be rolled back.
    """

    number: int
    policy: int
    resume: ResumePoint | None
    position: ReportsPosition
    last_step: int
    started: float
    replay_until: int
    began: int
    pid: int | None = None
    ready: bool = False
    companion: bool = True
    n_params: int = 0
    doing: str = "import"
    at: float = 0.0
    rate: float = 0.0
    rated: float = 0.0
    loss: float | None = None
    longest_step: float = 0.0
    longest_save: float = 0.0
    sample: int | None = None
    recorded: LedgerPosition | None = None
    proved: int = 0
    consistent: int = 0
    differed: int | None = None
    replay_told: bool = False
    finished: str = ""
    sealed: bool = False
    cause: Cause | None = None
    ending: Ending | None = None
    pace: Pace = UNMEASURED
    begun: PendingSeal | None = None
    skip: int = 0
    rolled: int = 0
    back: Back | None = None

    @property
    def resumed(self) -> int:
        """The step it resumed after; 0 for a start from nothing."""
        return self.resume.step if self.resume else 0

    @property
    def settled(self) -> bool:
        """Whether the ledger has answered for every step reported."""
        return self.last_step == (self.recorded.step if self.recorded else self.began)


@dataclass(frozen=True, slots=True)
class SaveRequest:
    """A save asked for and not yet written."""

    serial: int
    pin: bool
    note: str


@dataclass(frozen=True, slots=True)
class Pivot:
    """A pivot under way. ``honoured`` is the step of the checkpoint that answered the order."""

    stage: PivotStage
    policy: Policy
    asked_step: int
    when: str
    by: str
    serial: int = 0
    honoured: int | None = None
    reply: int | None = None
    pin: ResumePoint | None = None


@dataclass(frozen=True, slots=True)
class State:
    """Everything the next decision depends on, but the event and the time.

    ``named`` are phases since the oldest seal that ran otherwise than decided, as reported.
    ``longest_save`` is the slowest that any attempt of this supervisor reported, in seconds.
    ``trouble`` says what keeps the disk from taking what is written; while it is not empty the
    trainer is held, and nothing is to be made of its silence.
    ``next_settings`` take the place of ``settings`` when the next attempt begins. ``again``: the
    operator wants that one at once, so the end of the running one is no failure.
    ``doubtful`` are seals, by digest, of which it could not be told whether they are good.
    ``sealed_before``: there were seals, so a start from nothing would be a loss.
    ``quarantined`` are seals, newest first, that are not to be chosen before they prove clean.
    ``halted`` names the guard that wants the run stopped; empty where none does.
    ``absences`` are arms that left in this life; ``contents_told`` says when, on the monotonic
    clock, a change of an arm's content was last told.
    """

    settings: Settings
    policy: Policy
    live: frozenset[str]
    seed: int
    bandit: BanditState
    life: Life = Life.IDLE
    want: Want = Want.RUN
    attempt: Attempt | None = None
    last_attempt: int = 0
    seals: tuple[SealPoint, ...] = ()
    pending: tuple[PendingSeal, ...] = ()
    orders: Orders = NO_ORDERS
    named: tuple[PhaseOrder, ...] = ()
    saves: tuple[SaveRequest, ...] = ()
    restarts: Restarts = NO_FAILURE
    pivot: Pivot | None = None
    deadline: float | None = None
    trouble: str = ""
    longest_save: float = 0.0
    next_settings: Settings | None = None
    again: bool = False
    doubtful: frozenset[str] = frozenset()
    sealed_before: bool = False
    gate: GateState = NOTHING_SAMPLED
    halted: str = ""
    absences: tuple[Absence, ...] = ()
    contents_told: tuple[tuple[str, float], ...] = ()
    guards: GuardState = NOTHING_SEEN
    quarantined: tuple[SealPoint, ...] = ()
