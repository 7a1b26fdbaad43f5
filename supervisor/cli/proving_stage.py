"""The folder in which a run is proved: taken by one proof, cleared of an earlier one, removed."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from supervisor import clock
from supervisor.cli import standing
from supervisor.cli.interrupts import ends_are_interrupts
from supervisor.cli.proving_lives import end_all_of
from supervisor.control.asking import request
from supervisor.errors import LockHeldError, UnknownError, UsageError
from supervisor.perform.scratch_runs import remove
from supervisor.process.locks import take

LOCK: Final = "proof.lock"
_LOCK_SECONDS: Final = 0.2
_ASK_SECONDS: Final = 5.0
_END_SECONDS: Final = 30.0
_LOOK_SECONDS: Final = 0.05


@contextlib.contextmanager
def stage(run: Path, output: Path | None) -> Iterator[Path]:
    """A folder for copies of ``run``: beside it and removed in the end, or ``output``, which stays.

    SIGTERM and a vanished terminal interrupt, as Ctrl-C does. Raises UsageError where ``output``
    is there, UnknownError where another proof of this run is under way, OSError.
    """
    place = run.with_name(f".{run.name}.proof") if output is None else output.absolute()
    if output is not None and os.path.lexists(place):
        raise UsageError(f"cannot prove into {output}: it is there already; give a new directory")
    try:
        place.mkdir(mode=0o750, parents=output is not None, exist_ok=output is None)
    except OSError as error:
        raise UnknownError(
            f"cannot prove {run}: {place}: {error.strerror}; name another folder with --output"
        ) from None
    try:
        lock = take(place / LOCK, _LOCK_SECONDS)
    except LockHeldError as error:
        text = str(error).partition(": ")[2].partition(";")[0]
        raise UnknownError(
            f"cannot prove {run}: another proof of it is under way in {place}: {text}"
        ) from None
    try:
        with ends_are_interrupts():
            _clear(place)
            yield place
    finally:
        try:
            if output is None:
                remove(place)
        finally:
            os.close(lock)


def _clear(place: Path) -> None:
    """End and remove what a proof that died has left. Raises UnknownError."""
    for left in sorted(path for path in place.iterdir() if path.is_dir()):
        if (left / "run.toml").exists():
            _end(left)
        remove(left)


def _end(run: Path) -> None:
    deadline = clock.monotonic() + _END_SECONDS
    if standing.supervised(run):
        request(run, "stop", {"now": True}, _ASK_SECONDS)
    while standing.supervised(run):
        if clock.monotonic() > deadline:
            raise UnknownError(f"cannot end what an earlier proof left running in {run}")
        clock.pause(_LOOK_SECONDS)
    end_all_of(run)
