"""A short-lived child that answers by what it prints, read without ever waiting for it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

MOST: Final = 1 << 20  # bytes kept of what it prints


class Said(NamedTuple):
    """Its exit status as in subprocess, and all that it printed on either stream."""

    status: int
    output: bytes


class AnsweringChild:
    """One question at a time: ``start``, wait until the descriptor is readable, ``result``."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._output = b""

    def start(self, command: Sequence[str], env: Mapping[str, str]) -> int:
        """Ask; a descriptor that is readable when there is news. Raises OSError.

        Raises ValueError while another one runs.
        """
        if self._process is not None:
            raise ValueError("cannot ask: the last question is not answered yet")
        self._output = b""
        self._process = subprocess.Popen(
            command,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            process_group=0,  # a Ctrl-C at the terminal is for the supervisor
        )
        os.set_blocking(self.fileno(), False)
        return self.fileno()

    def fileno(self) -> int:
        """The descriptor that ``start`` returned; -1 while nothing runs."""
        if self._process is None or self._process.stdout is None:
            return -1
        return self._process.stdout.fileno()

    def result(self) -> Said | None:
        """What it said, or None as long as it may say more. Never blocks for long."""
        process = self._process
        if process is None:
            return None
        while True:
            try:
                piece = os.read(self.fileno(), 1 << 16)
            except BlockingIOError:
                return None
            if not piece:
                break
            self._output = (self._output + piece)[-MOST:]
        # It has closed its output, so its end is at hand; who does not end is ended.
        try:
            status = process.wait(1)
        except subprocess.TimeoutExpired:
            process.kill()
            status = process.wait()
        self.close()
        return Said(status, self._output)

    def close(self) -> None:
        """End it if it still runs."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()
