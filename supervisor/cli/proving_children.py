"""Child processes of a proof: several at once, all ended with it, each answering in JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import IO, Any, NamedTuple, Self

from supervisor import clock, environment
from supervisor.cli.interrupts import interrupts_wait
from supervisor.errors import UnknownError

_MOST_AT_ONCE = 4
_LOOK_SECONDS = 0.02


class Task(NamedTuple):
    """``what`` in words for the operator, and the words behind ``python -m``.

    ``answers`` are the exit codes with which it prints one JSON object.
    """

    what: str
    words: tuple[str, ...]
    answers: tuple[int, ...] = (0,)


class Answer(NamedTuple):
    """What a task came to."""

    task: Task
    code: int
    facts: dict[str, Any]


class Children:
    """Starts tasks in new processes of this Python; leaving the ``with`` ends what still runs."""

    def __init__(self) -> None:
        self._running: list[tuple[Task, subprocess.Popen[bytes], IO[bytes], IO[bytes]]] = []
        self._at_once = max(1, min(_MOST_AT_ONCE, len(os.sched_getaffinity(0))))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        for _, process, *files in self._running:
            process.kill()
            process.wait()
            for file in files:
                file.close()
        self._running.clear()

    def run(self, tasks: Sequence[Task], done: Callable[[Answer], None]) -> None:
        """Carry all of them out, some at once; ``done`` hears of each as it ends.

        Raises UnknownError with the last line of the first one that does not answer.
        """
        waiting = list(tasks)
        while waiting or self._running:
            while waiting and len(self._running) < self._at_once:
                self._start(waiting.pop(0))
            ended = [one for one in self._running if one[1].poll() is not None]
            for one in ended:
                self._running.remove(one)
                done(_answer(*one))
            if not ended:
                clock.pause(_LOOK_SECONDS)

    def _start(self, task: Task) -> None:
        output = tempfile.TemporaryFile()  # noqa: SIM115 - closed where the child's answer is read
        errors = tempfile.TemporaryFile()  # noqa: SIM115 - likewise
        with interrupts_wait():
            process = subprocess.Popen(
                [sys.executable, "-m", *task.words],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                env=environment.for_own_programs(),
                process_group=0,  # a Ctrl-C at the terminal is for the command, which ends them
            )
            self._running.append((task, process, output, errors))


def _answer(
    task: Task, process: subprocess.Popen[bytes], output: IO[bytes], errors: IO[bytes]
) -> Answer:
    """The child's object. Raises UnknownError."""
    with output, errors:
        said, complained = (_text(file) for file in (output, errors))
    try:
        facts = json.loads(said) if process.returncode in task.answers else None
    except ValueError:
        facts = None
    if not isinstance(facts, dict):
        last = (complained.splitlines() or ["it said nothing"])[-1]
        ended = f"{task.what} ended with exit code {process.returncode}"
        raise UnknownError(f"cannot prove it: {ended}: {last}")
    return Answer(task, process.returncode, facts)


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode("utf-8", "replace").strip()
