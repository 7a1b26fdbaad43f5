"""The daemon: build the parts in order, own the inbox, run the one loop, shut down in reverse.

Everything that happens becomes an event in the inbox; the loop takes one, lets the core decide,
and hands the effects to the writer thread. Nothing else in the program loops.
"""

from __future__ import annotations

import contextlib
import os
import selectors
from collections import deque
from collections.abc import Callable

from supervisor import clock
from supervisor.config import Config
from supervisor.control.server import Server
from supervisor.core.decide import begin, decide
from supervisor.core.messages import (
    Answer,
    Asked,
    Effect,
    Ended,
    Event,
    Exit,
    Failed,
    Record,
    Recorded,
    ReportsPosition,
    Spawn,
    Spawned,
    Tick,
    Verify,
)
from supervisor.core.state import Life, State
from supervisor.daemon.admission import admit, refuse_after_limit
from supervisor.daemon.describe import held
from supervisor.daemon.errand import Errand
from supervisor.daemon.following import AHEAD, POLL_SECONDS, Following, may_read_on
from supervisor.daemon.gate import enter
from supervisor.daemon.projections import Projections
from supervisor.daemon.readback import ReadBack
from supervisor.daemon.recovery import Recovered, recover
from supervisor.daemon.service_limits import ServiceLimits
from supervisor.daemon.silence import Silence
from supervisor.daemon.space import Space
from supervisor.daemon.time_left import TimeLeft
from supervisor.daemon.upkeep import MORE_SECONDS, Upkeep
from supervisor.perform import Performer, say
from supervisor.perform.intent import write_start
from supervisor.perform.unattended import by
from supervisor.process.child import Child
from supervisor.process.sdnotify import Notifier
from supervisor.process.signals import Signals


class Daemon:
    """One supervisor's life, or with an ``errand`` a visit: save or stop, without staying."""

    def __init__(
        self,
        config: Config,
        environ: dict[str, str],
        errand: Asked | None = None,
        *,
        moved: bool = False,
    ) -> None:
        self._config = config
        self._environ = environ
        self._moved = moved
        self._errand = Errand(errand) if errand else None
        self._notifier = Notifier.from_environment(environ)
        self._inbox: deque[Event | Answer | Exit] = deque()
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._selector = selectors.DefaultSelector()
        self._following: Following | None = None
        self._readback = ReadBack(config.run / "checkpoints", self._selector, self._inbox.append)
        self._silence = Silence(config.run, self._inbox.append, judges=errand is None)
        self._ahead = 0
        self._exit: int | None = None
        self._watched = -1

    def run(self) -> int:
        """Keep the run until it is finished, stopped or given up; the exit code says which.

        Raises StepkeeperError where it cannot begin.
        """
        with contextlib.ExitStack() as closing:
            closing.callback(os.close, self._wake)
            closing.callback(self._selector.close)
            self._notifier.extend(MORE_SECONDS)
            lock = enter(self._config, moved=self._moved)
            closing.callback(os.close, lock)
            if self._errand is None:
                refuse_after_limit(self._config)
            # Signals first: one that arrives while we recover is kept, not lost.
            signals = closing.enter_context(Signals())
            recovered = recover(self._config)
            parts = recovered.parts
            closing.callback(parts.events.close)
            closing.callback(parts.ledger.close)
            if self._errand:
                self._errand.begin(recovered.found.attempt)
            elif recovered.hold:
                say(held(self._config.run))
                self._notifier.ready()  # a start that ends well without a word counts as failed
                return 0
            elif not recovered.found.stop_unfinished:
                write_start(self._config.run, recovered.start, by())
            server = Server(self._config.run)
            closing.callback(server.close)
            self._performer = Performer(parts, self._put)
            self._performer.start()
            self._projections = Projections(self._performer.submit)
            looks = self._looks(recovered, closing)
            self._upkeep = Upkeep(self._config, self._notifier, server, self._inbox.append, looks)
            closing.callback(self._upkeep.close)
            closing.callback(self._readback.close)
            closing.callback(self._performer.close)
            self._server = server
            self._register(signals, server)
            state, effects = begin(recovered.state, recovered.found, clock.monotonic())
            if recovered.found.attempt is not None:
                self._follow(recovered.found.attempt.position, parts.child)
            self._state = state
            self._carry_out(effects)
            self._loop(signals)
            self._tell_manager(done=self._exit == 0)
        return self._exit or 0

    def _tell_manager(self, *, done: bool) -> None:
        if self._errand is None:
            if done and not self._notifier.told_ready:
                self._notifier.ready()  # as for a stop that had only to be finished
            self._notifier.stopping()

    def _looks(
        self, recovered: Recovered, closing: contextlib.ExitStack
    ) -> tuple[Callable[[State], None], ...]:
        """What else is looked at about once a second."""
        service = ServiceLimits(self._config.run, {} if self._errand else self._environ)
        closing.callback(service.close)
        space = Space(self._config, self._performer, self._inbox.append)
        if self._errand:
            return service.look, space.look
        limits = recovered.state.settings.limits
        left = TimeLeft(limits, recovered.start.seconds, self._inbox.append)
        return service.look, space.look, left.look

    def _register(self, signals: Signals, server: Server) -> None:
        self._selector.register(self._wake, selectors.EVENT_READ, "wake")
        self._selector.register(signals, selectors.EVENT_READ, "signals")
        self._selector.register(server, selectors.EVENT_READ, "control")
        self._selector.register(self._upkeep.watch, selectors.EVENT_READ, "watch")

    def _loop(self, signals: Signals) -> None:
        while self._exit is None:
            now = clock.monotonic()
            for key, _ in self._selector.select(self._timeout(now)):
                self._note(key.data, signals)
            polled = self._poll_reports()
            now = clock.monotonic()
            self._silence.turn(self._state, self._following, now, polled=polled)
            if self._state.deadline is not None and now >= self._state.deadline:
                self._inbox.append(Tick())
            while self._inbox and self._exit is None:
                self._take(self._inbox.popleft())
            self._upkeep.keep_up(self._state, now)

    def _timeout(self, now: float) -> float:
        due = [self._upkeep.due(now)]
        if self._following is not None:
            more = not self._following.caught_up and may_read_on(self._ahead, self._state)
            due.append(now if more else now + POLL_SECONDS)
        if self._state.deadline is not None:
            due.append(self._state.deadline)
        return max(0.0, min(due) - now)

    def _note(self, what: str, signals: Signals) -> None:
        """Turn readiness into events; nothing is decided here."""
        match what:
            case "wake":
                with contextlib.suppress(BlockingIOError):
                    os.eventfd_read(self._wake)
            case "signals" if self._errand:
                self._exit = self._errand.interrupted(signals.drain())
            case "signals":
                self._inbox.extend(signals.drain())
            case "control":
                self._inbox.extend(self._server.ready())
            case "verifier":
                self._readback.ready()
            case "watch":
                self._upkeep.look_around(self._state)
            case _:
                pass  # the child's end is told by whoever has read its reports to the end

    def _take(self, item: Event | Answer | Exit) -> None:
        match item:
            case Answer():
                self._answer(item)
                return
            case Exit():
                self._exit = item.code
                return
            case Asked():
                hang = self._silence.facts(self._state)
                answer = admit(self._config, self._state, item, hang)
                if answer is not None:
                    self._answer(Answer(item.reply, answer))
                    return
            case Recorded() | Failed(what="record"):
                self._ahead -= 1
            case Spawned():
                child = self._performer.parts.child
                self._follow(ReportsPosition(item.attempt, 0, 0), child)
            case Ended():
                self._forget_child()
            case _:
                pass
        self._state, effects = decide(self._state, item, clock.monotonic())
        self._carry_out(effects)
        if self._errand and self._exit is None:
            self._exit = self._errand.over(item, self._state, effects)

    def _carry_out(self, effects: list[Effect]) -> None:
        """Hand effects on, in order; projections of the fold wait until it has caught up."""
        if effects and not self._catching_up():
            self._projections.let_go()
        for effect in effects:
            if isinstance(effect, Verify):
                attempt = self._state.attempt
                companion = attempt is None or attempt.companion
                n_params = attempt.n_params if attempt else 0
                self._readback.add(effect, companion=companion, n_params=n_params)
            elif isinstance(effect, Spawn) and self._errand:
                break
            elif not (self._catching_up() and self._projections.hold(effect)):
                self._ahead += isinstance(effect, Record)
                self._performer.submit(effect)

    def _catching_up(self) -> bool:
        return self._following is not None and not self._following.caught_up

    def _poll_reports(self) -> bool:
        """Look for reports, unless the ledger is behind; whether that was done."""
        following = self._following
        if following is None:
            return False
        if self._errand:
            self._inbox.extend(self._errand.due(caught_up=following.caught_up))
        polled = may_read_on(self._ahead, self._state)
        if polled:
            following.poll()
        if following.caught_up and not self._inbox:
            self._projections.let_go()
        return polled

    def _put(self, item: Event | Answer | Exit) -> None:
        """Add to the inbox, from any thread; the ledger's routine answers can wait for a poll."""
        self._inbox.append(item)
        if not (isinstance(item, Recorded) and self._calm()):
            os.eventfd_write(self._wake, 1)

    def _calm(self) -> bool:
        """Whether nothing waits for the ledger: waking for each answer costs a third of our CPU."""
        return (
            self._state.life is Life.RUNNING
            and not self._catching_up()
            and not self._state.pending
            and self._ahead < AHEAD
        )

    def _answer(self, answer: Answer) -> None:
        if answer.reply:
            self._server.answer(answer.reply, answer.fields)
        elif "error" in answer.fields:
            say(str(answer.fields["error"]), alarm=True)
            self._exit = 1

    def _follow(self, position: ReportsPosition, child: Child | None) -> None:
        """Follow an attempt, spawned or adopted, from a position in its reports on."""
        if self._following is not None:
            self._following.close()
        self._following = Following(self._config.run, position, child, self._inbox.append)
        self._watch_child()
        if self._errand is None:  # an errand speaks for itself alone, not for the service
            self._notifier.ready()

    def _watch_child(self) -> None:
        descriptor = self._following.fileno() if self._following is not None else None
        if descriptor is not None:
            self._selector.register(descriptor, selectors.EVENT_READ, "child")
            self._watched = descriptor

    def _forget_child(self) -> None:
        if self._watched >= 0:
            self._selector.unregister(self._watched)
            self._watched = -1
