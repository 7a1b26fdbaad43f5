"""Have a checkpoint read back by a short-lived child process, the only one that loads numpy."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from supervisor.core.messages import LossHistory, Verdict
from trainer.contract.checkpoint_format import step_of

_ROOT: Final = Path(__file__).parents[3]  # what `supervisor` is imported from
_CHILD: Final = "supervisor.sidecars.checkpoints.verify_child"


class Sealed(NamedTuple):
    """What a seal says of a checkpoint: digests of ``.bin`` and companion (empty: it has none)."""

    sha256: str
    companion: str


class Verifier:
    """One read-back at a time: ``start``, wait until the descriptor is readable, ``result``.

    ``roots`` are the folders that shards may lie in, by name.
    """

    def __init__(self, roots: Mapping[str, Path] | None = None) -> None:
        self._roots = [f"--root={name}={path.absolute()}" for name, path in (roots or {}).items()]
        self._process: subprocess.Popen[bytes] | None = None
        self._name = ""
        self._answer = b""
        self.done = 0

    def start(
        self,
        folder: Path,
        name: str,
        sha256: str = "",
        *,
        companion: bool = True,
        n_params: int = 0,
    ) -> int:
        """Begin to read ``folder/name`` back; a descriptor that is readable when it has ended.

        An empty ``sha256`` and an ``n_params`` of 0 hold nothing against the file. A ``companion``
        that is there is always checked; one that must be there and is not refuses the checkpoint.
        Raises OSError where no child can be started, ValueError while another one runs.
        """
        words = ["--sha256", sha256] if sha256 else []
        words += ["--n-params", str(n_params)] if n_params else []
        words += ["--companion-required"] if companion else []
        return self._begin(folder, name, words)

    def start_again(
        self, folder: Path, name: str, sealed: Sealed, *, idle: bool = False, full: bool = False
    ) -> int:
        """Begin to hold ``folder/name`` against its seal; ``done`` counts the bytes read.

        ``idle``: only while nobody else wants processor or disk. ``full``: not the digest alone,
        but every number too. Raises as ``start`` does.
        """
        words = ["--progress", "--sha256", sealed.sha256]
        words += [] if full else ["--digest-only"]
        words += ["--companion", sealed.companion] if sealed.companion else []
        return self._begin(folder, name, [*words, "--idle"] if idle else words)

    def _begin(self, folder: Path, name: str, words: list[str]) -> int:
        if self._process is not None:
            raise ValueError(f"cannot verify {name}: {self._name} is still being verified")
        command = [sys.executable, "-m", _CHILD, str(folder.absolute()), name, *words, *self._roots]
        self._name, self._answer, self.done = name, b"", 0
        self._process = subprocess.Popen(
            command,
            cwd=_ROOT,
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

    def result(self) -> Verdict | None:
        """The verdict, or None as long as the child reads. Never blocks for long.

        A child that ends without an answer, killed for memory perhaps, gives a verdict whose
        problem begins with "cannot tell": that says nothing against the checkpoint.
        """
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
            self._answer += piece
            self._count()
        status = process.wait()
        self.close()
        return _verdict(self._name, self._answer, status)

    def pause(self, *, paused: bool) -> None:
        """Stop the child where it stands, or let it go on."""
        if self._process is not None:
            self._process.send_signal(signal.SIGSTOP if paused else signal.SIGCONT)

    def _count(self) -> None:
        """Take the lines that say how far the child is; what is no such line is its answer."""
        *lines, rest = self._answer.split(b"\n")
        told = [line for line in lines if line.isdigit()]
        if told:
            self.done = int(told[-1])
            kept = [line for line in lines if not line.isdigit()]
            self._answer = b"\n".join([*kept, rest])

    def close(self) -> None:
        """End the child if it still runs."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()


def _verdict(name: str, answer: bytes, status: int) -> Verdict:
    last = answer.rstrip(b"\n").rpartition(b"\n")[2]
    try:
        verdict = Verdict(**json.loads(last))
        histories = [LossHistory(first, tuple(values)) for first, values in verdict.losses]
    except (ValueError, TypeError):
        said = last.decode("utf-8", "replace")[:200]
        problem = f"cannot tell whether {name} is good: the reader ended with {status} {said!r}"
        return Verdict(step_of(name) or 0, name, "", 0, "", problem)
    return verdict._replace(losses=tuple(histories))


def read_back(
    folder: Path,
    name: str,
    sha256: str = "",
    *,
    companion: bool = True,
    roots: Mapping[str, Path] | None = None,
) -> Verdict:
    """The verdict on ``folder/name``, waited for: for commands, never for the daemon's loop.

    Raises OSError where no child can be started.
    """
    verifier = Verifier(roots)
    try:
        descriptor = verifier.start(folder, name, sha256, companion=companion)
        while (verdict := verifier.result()) is None:
            select.select([descriptor], [], [])
    finally:
        verifier.close()
    return verdict
