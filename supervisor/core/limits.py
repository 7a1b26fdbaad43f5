"""Time limits of a rented machine: how much is left, and how much of it a safe stop needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

DEADLINE = "deadline"  # who asked for a stop that a limit made necessary
GUARD = "guard"  # who asked for a stop that a guard made necessary, with the guard's name
SAVES = 3  # a stop saves once; the machine may be slower just then, and the seal reads it back
SLOWEST_DISK = 20e6  # bytes/s assumed of a disk that has not been measured
BYTES_A_PARAMETER = 12


class Left(NamedTuple):
    """``seconds`` until the limit ``name`` of run.toml; negative when it is over."""

    seconds: float
    name: str


@dataclass(frozen=True, slots=True)
class Limits:
    """``stop_at`` in seconds since 1970, ``max_seconds`` since an operator started the run.

    ``margin`` seconds are kept back; ``assumed_save`` is what a save takes until one is measured.
    """

    stop_at: float | None = None
    max_seconds: float | None = None
    margin: float = 30.0
    assumed_save: float = 60.0

    def left(self, wall: float, ran: float) -> Left | None:
        """The limit that comes first, at ``wall`` and ``ran`` seconds after the start."""
        found = []
        if self.stop_at is not None:
            found.append(Left(self.stop_at - wall, "stop_at"))
        if self.max_seconds is not None:
            found.append(Left(self.max_seconds - ran, "max_hours"))
        return min(found, default=None)

    def needed(self, longest_save: float, longest_step: float, n_params: int) -> float:
        """Seconds that a stop must begin before the limit; 0 for what was not measured yet."""
        save = longest_save
        if not save:
            save = max(self.assumed_save, n_params * BYTES_A_PARAMETER / SLOWEST_DISK)
        return SAVES * save + longest_step + self.margin


UNLIMITED = Limits()
