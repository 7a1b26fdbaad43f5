"""What is durable in a simulated run: all that a supervisor's death leaves behind."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

from supervisor.core.bandit import BanditState
from supervisor.core.coherence.gate import NOTHING_SAMPLED, GateState
from supervisor.core.coherence.judging import Judged
from supervisor.core.messages import LedgerPosition, ReportsPosition, ResumePoint
from supervisor.core.policy import Policy
from supervisor.core.state import NO_ORDERS
from trainer.contract.wire import Orders, Report, Step

Facts = tuple[float | None, str, str, float, str, int]


class Line(NamedTuple):
    """One ledger line: facts are loss, nonfinite, arm, learning rate, data digest, policy."""

    step: int
    facts: Facts
    attempt: int


class Outcome(NamedTuple):
    """What the ledger made of a run of steps."""

    position: LedgerPosition
    proved: int
    differed: int | None
    origin: int = 0


class Ledger:
    """Append-only lines under the replay rule; ``canonical[s]`` is the entry that stands for s."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.canonical: list[int] = [0]
        self.voided: set[tuple[int, int]] = set()
        self._attempt = self._next = 0

    @property
    def step(self) -> int:
        """The last step that has a line."""
        return len(self.canonical) - 1

    def begin(self, attempt: int, resumed: int) -> None:
        """Steps of ``attempt`` come next; the ledger must reach its resume point."""
        assert resumed <= self.step, f"attempt {attempt} resumed at {resumed} ahead of the ledger"
        self._attempt, self._next = attempt, resumed + 1

    def position(self, step: int) -> LedgerPosition:
        """Where the line that stands for ``step`` ends."""
        entry = self.canonical[step]
        return LedgerPosition(entry, entry * 100, f"{entry:032x}", step)

    def record(self, attempt: int, policy: int, steps: tuple[Step, ...]) -> Outcome:
        """Take steps in: equal ones prove a replay, from the first difference on all are added."""
        assert attempt == self._attempt, f"attempt {attempt} recorded in {self._attempt}'s life"
        proved, differed, origin = 0, None, 0
        for step in steps:
            number = step.step
            facts = (step.loss, step.nonfinite, step.arm, step.lr, step.data, policy)
            assert number <= self.step + 1, f"step {number} leaves a gap behind {self.step}"
            if number <= self.step:
                stands = self.lines[self.canonical[number] - 1]
                if stands.attempt == attempt:
                    if (attempt, number) in self.voided and differed is None:
                        differed = number
                    assert stands.facts == facts, f"attempt {attempt} told two things of {number}"
                    continue
                origin = stands.attempt
                if stands.facts == facts:
                    proved += 1
                    continue
                differed = number if differed is None else differed
                self.voided.add((attempt, number))
                del self.canonical[number:]
            self.lines.append(Line(number, facts, attempt))
            self.canonical.append(len(self.lines))
        return Outcome(self.position(steps[-1].step), proved, differed, origin)


@dataclass
class Bin:
    """A visible checkpoint; ``phase`` is what its companion holds of the phase in progress.

    ``drawn`` steps' data were taken by then.
    """

    step: int
    sha256: str
    attempt: int
    phase: dict[str, Any] | None
    good: bool
    drawn: int = 0


class SealFile(NamedTuple):
    """A seal; ``previous`` is the digest of the one that it follows."""

    point: ResumePoint
    attempt: int
    policy: int
    bandit: BanditState
    ledger: LedgerPosition
    reports: ReportsPosition
    save: int | None
    proved: int
    previous: str


@dataclass
class AttemptRecord:
    """``attempt.json``; ``end`` holds the facts of CloseAttempt."""

    attempt: int
    policy: int
    resume: ResumePoint | None
    ledger_step: int
    started: float
    end: dict[str, Any] | None = None
    closed: float = 0.0
    skip: int = 0

    @property
    def resumed(self) -> int:
        """The step it resumed after."""
        return self.resume.step if self.resume else 0


@dataclass
class PivotFile:
    """``pivot.json``."""

    stage: str
    policy: Policy
    asked_step: int
    when: str
    by: str
    honoured: int | None = None
    pin: ResumePoint | None = None


@dataclass
class Disk:
    """The whole run directory."""

    policies: dict[int, Policy]
    ledger: Ledger = field(default_factory=Ledger)
    orders: Orders = NO_ORDERS
    intent: dict[str, Any] = field(default_factory=dict)
    attempts: dict[int, AttemptRecord] = field(default_factory=dict)
    reports: dict[int, list[Report]] = field(default_factory=dict)
    bins: dict[int, Bin] = field(default_factory=dict)
    seals: dict[int, SealFile] = field(default_factory=dict)
    pivot: PivotFile | None = None
    bandit: BanditState | None = None
    samples: list[tuple[int, int, Judged]] = field(default_factory=list)
    gate: GateState = NOTHING_SAMPLED
    archive: dict[int, dict[str, Any]] = field(default_factory=dict)
    certificates: dict[int, dict[str, Any]] = field(default_factory=dict)
    journal: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    pins: dict[int, str] = field(default_factory=dict)
    rejected: set[str] = field(default_factory=set)
    quarantined: dict[str, str] = field(default_factory=dict)
    skips: dict[str, dict[int, int]] = field(default_factory=dict)
    seal_number: int = 0
    started_after: int = 0  # the operator's last start came behind this attempt

    def lineage(self) -> list[SealFile]:
        """Seals that can be resumed from, newest first, as the catalogue walks them."""
        return [seal for seal in self.usable() if seal.point.seal not in self.quarantined]

    def usable(self) -> list[SealFile]:
        """The same, and those that are quarantined."""
        found = [self.seals[step] for step in sorted(self.seals, reverse=True)]
        for later, earlier in pairwise(found):
            assert later.previous == earlier.point.seal, "a seal of another history is in the way"
        return [
            seal
            for seal in found
            if seal.point.seal not in self.rejected and seal.point.step in self.bins
        ]

    @property
    def pivot_points(self) -> frozenset[str]:
        """The seals, by digest, that pivots went on from, the one under way included."""
        points = [facts["pin"] for facts in self.certificates.values()]
        points += [self.pivot.pin] if self.pivot is not None else []
        return frozenset(point.seal for point in points if point is not None)

    @property
    def unsealed(self) -> list[int]:
        """Steps of visible checkpoints without a seal, newest first."""
        return sorted((step for step in self.bins if step not in self.seals), reverse=True)

    def told(self, event: str) -> list[dict[str, Any]]:
        """Facts of the journal's events of this name, in order."""
        return [facts for name, facts in self.journal if name == event]
