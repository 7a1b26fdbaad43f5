"""Reports to the supervisor: whole lines appended to a file, none of them ever lost.

A line that cannot be written, because the disk is full or fails, is tried again until it can:
training pauses rather than go on unrecorded.
"""

from __future__ import annotations

import contextlib
import errno
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from trainer import clock
from trainer.contract.durable import AppendFile
from trainer.contract.wire import ReportName, format_report
from trainer.errors import TrainerError

_TRIED_AGAIN = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO})
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0
_PATIENCE_OF_A_STOP = 30.0


class Reports(Protocol):
    """Where reports go: a supervisor's file, or a person's terminal."""

    def send(self, report: ReportName, **fields: object) -> None:
        """Hand over one report. Raises TrainerError where that is impossible for good."""

    def sync(self) -> None:
        """Make what was sent durable. Raises TrainerError."""


def say(text: str) -> None:
    """One line to the operator: it ends up in the attempt's ``output.log``, if there is room.

    A full disk that keeps a complaint out of there is no reason to end.
    """
    with contextlib.suppress(OSError):
        sys.stderr.write(text + "\n")
        sys.stderr.flush()


class FileReports:
    """Appends to ``reports.jsonl``; ``seq`` runs from 1 without a gap.

    ``stopping`` says whether the trainer was asked to end: then a line is tried for 30 s more
    and no longer.
    """

    def __init__(self, path: Path, stopping: Callable[[], bool]) -> None:
        """Open or create ``path``. Raises TrainerError."""
        try:
            self._file = AppendFile(path, create=True)
        except OSError as error:
            raise TrainerError(f"cannot open {path} for reports: {error.strerror}") from None
        self._path = path
        self._seq = 0
        self._stopping = stopping

    def send(self, report: ReportName, **fields: object) -> None:
        """Write one line, waiting for room where there is none. Raises TrainerError."""
        self._seq += 1
        line = format_report(report, self._seq, clock.seconds(), **fields)
        try:
            self._file.append(line)
        except OSError as error:
            self._keep_trying(error)

    def sync(self) -> None:
        """Make all lines durable. Raises TrainerError: what the disk holds is then unknown.

        Another thread than the sender's may call it: a line sent is written, so none is owed.
        """
        try:
            self._file.sync_written()
        except OSError as error:
            raise self._not_durable(error) from None

    def close(self) -> None:
        """Give the descriptor back."""
        self._file.close()

    def _not_durable(self, error: OSError) -> TrainerError:
        return TrainerError(
            f"cannot make {self._path} durable: {error.strerror}; ending, to be restarted"
        )

    def _keep_trying(self, error: OSError) -> None:
        """What is owed goes out before anything else happens."""
        say(f"cannot write a report to {self._path}: {error.strerror}; trying again")
        wait, last_try = _FIRST_PAUSE, float("inf")
        while True:
            if self._stopping():
                last_try = min(last_try, clock.seconds() + _PATIENCE_OF_A_STOP)
            if self._file.lost:
                raise self._not_durable(error) from None
            if error.errno not in _TRIED_AGAIN or clock.seconds() > last_try:
                text = f"cannot write a report to {self._path}: {error.strerror}"
                raise TrainerError(text) from None
            clock.pause(wait)
            wait = min(2 * wait, _LONGEST_PAUSE)
            try:
                self._file.append(b"")
            except OSError as again:
                error = again
            else:
                say("reports can be written again")
                return
