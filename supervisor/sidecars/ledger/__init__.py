"""The ledger: every step on a line of its own, chained, append-only, for ever."""

from supervisor.sidecars.ledger.opening import TornRegion
from supervisor.sidecars.ledger.writing import Ledger, Outcome

__all__ = ["Ledger", "Outcome", "TornRegion"]
