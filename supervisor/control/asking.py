"""Ask the supervisor of a run, and wait for its answer."""

from __future__ import annotations

import contextlib
import json
import os
import socket
from pathlib import Path
from typing import Any

from supervisor import clock
from supervisor.control.verbs import LIMIT, address
from supervisor.errors import UnknownError


class NobodyAnswersError(UnknownError):
    """No supervisor listens: there is none, or it has not come so far yet."""


def request(run: Path, verb: str, fields: dict[str, Any], seconds: float) -> dict[str, Any]:
    """Ask the supervisor of ``run``; its answer, in which ``error`` is a refusal.

    Raises UnknownError where none answers within ``seconds``, NobodyAnswersError where the
    request reached nobody.
    """
    line = json.dumps({"verb": verb, **fields}, allow_nan=False).encode("ascii") + b"\n"
    try:
        folder = os.open(run, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as link:
                link.settimeout(seconds)
                link.connect(address(folder))
                data = _exchange(link, line, clock.monotonic() + seconds)
        finally:
            os.close(folder)
        answer = json.loads(data)
    except TimeoutError:
        raise UnknownError(f"cannot {verb} {run}: no answer within {seconds:g} s") from None
    except OSError as error:
        raise NobodyAnswersError(
            f"cannot {verb} {run}: no supervisor answers ({error.strerror})"
        ) from None
    except ValueError:
        raise UnknownError(f"cannot {verb} {run}: the supervisor's answer broke off") from None
    if not isinstance(answer, dict):
        raise UnknownError(f"cannot {verb} {run}: the supervisor's answer is no object")
    return answer


def _exchange(link: socket.socket, line: bytes, deadline: float) -> bytes:
    # A server that refuses an overlong line answers before it has read it all.
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        link.sendall(line)
    data = b""
    while not data.endswith(b"\n"):
        left = deadline - clock.monotonic()
        if left <= 0:
            raise TimeoutError
        link.settimeout(left)
        piece = link.recv(LIMIT)
        if not piece:
            break
        data += piece
    return data
