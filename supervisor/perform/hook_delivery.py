"""Tell one hook of one line of the journal: what it is given, its signature, what came back."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import supervisor
from supervisor import clock
from supervisor.config.hook_settings import Hook
from supervisor.errors import StepkeeperError
from supervisor.process.hook_call import ENDING, GRACE, call
from supervisor.sidecars.checkpoints import SealError
from supervisor.sidecars.checkpoints.seals import read as read_seal
from supervisor.sidecars.events import Appended
from trainer.contract.checkpoint_format import seal_of

SCHEMA: Final = "stepkeeper.event/1"
_LEAST_SECRET, _MOST_SECRET = 16, 4096  # bytes
_AGAIN: Final = frozenset({408, 425, 429})  # answers that a later try may change, beside 5xx
_WELL: Final = range(200, 300)
_MOVED: Final = range(300, 400)
_FAULT: Final = 500


@dataclass(frozen=True, slots=True)
class Origin:
    """The run that a line is of: its identity, its name and its directory."""

    run: str
    name: str
    path: Path


class Outcome(NamedTuple):
    """``problem`` is empty where the hook took it; ``again``: another try may go better.

    ``said`` is what came back: an exit status or an answer's, and its words.
    """

    problem: str
    again: bool
    said: str


def payload(origin: Origin, line: Appended) -> bytes:
    """What hooks are given: one JSON object, ASCII, on one line."""
    facts = {
        "schema": SCHEMA,
        "run": origin.run,
        "name": origin.name,
        "path": str(origin.path),
        "event": line.event,
        "facts": dict(line.facts),
        "checkpoint": _checkpoint(origin.path, line),
        "time": line.time,
        "entry": line.entry,
        "chain": line.chain,
    }
    return json.dumps(facts, separators=(",", ":"), allow_nan=False).encode("ascii")


def _checkpoint(run: Path, line: Appended) -> dict[str, Any] | None:
    """Of a sealed one, where it is, its digest and the head; null of everything else."""
    if line.event != "sealed":
        return None
    folder = run / "checkpoints"
    try:
        path: str | None = str(folder / read_seal(folder / seal_of(line.facts["step"])).bin.name)
    except (OSError, SealError, KeyError):  # superseded meanwhile
        path = None
    return {"path": path, "sha256": line.facts.get("sha256"), "head": line.facts.get("head")}


def deliver(hook: Hook, origin: Origin, line: Appended, body: bytes, stop: int = -1) -> Outcome:
    """Call it once. ``stop`` is a descriptor: once it is readable the call is ended early."""
    try:
        if hook.command:
            return _started(hook, origin, line, body, stop)
        return _posted(hook, origin, line, body, stop)
    except (OSError, StepkeeperError) as error:
        return Outcome(str(error), again=False, said="")


def _started(hook: Hook, origin: Origin, line: Appended, body: bytes, stop: int) -> Outcome:
    named = {"STEPKEEPER_HOOK": hook.name, "STEPKEEPER_EVENT": line.event}
    request = {
        "command": hook.command,
        "cwd": str(origin.path),
        "env": {**(hook.env or {}), **named},
        "input": body.decode("ascii") + "\n",
        "timeout": hook.timeout,
    }
    answer = call("hook_command", request, hook.timeout + GRACE + ENDING, stop)
    output = str(answer.get("output", ""))
    if "error" in answer:
        return Outcome(str(answer["error"]), again=False, said=output)
    status = int(answer["status"])
    how = f"exit status {status}" if status >= 0 else f"ended by signal {-status}"
    said = f"{how}: {output}" if output else how
    return Outcome(said[-300:] if status else "", again=False, said=said)


def _posted(hook: Hook, origin: Origin, line: Appended, body: bytes, stop: int) -> Outcome:
    secret = read_secret(hook.secret_file) if hook.secret_file is not None else b""
    headers = {
        "Content-Type": "application/json",
        "User-Agent": f"stepkeeper/{supervisor.__version__}",
        "Stepkeeper-Delivery": f"{origin.run}:{line.entry}",
        **signed(secret, int(clock.unix()), body),
    }
    request = {
        "url": hook.url,
        "headers": headers,
        "body": body.decode("ascii"),
        "timeout": hook.timeout,
    }
    answer = call("hook_post", request, hook.timeout, stop)
    if "error" in answer:
        return Outcome(str(answer["error"]), again=True, said="")
    status, output = int(answer["status"]), str(answer.get("output", ""))
    said = f"HTTP {status}: {output}" if output else f"HTTP {status}"
    if status in _WELL:
        return Outcome("", again=False, said=said)
    again = status in _AGAIN or status >= _FAULT
    hint = "; a redirect is not followed" if status in _MOVED else ""
    return Outcome(said[:300] + hint, again=again, said=said)


def signed(secret: bytes, timestamp: int, body: bytes) -> Mapping[str, str]:
    """The headers by which a receiver knows who sent this body, and when (seconds since 1970)."""
    signature = hmac.new(secret, b"%d." % timestamp + body, hashlib.sha256).hexdigest()
    return {
        "Stepkeeper-Timestamp": str(timestamp),
        "Stepkeeper-Signature": f"sha256={signature}",
    }


def read_secret(path: Path) -> bytes:
    """The secret in a file of ours alone, without white space around it. Raises StepkeeperError."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise StepkeeperError(f"cannot read secret_file {path}: {error.strerror}") from None
    try:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode):
            raise StepkeeperError(f"cannot use secret_file {path}: it is no file")
        if facts.st_uid != os.geteuid():
            raise StepkeeperError(
                f"cannot use secret_file {path}: it belongs to uid {facts.st_uid}, not to uid "
                f"{os.geteuid()} which keeps the run"
            )
        if facts.st_mode & 0o077:
            raise StepkeeperError(
                f"cannot use secret_file {path}: others than its owner may use it; chmod 600 it"
            )
        secret = os.read(descriptor, _MOST_SECRET + 1).strip()
    finally:
        os.close(descriptor)
    if not _LEAST_SECRET <= len(secret) <= _MOST_SECRET:
        raise StepkeeperError(
            f"cannot use secret_file {path}: {len(secret)} bytes, where {_LEAST_SECRET} to "
            f"{_MOST_SECRET} are wanted"
        )
    return secret
