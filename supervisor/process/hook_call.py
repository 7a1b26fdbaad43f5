"""Call a hook by a process of its own that answers in one line and is ended when its time is up.

Whatever a command or a receiver does, only that process waits for it. It inherits nothing but its
request and a lifeline: a pipe that ends with us, whatever our end is.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Literal

from supervisor import clock

Program = Literal["hook_command", "hook_post"]

MOST: Final = 4096  # bytes kept of what a hook says
STOPPED: Final = "stopped before it had ended"
LATE: Final = "no answer in time"
GRACE: Final = 1.0  # seconds between SIGTERM and SIGKILL
ENDING: Final = 5.0  # seconds until everything that a command left behind has ended
_ROOT: Final = Path(__file__).parents[2]  # what `supervisor` is imported from
_STARTING: Final = 10.0
_MOST_ANSWER: Final = 1 << 16


def call(
    program: Program, request: Mapping[str, Any], seconds: float, stop: int = -1
) -> dict[str, Any]:
    """What the program answers to the request; it may take so many seconds.

    ``stop`` is a descriptor: once it is readable the call is ended early. An answer with
    ``error`` says why there is none. Raises OSError where no process can be started.
    """
    lifeline, ours = os.pipe()
    try:
        with _as_file(json.dumps(request).encode("ascii")) as stdin:
            process = subprocess.Popen(
                [sys.executable, "-S", "-m", f"supervisor.process.{program}", str(lifeline)],
                cwd=_ROOT,
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=(lifeline,),
                process_group=0,  # a Ctrl-C at the terminal is for the supervisor
            )
    except BaseException:
        os.close(ours)
        raise
    finally:
        os.close(lifeline)
    try:
        answer, ended = _hear(process, clock.monotonic() + seconds + ENDING + _STARTING, stop)
        if not ended and program == "hook_command":
            os.close(ours)
            ours = -1
            # It ends what it started before it ends itself.
            more, _ = _hear(process, clock.monotonic() + GRACE + ENDING, -1)
            answer += more
    finally:
        if ours >= 0:
            os.close(ours)
        process.kill()
        status = process.wait()
        if process.stdout is not None:
            process.stdout.close()
    return _read(answer, status)


@contextlib.contextmanager
def _as_file(data: bytes) -> Iterator[int]:
    """A file in memory with these bytes: unlike a pipe it is never full."""
    descriptor = os.memfd_create("request", os.MFD_CLOEXEC)
    try:
        at = 0
        while at < len(data):
            at += os.pwrite(descriptor, data[at:], at)
        yield descriptor
    finally:
        os.close(descriptor)


def _hear(process: subprocess.Popen[bytes], until: float, stop: int) -> tuple[bytes, bool]:
    """What it says until it ends, or until its time is up; whether it has ended."""
    if process.stdout is None:
        return b"", True
    source, answer = process.stdout.fileno(), b""
    poller = select.poll()
    poller.register(source, select.POLLIN)
    if stop >= 0:
        poller.register(stop, select.POLLIN)
    while (left := until - clock.monotonic()) > 0:
        ready = [descriptor for descriptor, _ in poller.poll(left * 1000)]
        if source in ready:
            piece = os.read(source, _MOST_ANSWER)
            if not piece:
                return answer, True
            answer = (answer + piece)[-_MOST_ANSWER:]
        elif ready:
            return answer, False
    return answer, False


def _read(answer: bytes, status: int) -> dict[str, Any]:
    last = answer.rstrip(b"\n").rpartition(b"\n")[2]
    try:
        told = json.loads(last)
    except ValueError:
        told = None
    if isinstance(told, dict):
        return told
    if not last and status == -signal.SIGALRM:
        return {"error": LATE}
    if not last and status == -signal.SIGKILL:
        return {"error": STOPPED}
    said = "".join(c if c.isprintable() else "?" for c in last.decode("utf-8", "replace"))[:200]
    return {"error": f"its process ended with {status}: {said}"}
