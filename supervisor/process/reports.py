"""Follow one attempt's reports file by polling and turn its whole lines into events."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from supervisor.core.messages import BadReport, Reports, ReportsPosition
from trainer.contract.wire import MAX_LINE, Checkpoint, Doing, Report, WireError, read_report

AT_ONCE = 1 << 16


class Follower:
    """Reads ``attempts/NNNNNN/reports.jsonl`` from a position on, 64 KB at a time.

    ``position`` is after the last report given out. ``exhausted`` tells whether the last poll
    met the end of the file; ``torn`` holds the bytes after the last newline there, which a dead
    trainer leaves and a living one completes. After a BadReport nothing is read any more.
    """

    def __init__(self, path: Path, position: ReportsPosition) -> None:
        self.position = position
        self.exhausted = False
        self.torn = b""
        self._path = path
        self._descriptor = -1
        self._broken = False

    def poll(self) -> list[Reports | BadReport]:
        """The reports since the last poll, a checkpoint always the last of its event.

        Raises OSError where the file is there but cannot be read.
        """
        if self._broken or not self._open():
            self.exhausted = True
            return []
        if not stat.S_ISREG(os.fstat(self._descriptor).st_mode):
            return [self._break("it is not a regular file")]
        data = os.pread(self._descriptor, AT_ONCE, self.position.bytes)
        whole = data.rfind(b"\n") + 1
        wanted = AT_ONCE
        while not whole and len(data) == wanted <= MAX_LINE:
            wanted = min(wanted * 4, MAX_LINE + 1)
            data = os.pread(self._descriptor, wanted, self.position.bytes)
            whole = data.find(b"\n") + 1
        self.exhausted = len(data) < wanted and b"\n" not in data[whole:]
        self.torn = data[whole:] if self.exhausted else b""
        if whole:
            return self._split(data[:whole])
        if len(data) > MAX_LINE:
            return [self._break(f"a line is longer than {MAX_LINE} bytes")]
        if not data and os.fstat(self._descriptor).st_size < self.position.bytes:
            return [self._break(f"the file is shorter than the {self.position.bytes} bytes read")]
        return []

    def close(self) -> None:
        """Let go of the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _open(self) -> bool:
        if self._descriptor < 0:
            try:
                # Without blocking: a pipe in its place would hold the whole supervisor up.
                flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
                self._descriptor = os.open(self._path, flags)
            except FileNotFoundError:
                return False
        return True

    def _split(self, data: bytes) -> list[Reports | BadReport]:
        events: list[Reports | BadReport] = []
        taken: list[Report] = []
        seq, at = self.position.seq, self.position.bytes
        for line in data[:-1].split(b"\n"):
            try:
                report = _read(line, seq + 1)
            except WireError as error:
                return [*events, *self._flush(taken, seq, at), self._break(str(error))]
            seq += 1
            at += len(line) + 1
            taken.append(report)
            if isinstance(report, Checkpoint) or (
                isinstance(report, Doing) and report.what == "save"
            ):
                events += self._flush(taken, seq, at)
                taken = []
        return events + self._flush(taken, seq, at)

    def _flush(self, taken: list[Report], seq: int, at: int) -> list[Reports | BadReport]:
        if not taken:
            return []
        self.position = ReportsPosition(self.position.attempt, seq, at)
        return [Reports(self.position.attempt, tuple(taken), self.position)]

    def _break(self, problem: str) -> BadReport:
        self._broken = self.exhausted = True
        attempt, seq, at = self.position
        return BadReport(
            attempt, f"cannot follow {self._path} after report {seq} (byte {at}): {problem}"
        )


def _read(line: bytes, seq: int) -> Report:
    report = read_report(line)
    if report.seq != seq:
        raise WireError(f"seq {report.seq} stands where {seq} is due")
    return report
