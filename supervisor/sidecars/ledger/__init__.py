"""The ledger: every step on a line of its own, chained, append-only, for ever."""

from supervisor.sidecars.ledger.auditing import audit
from supervisor.sidecars.ledger.backwards import before
from supervisor.sidecars.ledger.losses import written as written_losses
from supervisor.sidecars.ledger.opening import SUFFIX, TornRegion
from supervisor.sidecars.ledger.reading import Entry, canonical, ends_at, find
from supervisor.sidecars.ledger.replay import Outcome
from supervisor.sidecars.ledger.verdict import AttemptLines, Audit, MarkedLine
from supervisor.sidecars.ledger.writing import Cut, Ledger

__all__ = [
    "SUFFIX",
    "AttemptLines",
    "Audit",
    "Cut",
    "Entry",
    "Ledger",
    "MarkedLine",
    "Outcome",
    "TornRegion",
    "audit",
    "before",
    "canonical",
    "ends_at",
    "find",
    "written_losses",
]
