"""The vocabulary: every event that reaches the core and every effect that leaves it.

Events are what happened; effects are what the shell shall do. Both are plain values. An effect
that takes time or may fail answers with an event named in its docstring.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from trainer.contract.wire import Orders, Report, Sample, Step

# ---------------------------------------------------------------- nouns


class ReportsPosition(NamedTuple):
    """Where the fold stands in an attempt's reports: after ``seq``, at ``bytes``."""

    attempt: int
    seq: int
    bytes: int


class LedgerPosition(NamedTuple):
    """The end of one ledger line: its number from 1, the bytes up to it, its chain, its step."""

    entries: int
    bytes: int
    chain: str
    step: int


class ResumePoint(NamedTuple):
    """A sealed checkpoint to resume from."""

    step: int
    sha256: str
    seal: str


class Cause(StrEnum):
    """Why an attempt ended."""

    FINISHED = "finished"
    STOPPED = "stopped"
    FAILED = "failed"
    KILLED = "killed"
    OUT_OF_MEMORY = "out of memory"
    HUNG = "hung"
    NEVER_READY = "never ready"
    NOT_STARTED = "could not be started"
    BROKE_CONTRACT = "broke the contract"
    UNKNOWN = "ended, cause unknown"


class VisibleCheckpoint(NamedTuple):
    """An unsealed ``.bin`` found under its final name when an attempt had ended."""

    step: int
    name: str


class Verdict(NamedTuple):
    """What the verifying child found; ``problem`` is empty for a good checkpoint."""

    step: int
    name: str
    sha256: str
    bytes: int
    companion: str
    problem: str


# ---------------------------------------------------------------- events


@dataclass(frozen=True, slots=True)
class Reports:
    """A run of reports of one attempt; at most one checkpoint report, and then the last."""

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
    """

    attempt: int
    position: LedgerPosition
    proved: int
    consistent: int
    differed: int | None
    difference: str


@dataclass(frozen=True, slots=True)
class Spawned:
    """The trainer process exists."""

    attempt: int
    pid: int


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
    """A seal is durable. ``seal`` is its digest, ``head`` the witness line's three parts."""

    attempt: int
    step: int
    sha256: str
    seal: str
    head: str
    name: str


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
    | Asked
    | Signalled
    | StageDone
    | Failed
    | Tick
)

# ---------------------------------------------------------------- effects


@dataclass(frozen=True, slots=True)
class Spawn:
    """Start attempt ``attempt`` from ``resume`` (None: from nothing). Answers Spawned, SpawnFailed.

    Before it: what is left of earlier trainers is ended, checkpoints above the resume point are
    superseded, the attempt's record and ``orders`` are durable.
    """

    attempt: int
    resume: ResumePoint | None
    policy: int
    orders: Orders


@dataclass(frozen=True, slots=True)
class SignalTrainer:
    """Send TERM, USR1 or KILL to the proven trainer, through its pidfd."""

    attempt: int
    name: str


@dataclass(frozen=True, slots=True)
class Record:
    """Take these steps into the ledger under the replay rule. Answers Recorded."""

    attempt: int
    policy: int
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Verify:
    """Read a checkpoint back in a child process. Answers Verified."""

    attempt: int
    step: int
    name: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Seal:
    """Sync the ledger and the journal, then write the seal. Answers Sealed or Failed."""

    attempt: int
    policy: int
    verdict: Verdict
    ledger: LedgerPosition
    reports: ReportsPosition
    bandit: Any
    sample: int | None
    reason: str
    save: int | None


@dataclass(frozen=True, slots=True)
class KeepBandit:
    """Replace the bandit state's file."""

    bandit: Any


@dataclass(frozen=True, slots=True)
class KeepSample:
    """Add to the samples' file."""

    attempt: int
    policy: int
    sample: Sample


@dataclass(frozen=True, slots=True)
class GiveOrders:
    """Replace the orders file."""

    orders: Orders


@dataclass(frozen=True, slots=True)
class KeepIntent:
    """Make what the operator wants durable: want run|stop, by whom, done or not, held or not."""

    want: str
    by: str
    done: bool
    hold: bool = False


@dataclass(frozen=True, slots=True)
class Journal:
    """Append to events.jsonl."""

    event: str
    facts: dict[str, Any]


@dataclass(frozen=True, slots=True)
class CloseAttempt:
    """Write the end of an attempt into its record."""

    attempt: int
    facts: dict[str, Any]


@dataclass(frozen=True, slots=True)
class AdvancePivot:
    """Carry out a stage of the pivot and make it durable. Answers StageDone or Failed."""

    stage: str
    facts: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Answer:
    """Reply to an operator's request."""

    reply: int
    fields: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Say:
    """One line to the supervisor's log; ``alarm`` ones are for a person."""

    text: str
    alarm: bool = False


@dataclass(frozen=True, slots=True)
class Exit:
    """Leave the loop with this exit code."""

    code: int


Effect = (
    Spawn
    | SignalTrainer
    | Record
    | Verify
    | Seal
    | KeepBandit
    | KeepSample
    | GiveOrders
    | KeepIntent
    | Journal
    | CloseAttempt
    | AdvancePivot
    | Answer
    | Say
    | Exit
)
