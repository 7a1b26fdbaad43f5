"""What the shell shall do: every effect that leaves the core.

An effect that takes time or may fail answers with an event named in its docstring.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from supervisor.core.coherence.gate import GateState
from supervisor.core.coherence.judging import Judged
from supervisor.core.messages.nouns import (
    LedgerPosition,
    ReportsPosition,
    ResumePoint,
    SampleVerdict,
    Verdict,
)
from trainer.contract.wire import Orders, Step


@dataclass(frozen=True, slots=True)
class Spawn:
    """Start attempt ``attempt`` from ``resume`` (None: from nothing). Answers Spawned, SpawnFailed.

    Before it: what is left of earlier trainers is ended, checkpoints above the resume point are
    superseded, the start is journaled, the attempt's record and ``orders`` are durable. ``skip``
    steps' data are to be drawn and thrown away first.
    """

    attempt: int
    resume: ResumePoint | None
    policy: int
    orders: Orders
    skip: int = 0


@dataclass(frozen=True, slots=True)
class SignalTrainer:
    """Send a signal to the proven trainer, through its pidfd."""

    attempt: int
    name: Literal["TERM", "USR1", "KILL", "CONT"]


@dataclass(frozen=True, slots=True)
class RecordStacks:
    """Have the trainer show where it stands, within seconds. Answers StacksRecorded."""

    attempt: int


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
class Prove:
    """Read sealed checkpoints back, since an attempt waits for them. Answers Proved for each."""

    points: tuple[ResumePoint, ...]


@dataclass(frozen=True, slots=True)
class Seal:
    """Sync the ledger and the journal, then write the seal. Answers Sealed or Failed.

    ``sample_verdict`` is the gate's word on its sample. ``suspect`` says why it is kept apart.
    """

    attempt: int
    policy: int
    verdict: Verdict
    ledger: LedgerPosition
    reports: ReportsPosition
    bandit: Any
    sample: int | None
    reason: str
    save: int | None
    replay: tuple[int, int]
    sample_verdict: SampleVerdict | None = None
    suspect: str = ""


@dataclass(frozen=True, slots=True)
class KeepBandit:
    """Replace the bandit state's file."""

    bandit: Any


@dataclass(frozen=True, slots=True)
class KeepSamples:
    """Add to the samples' file, and replace in it what is known of the gate.

    ``standing`` says in plain values where the gate stands, for who reads the file.
    """

    attempt: int
    policy: int
    samples: tuple[Judged, ...]
    gate: GateState
    standing: dict[str, Any]


@dataclass(frozen=True, slots=True)
class GiveOrders:
    """Replace the orders file."""

    orders: Orders


@dataclass(frozen=True, slots=True)
class KeepIntent:
    """Make what the operator wants durable: run or stop, done or not.

    ``by`` (empty) and ``hold`` (None) are kept as they are where not given.
    """

    want: str
    by: str
    done: bool
    hold: bool | None = None


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
class Pin:
    """Keep the checkpoint of this step for ever, with the operator's note."""

    step: int
    note: str


@dataclass(frozen=True, slots=True)
class Unpin:
    """Leave the checkpoint of this step to the retention again."""

    step: int


@dataclass(frozen=True, slots=True)
class Retain:
    """Delete the checkpoints that no rule keeps. Answers Retained.

    ``resume`` is the seal's digest of the attempt's resume point, empty without one. ``suspected``
    is the step from which on a model may be harmed, 0 where there is none.
    """

    attempt: int
    resume: str
    suspected: int = 0


@dataclass(frozen=True, slots=True)
class Reject:
    """Never resume again from the checkpoint whose seal has this digest."""

    seal: str
    why: str


@dataclass(frozen=True, slots=True)
class Lift:
    """The checkpoint whose seal has this digest is quarantined no more."""

    seal: str
    step: int
    why: str


@dataclass(frozen=True, slots=True)
class Skip:
    """Attempts after ``attempt`` from the seal with this digest skip ``steps`` steps' data."""

    seal: str
    attempt: int
    steps: int


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
class LeaveTerminal:
    """Write to ``supervisor.log`` from now on: whoever read our output has gone."""


@dataclass(frozen=True, slots=True)
class Reload:
    """Check the settings, then let another life take over in this process, in place.

    ``restart`` has it begin a new attempt. What comes of it is told to ``reply``, if any.
    """

    reply: int | None
    restart: bool


@dataclass(frozen=True, slots=True)
class EndLeft:
    """End what trainers that are gone left behind: their workers may hold a GPU."""


@dataclass(frozen=True, slots=True)
class Exit:
    """Leave the loop with this exit code."""

    code: int


Effect = (
    Spawn
    | SignalTrainer
    | RecordStacks
    | Record
    | Verify
    | Prove
    | Seal
    | KeepBandit
    | KeepSamples
    | GiveOrders
    | KeepIntent
    | Journal
    | CloseAttempt
    | AdvancePivot
    | Pin
    | Unpin
    | Retain
    | Reject
    | Lift
    | Skip
    | Answer
    | Say
    | LeaveTerminal
    | Reload
    | EndLeft
    | Exit
)
