"""Everything that can go wrong, as one tree, with the exit code of each branch.

    StepkeeperError               1   the answer is no
    ├── UsageError                2   wrong arguments
    │   └── SettingsError         2   run.toml or policy.toml do not hold
    ├── UnknownError              2   the answer could not be determined
    ├── GaveUpError              10   restarts made no progress
    ├── RefusedError             11   starting would harm the run
    │   ├── LedgerError          11   the ledger is not the one the seals speak of
    │   └── LockHeldError        11   another process keeps this run
    └── HaltedError              12   a guard stopped the run

Messages begin with "cannot" and say what, to what, and why.
"""

from __future__ import annotations


class StepkeeperError(Exception):
    """Base of all; its message is one line for an operator."""

    exit_code = 1


class UsageError(StepkeeperError):
    """Arguments that cannot be used."""

    exit_code = 2


class SettingsError(UsageError):
    """Settings that do not hold; carries every problem at once."""

    def __init__(self, message: str, problems: tuple[str, ...] = ()) -> None:
        place = message.removeprefix("cannot use ").removesuffix(":") + ": "  # named once is enough
        super().__init__("\n  ".join((message, *(p.removeprefix(place) for p in problems))))
        self.problems = problems


class UnknownError(StepkeeperError):
    """The question could not be answered."""

    exit_code = 2


class GaveUpError(StepkeeperError):
    """Restarting made no progress for too long."""

    exit_code = 10


class RefusedError(StepkeeperError):
    """Going on would harm the run."""

    exit_code = 11


class HaltedError(StepkeeperError):
    """A guard found what a person should look at, and stopped the run."""

    exit_code = 12


class LedgerError(RefusedError):
    """The ledger is missing, shorter than a seal says, or of another run."""


class LockHeldError(RefusedError):
    """A kernel lock is held by another process."""
