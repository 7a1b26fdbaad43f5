"""Call the hooks of a run for the lines of its journal, without anybody waiting for them.

Each hook has a bounded queue and a thread of its own, which begins with its first line. A line is
told once in a life, in order; where the queue is full its oldest line is dropped.
"""

from __future__ import annotations

import contextlib
import os
import select
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from supervisor import clock
from supervisor.config.hook_settings import Hook
from supervisor.core.hooks import LEFT, QUIET
from supervisor.core.messages import HookSeen
from supervisor.perform.hook_delivery import Origin, Outcome, deliver, payload
from supervisor.perform.output import say
from supervisor.process.hook_call import ENDING, GRACE
from supervisor.process.signals import held_from_threads
from supervisor.sidecars.events import Appended, Events

QUEUE: Final = 100  # lines
LAST_SECONDS: Final = 5.0  # given to what waits when a life ends
CALM_SECONDS: Final = 60.0  # without a failure, until a hook counts as well again
_FIRST_WAIT, _LONGEST_WAIT = 1.0, 30.0

Put = Callable[[HookSeen], None]


class Left(NamedTuple):
    """Lines that a hook was not told of any more, up to ``entry``."""

    hook: str
    left: int
    entry: int


class Hooks:
    """Those of one life. Lines are kept from the first on, and told from ``begin`` on."""

    def __init__(self, hooks: Sequence[Hook] = (), calm: float = CALM_SECONDS) -> None:
        self._callers: tuple[_Caller, ...] = tuple(_Caller(hook, calm) for hook in hooks)

    def tell(self, line: Appended) -> None:
        """Queue a line for whoever is for it; never blocks."""
        if line.event in QUIET:
            return
        for caller in self._callers:
            if caller.hook.is_for(line.event, line.facts):
                caller.take(line)

    def begin(self, origin: Origin, put: Put) -> None:
        """Call from now on; ``put`` hears, from any thread, of hooks that begin or end to fail."""
        for caller in self._callers:
            caller.begin(origin, put)

    def facts(self) -> dict[str, Any]:
        """By name: the lines of this life and why the hook fails, empty where it does not."""
        return {caller.hook.name: caller.facts() for caller in self._callers}

    def close(self, seconds: float) -> list[Left]:
        """Give what waits so many seconds, then end what is under way; what was not told.

        Nothing is told any more.
        """
        callers, self._callers = self._callers, ()
        for caller in callers:
            caller.close()
        until = clock.monotonic() + seconds
        for caller in callers:
            caller.join(until - clock.monotonic())
        for caller in callers:
            caller.halt()
        until = clock.monotonic() + GRACE + ENDING + 1.0
        for caller in callers:
            caller.join(until - clock.monotonic())
        return [left for caller in callers if (left := caller.left()) is not None]


def leave(hooks: Hooks, events: Events, seconds: float = LAST_SECONDS) -> None:
    """End them with a life, as ``close`` does; what was not told is said and journaled."""
    for left in hooks.close(seconds):
        text = f"hook {left.hook} was not told of {left.left} lines, up to entry {left.entry}"
        say(f"{text}: the supervisor does not wait for it any longer", alarm=True)
        with contextlib.suppress(OSError):  # a disk that takes nothing was said before
            events.append(LEFT, left._asdict(), clock.wall())


class _Caller:
    """One hook, its queue and its thread."""

    def __init__(self, hook: Hook, calm: float) -> None:
        self.hook = hook
        self._health = _Health(hook.name, calm)
        self._queue: deque[Appended] = deque()
        self._under_way: Appended | None = None
        self._lost: list[Appended] = []  # at the end, when nobody hears of a failure any more
        self._news = threading.Condition()
        self._stop = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._closing = False
        self._thread: threading.Thread | None = None
        self._origin: Origin | None = None

    def take(self, line: Appended) -> None:
        """Queue it; held up by another thread's few instructions at most."""
        with self._news:
            if self._closing:
                return
            self._queue.append(line)
            if len(self._queue) > QUEUE:
                self._queue.popleft()
                self._health.dropped_one(line.entry)
            self._start()
            self._news.notify_all()

    def begin(self, origin: Origin, put: Put) -> None:
        """Call from now on."""
        with self._news:
            self._origin, self._health.put = origin, put
            self._start()

    def _start(self) -> None:
        if self._thread is None and self._origin is not None and self._queue:
            with held_from_threads():
                name = f"hook {self.hook.name}"
                self._thread = threading.Thread(target=self._work, name=name, daemon=True)
                self._thread.start()

    def facts(self) -> dict[str, Any]:
        """The lines of this life, and what is wrong."""
        with self._news:
            waiting = len(self._queue) + (self._under_way is not None)
            return {**self._health.facts(), "waiting": waiting}

    def close(self) -> None:
        """Take no more; what waits is still told."""
        with self._news:
            self._closing = True
            self._news.notify_all()

    def join(self, seconds: float) -> None:
        """Wait for its thread."""
        if self._thread is not None:
            self._thread.join(max(0.0, seconds))

    def halt(self) -> None:
        """Tell nothing any more, and end what is under way."""
        os.eventfd_write(self._stop, 1)

    def left(self) -> Left | None:
        """What was not told; to be asked last."""
        with self._news:
            lines = [*self._lost, *([self._under_way] if self._under_way else []), *self._queue]
        if self._thread is None or not self._thread.is_alive():
            os.close(self._stop)
        return Left(self.hook.name, len(lines), lines[-1].entry) if lines else None

    def _work(self) -> None:
        while (line := self._next()) is not None:
            outcome = self._tell(line)
            if outcome is None:
                return
            with self._news:
                self._under_way = None
                if outcome.problem:
                    self._health.failed_one(outcome.problem, line.entry)
                    self._lost += [line] if self._closing else []
                else:
                    self._health.delivered_one(line.entry)

    def _next(self) -> Appended | None:
        """The next line, waited for; None where there will be none."""
        with self._news:
            while not self._queue and not self._closing:
                self._news.wait(self._health.settle())
            self._under_way = self._queue.popleft() if self._queue else None
            return self._under_way

    def _tell(self, line: Appended) -> Outcome | None:
        """Try as often as is allowed; None where that was cut short. While it fails, once."""
        origin, wait = self._origin, 0.0
        for left in reversed(range(1 if self._health.problem else self.hook.tries)):
            if origin is None or self._stopped(wait):
                return None
            try:
                body = payload(origin, line)
                outcome = deliver(self.hook, origin, line, body, self._stop)
            except Exception as error:  # noqa: BLE001 - a fault of ours shall not leave a hook deaf
                return Outcome(f"a fault in stepkeeper itself: {error!r}", again=False, said="")
            if outcome.problem and self._stopped(0.0):
                return None
            if not (outcome.problem and outcome.again and left):
                return outcome
            wait = min(2 * wait, _LONGEST_WAIT) or _FIRST_WAIT
        return None

    def _stopped(self, seconds: float) -> bool:
        """Whether nothing is to be told any more, now or within so many seconds."""
        poller = select.poll()
        poller.register(self._stop, select.POLLIN)
        return bool(poller.poll(seconds * 1000))


class _Health:
    """Counts one hook's lines, and tells ``put`` where it begins to fail and where that is over.

    It is over once nothing has failed for ``calm`` seconds and the last line was told: a hook that
    fails now and then is one story in the journal and not many.
    """

    def __init__(self, name: str, calm: float) -> None:
        self.put: Put = lambda _: None
        self.problem = ""
        self._name = name
        self._calm = calm
        self._delivered = self._failed = self._dropped = 0
        self._before = (0, 0)  # failed and dropped when the story began
        self._well_at = 0.0
        self._told = 0  # the newest line told since the last failure

    def facts(self) -> dict[str, Any]:
        """As JSON values."""
        counts = {"delivered": self._delivered, "failed": self._failed, "dropped": self._dropped}
        return {**counts, "problem": self.problem}

    def delivered_one(self, entry: int) -> None:
        """A line was told."""
        self._delivered += 1
        self._told = entry

    def failed_one(self, problem: str, entry: int) -> None:
        """A line could not be told."""
        self._fails(problem, entry)
        self._failed += 1

    def dropped_one(self, entry: int) -> None:
        """The queue was full when this line came."""
        self._fails(f"its queue of {QUEUE} lines is full", entry)
        self._dropped += 1

    def settle(self) -> float | None:
        """Seconds until it may count as well again, where it does not; tells once it does."""
        if not self.problem or not self._told:
            return None
        left = self._well_at - clock.monotonic()
        if left > 0:
            return left
        failed, dropped = self._failed - self._before[0], self._dropped - self._before[1]
        self.put(HookSeen(self._name, "", self._told, failed, dropped))
        self.problem = ""
        return None

    def _fails(self, problem: str, entry: int) -> None:
        self._well_at = clock.monotonic() + self._calm
        self._told = 0
        if not self.problem:
            self._before = (self._failed, self._dropped)
            self.put(HookSeen(self._name, problem, entry, 0, 0))
        self.problem = problem
