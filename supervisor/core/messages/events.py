"""What happened: every event that reaches the core."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from supervisor.core.messages.nouns import (
    LedgerPosition,
    LossDifference,
    ReportsPosition,
    Verdict,
    VisibleCheckpoint,
)
from trainer.contract.wire import Report


@dataclass(frozen=True, slots=True)
class Reports:
    """A run of reports of one attempt; one of a checkpoint, written or begun, is the last."""

    attempt: int
    reports: tuple[Report, ...]
    position: ReportsPosition


@dataclass(frozen=True, slots=True)
class BadReport:
    """A line that breaks the contract."""

    attempt: int
    problem: str


@dataclass(frozen=True, slots=True)
class Recorded:
    """The ledger took steps up to ``position.step`` (which names that step's canonical line).

    ``proved`` steps equalled an earlier attempt's line, ``consistent`` ones did so without a data
    digest. ``differed`` names the first replayed step whose facts were not equal, or is None.
    ``origin`` is the earlier attempt whose line was compared last, 0 where none was.
    """

    attempt: int
    position: LedgerPosition
    proved: int
    consistent: int
    differed: int | None
    difference: str
    origin: int = 0


@dataclass(frozen=True, slots=True)
class Spawned:
    """The trainer process exists. ``ledger_step`` is the last step that the ledger held then."""

    attempt: int
    pid: int
    ledger_step: int


@dataclass(frozen=True, slots=True)
class SpawnFailed:
    """It could not be started."""

    attempt: int
    problem: str


@dataclass(frozen=True, slots=True)
class Ended:
    """The trainer is gone and its reports are read to the end.

    ``status`` is its wait status as in subprocess (negative: a signal), or None where it was
    adopted. ``visible`` are unsealed checkpoints of this attempt. ``draw`` is uniform in [0, 1).
    """

    attempt: int
    status: int | None
    out_of_memory: bool
    visible: tuple[VisibleCheckpoint, ...]
    draw: float


@dataclass(frozen=True, slots=True)
class Verified:
    """The verifying child has an answer."""

    attempt: int
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Sealed:
    """A seal is durable. ``seal`` is its digest, ``head`` the witness line's three parts.

    ``differs`` says where the losses that the checkpoint holds are not the ledger's, or is None.
    """

    attempt: int
    step: int
    sha256: str
    seal: str
    head: str
    name: str
    differs: LossDifference | None = None


@dataclass(frozen=True, slots=True)
class Proved:
    """A sealed checkpoint was read back; ``problem`` is empty where it is as it was sealed.

    ``doubt``: it cannot be told, which says nothing against it.
    """

    step: int
    seal: str
    name: str
    problem: str = ""
    doubt: bool = False


@dataclass(frozen=True, slots=True)
class Retained:
    """The retention has been at work: the seals, by digest, whose checkpoint is gone."""

    gone: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Asked:
    """An operator's request; the answer goes to ``reply``. ``fields`` are already validated."""

    reply: int
    verb: str
    fields: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Signalled:
    """A signal reached the supervisor: TERM, INT, USR1 or HUP."""

    name: str


@dataclass(frozen=True, slots=True)
class TerminalGone:
    """HUP came because the terminal that we write to is no more."""


@dataclass(frozen=True, slots=True)
class StageDone:
    """A stage of the pivot is durable."""

    stage: str
    facts: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Failed:
    """An effect could not be carried out."""

    what: str
    problem: str


@dataclass(frozen=True, slots=True)
class SourcesSeen:
    """The arms whose source is there now, and what each holds; sent when either is other.

    ``contents`` are pairs of arm and digest, of those that were looked through.
    """

    live: frozenset[str]
    contents: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Quiet:
    """No report since ``seq`` for so many seconds of our own loop turns, all of it read."""

    attempt: int
    seq: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Moved:
    """A trainer being stopped gave a sign of life: bytes of a checkpoint moved.

    Told too where nobody looked for a while, since they may have.
    """

    attempt: int


@dataclass(frozen=True, slots=True)
class StacksRecorded:
    """``where`` names the files in which the trainer's stacks stand, or is empty."""

    attempt: int
    where: str


@dataclass(frozen=True, slots=True)
class LimitNear:
    """A time limit leaves no more than a stop needs: ``left`` seconds until ``limit``."""

    limit: str
    left: float
    needed: float


@dataclass(frozen=True, slots=True)
class ClockStepped:
    """The wall clock went ``seconds`` further than time did: set, or the machine slept.

    ``left`` are the seconds until stop_at by the new time, or None without such a limit.
    """

    seconds: float
    left: float | None


@dataclass(frozen=True, slots=True)
class DiskSeen:
    """What keeps the disk from taking what is written, and where; empty where nothing does.

    Sent when that changed.
    """

    trouble: str


@dataclass(frozen=True, slots=True)
class HookSeen:
    """A hook began to fail, or does again what it should: then ``problem`` is empty.

    ``entry`` is the line of the journal at which that showed; ``failed`` and ``dropped`` count
    the lines it was not told since it began to.
    """

    hook: str
    problem: str
    entry: int
    failed: int
    dropped: int


@dataclass(frozen=True, slots=True)
class Tick:
    """Time passed; sent when a deadline of the state is due."""


Event = (
    Reports
    | BadReport
    | Recorded
    | Spawned
    | SpawnFailed
    | Ended
    | Verified
    | Sealed
    | Proved
    | Retained
    | Asked
    | Signalled
    | StageDone
    | Failed
    | SourcesSeen
    | LimitNear
    | ClockStepped
    | Quiet
    | Moved
    | StacksRecorded
    | DiskSeen
    | TerminalGone
    | HookSeen
    | Tick
)
