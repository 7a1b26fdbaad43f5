"""What one life of the supervisor leaves to the next one in the same process, as one line of JSON.

Only what no file holds: open descriptors, saves asked for and not written. The rest is found in
the files, as after any death.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError

import supervisor
from supervisor.config import Config
from supervisor.control.server import Listener, Server
from supervisor.core.messages import Asked
from supervisor.core.state import SaveRequest, State
from supervisor.daemon.admission import refuse_after_limit
from supervisor.daemon.following import Following
from supervisor.daemon.gate import enter
from supervisor.perform import say
from supervisor.process.descriptors import hand_on
from supervisor.process.locks import take_over
from supervisor.process.sdnotify import Notifier


@dataclass(frozen=True, slots=True)
class Handover:
    """Descriptors (-1: none) and promises. ``pid`` proves that it is meant for this process.

    ``attempt`` is the one under way, whose trainer ``pidfd`` is and for which ``saves`` were
    asked; the kernel had counted ``oom_kills`` when it was first followed. ``restart`` asks the
    next life to begin a new attempt.
    """

    pid: int
    version: str
    lock: int
    listener: Listener | None
    pidfd: int
    oom_kills: int | None
    attempt: int | None
    saves: tuple[SaveRequest, ...]
    ready: bool
    restart: bool

    def dump(self) -> str:
        """As text, the descriptors now surviving an exec."""
        hand_on(self._descriptors())
        listener = self.listener._asdict() if self.listener else None
        return json.dumps({**asdict(self), "listener": listener})

    def for_state(self, state: State) -> State:
        """The state with the saves that were asked for, if their trainer still is the one."""
        theirs = self.attempt is not None and self.attempt == state.last_attempt
        return replace(state, saves=self.saves) if theirs else state

    def _descriptors(self) -> Iterator[int]:
        listener = self.listener.descriptor if self.listener else -1
        yield from (d for d in (self.lock, self.pidfd, listener) if d >= 0)


class _Model(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True, allow_inf_nan=False)


class _Listener(_Model):
    descriptor: int
    inode: int


class _Save(_Model):
    serial: int
    pin: bool
    note: str


class _Handover(_Model):
    """The next life may be of another version: what is unknown is ignored, what lacks is absent."""

    pid: int
    version: str = ""
    lock: int = -1
    listener: _Listener | None = None
    pidfd: int = -1
    oom_kills: int | None = None
    attempt: int | None = None
    saves: list[_Save] = []
    ready: bool = False
    restart: bool = False


class Place:
    """The place of a run's supervisor, which is its lock: taken, held, and perhaps handed over.

    ``left`` is what an earlier life in this process handed over. Entering raises RefusedError,
    also as LockHeldError, and UsageError for a start behind its time limit.
    """

    def __init__(
        self, config: Config, left: Handover | None, *, moved: bool, visiting: bool
    ) -> None:
        self.left = left
        self.handover: Handover | None = None
        self._config = config
        self._moved = moved
        self._visiting = visiting
        self._lock = -1

    def __enter__(self) -> Self:
        left = self.left
        if left is not None and take_over(self._config.run / "run.lock", left.lock):
            self._lock = left.lock
            return self
        self._lock = enter(self._config, moved=self._moved)
        try:
            if not self._visiting:
                refuse_after_limit(self._config)
        except BaseException:
            os.close(self._lock)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self.handover is None:
            os.close(self._lock)

    @property
    def listener(self) -> Listener | None:
        """The socket on which the earlier life listened."""
        return self.left.listener if self.left else None

    @property
    def oom_kills(self) -> int | None:
        """The kernel's count from when the earlier life began to follow the trainer."""
        return self.left.oom_kills if self.left else None

    def promised(self, notifier: Notifier) -> list[Asked]:
        """Tell that another life has begun where one was; what that one promised to do."""
        if self.left is None:
            return []
        say(f"version {supervisor.__version__} took over in place of {self.left.version}")
        if self.left.ready:
            notifier.ready()
        return [Asked(0, "restart", {})] if self.left.restart else []

    def leave(
        self,
        state: State,
        following: Following | None,
        server: Server,
        notifier: Notifier,
        *,
        restart: bool,
    ) -> None:
        """Keep for the next life what no file holds; this one must be at rest."""
        child = following.child if following else None
        if notifier.told_ready:
            notifier.reloading()
        self.handover = Handover(
            pid=os.getpid(),
            version=supervisor.__version__,
            lock=self._lock,
            listener=server.hand_over(),
            pidfd=child.pidfd if child else -1,
            oom_kills=following.oom_kills if following else None,
            attempt=state.attempt.number if state.attempt else None,
            saves=state.saves,
            ready=notifier.told_ready,
            restart=restart,
        )


def load(text: str) -> Handover | None:
    """What was left to this process, or None: nothing, or not for us, or not to be understood."""
    if not text:
        return None
    try:
        found = _Handover.model_validate_json(text)
    except ValidationError:
        return None
    if found.pid != os.getpid():
        return None
    given: dict[str, Any] = dict(found)
    given["listener"] = Listener(**dict(found.listener)) if found.listener else None
    given["saves"] = tuple(SaveRequest(**dict(save)) for save in found.saves)
    return Handover(**given)
