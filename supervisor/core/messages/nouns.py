"""The things that events and effects speak of."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


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
    ROLLED_BACK = "rolled back"
    NO_ROOM = "the disk took nothing"
    UNKNOWN = "ended, cause unknown"


class SampleVerdict(NamedTuple):
    """The gate's word on what was sampled at ``step``: ``pass``, ``fail`` or ``cannot judge``.

    ``score`` is from 0 to 100, or None where none of it could be judged.
    """

    step: int
    score: float | None
    verdict: str


class VisibleCheckpoint(NamedTuple):
    """An unsealed checkpoint found under its final name when an attempt had ended."""

    step: int
    name: str


class LossHistory(NamedTuple):
    """Losses that a checkpoint holds, from step ``first`` on; a word for one that is not finite."""

    first: int
    values: tuple[float | str, ...]


class LossDifference(NamedTuple):
    """The first ``step`` whose loss in a checkpoint is another than in the ledger, and both.

    ``steps`` of those compared differ.
    """

    step: int
    payload: float | str
    ledger: float | str
    steps: int

    @property
    def text(self) -> str:
        """The difference in words."""
        more = f"; {self.steps} steps differ" if self.steps > 1 else ""
        return f"step {self.step} has {self.payload!r}, the ledger {self.ledger!r}{more}"


class Verdict(NamedTuple):
    """What the verifying child found; ``problem`` is empty for a good checkpoint.

    ``losses`` are the companion's and, where it is another, the payload's own.
    """

    step: int
    name: str
    sha256: str
    bytes: int
    companion: str
    problem: str
    losses: tuple[LossHistory, ...] = ()
