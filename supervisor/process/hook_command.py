"""A process around one command of a hook, so that nothing of the command outlives its time.

The command begins a session, and whatever it leaves behind becomes a child of this process, which
ends it: when the command has ended, when its time is up, or when the supervisor is gone.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
from typing import Any, Final

from supervisor import clock
from supervisor.process.hook_call import ENDING, GRACE, MOST, STOPPED
from supervisor.process.orphans import children, take_in

_MOST_OUTPUT: Final = 64 << 20  # bytes; who writes more is ended
_PIECE: Final = 1 << 16
_POLL: Final = 0.005


def main() -> None:
    """Answer on stdout: ``status`` and ``output`` of the command, or ``error``."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)  # the supervisor's are its own
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    take_in()
    answer = _Call(json.load(sys.stdin), int(sys.argv[1])).answer()
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


class _Call:
    """One command, from its start until nothing of it is left."""

    def __init__(self, request: dict[str, Any], lifeline: int) -> None:
        self._request = request
        self._lifeline = lifeline
        self._output, self._bytes = b"", 0
        self._status: int | None = None

    def answer(self) -> dict[str, Any]:
        request = self._request
        stdin = os.memfd_create("event", os.MFD_CLOEXEC)
        os.write(stdin, request["input"].encode("utf-8"))
        os.lseek(stdin, 0, os.SEEK_SET)
        try:
            process = subprocess.Popen(
                request["command"],
                cwd=request["cwd"],
                env=request["env"],
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            return {"error": f"{request['command'][0]} cannot be started: {error.strerror}"}
        problem = self._follow(process, clock.monotonic() + request["timeout"])
        survivors = self._end(process)
        process.returncode = self._status if self._status is not None else 0
        output = "".join(
            c if c.isprintable() else " " for c in self._output.decode("utf-8", "replace")
        )
        told = {"output": " ".join(output.split()), "bytes": self._bytes}
        if survivors:
            problem = f"pid {', '.join(map(str, survivors))} outlives SIGKILL"
        return {**told, "error": problem} if problem else {**told, "status": self._status}

    def _follow(self, process: subprocess.Popen[bytes], until: float) -> str:
        """Read what it says until it has ended; else why that is not waited for any longer."""
        source = _descriptor(process)
        pidfd = os.pidfd_open(process.pid)
        poller = select.poll()
        for descriptor in (source, pidfd, self._lifeline):
            poller.register(descriptor, select.POLLIN)
        while (left := until - clock.monotonic()) > 0:
            ready = [descriptor for descriptor, _ in poller.poll(left * 1000)]
            if source in ready and not self._take(source):
                poller.unregister(source)
            if self._bytes > _MOST_OUTPUT:
                return f"it wrote more than {_MOST_OUTPUT >> 20} MiB"
            if self._lifeline in ready:
                return STOPPED
            if pidfd in ready:
                return ""
        return f"it had not ended after {self._request['timeout']:g} s"

    def _take(self, source: int) -> bool:
        """Read once; whether there may be more."""
        piece = os.read(source, _PIECE)
        self._output, self._bytes = (self._output + piece)[-MOST:], self._bytes + len(piece)
        return bool(piece)

    def _end(self, process: subprocess.Popen[bytes]) -> list[int]:
        """End all that is left of it, SIGTERM first; what outlives even SIGKILL."""
        source = _descriptor(process)
        until = clock.monotonic() + GRACE
        _send(_offspring(), signal.SIGTERM)
        killed = clock.monotonic() + ENDING
        while left := self._reap(process.pid):
            now = clock.monotonic()
            if now > killed:
                return left
            if now > until:
                _send(left, signal.SIGKILL)
            clock.pause(_POLL)
        os.set_blocking(source, False)  # somebody else may have been handed the other end
        with contextlib.suppress(BlockingIOError):
            while self._bytes <= _MOST_OUTPUT and self._take(source):
                pass
        return []

    def _reap(self, pid: int) -> list[int]:
        """Take notice of all that have ended; those that have not."""
        try:
            while True:
                ended, status = os.waitpid(-1, os.WNOHANG)
                if not ended:
                    return _offspring()
                if ended == pid:
                    self._status = os.waitstatus_to_exitcode(status)
        except ChildProcessError:
            return []


def _descriptor(process: subprocess.Popen[bytes]) -> int:
    return -1 if process.stdout is None else process.stdout.fileno()


def _offspring() -> list[int]:
    """Every process below this one."""
    found = children(os.getpid())
    for pid in found:  # which grows meanwhile
        found += children(pid)
    return found


def _send(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue
        except PermissionError:  # another user's by now
            continue


if __name__ == "__main__":
    main()
