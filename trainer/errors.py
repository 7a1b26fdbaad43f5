"""What ends the trainer with one line for an operator, and its exit codes.

    TrainerError         1   it could not go on: a checkpoint or a report cannot be written
    ├── SettingsError    2   arguments, environment or run.toml do not hold
    └── RefusedError    11   going on would harm the run

Messages begin with "cannot" and say what, to what, why, and what to do.
"""

from __future__ import annotations


class TrainerError(Exception):
    """Base of all; its message is for an operator."""

    exit_code = 1


class SettingsError(TrainerError):
    """Arguments, environment or settings that cannot be used."""

    exit_code = 2


class RefusedError(TrainerError):
    """Going on would harm the run, or resume something else than was saved."""

    exit_code = 11
