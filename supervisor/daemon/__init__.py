"""The daemon: build the parts in order, own the inbox, run the one loop, shut down in reverse.

Everything that happens becomes an event in the inbox; the loop takes one, lets the core decide,
and hands the effects to the writer thread. Nothing else in the program loops.
"""

from __future__ import annotations

import contextlib
import os
import selectors
from collections import deque

from supervisor import clock
from supervisor.config import Config
from supervisor.control.server import Server
from supervisor.core.beginning import begin
from supervisor.core.decide import decide
from supervisor.core.messages import (
    Answer,
    Asked,
    Effect,
    Ended,
    Event,
    Exit,
    Failed,
    Prove,
    Record,
    Recorded,
    Reload,
    ReportsPosition,
    Spawn,
    Spawned,
    Tick,
    Verify,
)
from supervisor.core.state import Life
from supervisor.daemon.admission import admit, may_begin
from supervisor.daemon.errand import Errand
from supervisor.daemon.following import AHEAD, POLL_SECONDS, Following, may_read_on
from supervisor.daemon.handover import Handover, Place
from supervisor.daemon.looks import looks
from supervisor.daemon.projections import Projections
from supervisor.daemon.readers import Readers
from supervisor.daemon.recovery import recover
from supervisor.daemon.reloading import Reloading, told
from supervisor.daemon.silence import Silence
from supervisor.daemon.upkeep import MORE_SECONDS, Upkeep
from supervisor.perform import Performer, say
from supervisor.process.child import Child
from supervisor.process.sdnotify import Notifier
from supervisor.process.signals import Signals, hold_back


class Daemon:
    """One supervisor's life, or with an ``errand`` a visit: save or stop, without staying.

    ``left`` is what an earlier life in this process left; where this one makes way for another,
    ``run`` ends with ``place.handover``.
    """

    def __init__(
        self,
        config: Config,
        environ: dict[str, str],
        errand: Asked | None = None,
        *,
        moved: bool = False,
        left: Handover | None = None,
    ) -> None:
        self._config = config
        self._environ = None if errand else environ
        self.place = Place(config, left, moved=moved, visiting=errand is not None)
        self._errand = Errand(errand) if errand else None
        self._notifier = Notifier.from_environment(environ)
        self._inbox: deque[Event | Answer | Exit] = deque()
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._selector = selectors.DefaultSelector()
        self._following: Following | None = None
        self._readers = Readers(
            config.run / "checkpoints",
            self._selector,
            self._inbox.append,
            stays=errand is None,
            roots=config.shard_roots,
        )
        self._silence = Silence(
            config.run, self._inbox.append, judges=errand is None, roots=config.shard_roots
        )
        self._ahead = 0
        self._exit: int | None = None
        self._reloading = Reloading(config.run, self._selector)

    def run(self) -> int:
        """Keep the run until it is finished, stopped or given up; the exit code says which.

        Raises StepkeeperError where it cannot begin.
        """
        with contextlib.ExitStack() as closing:
            closing.callback(os.close, self._wake)
            closing.callback(self._selector.close)
            self._notifier.extend(MORE_SECONDS)
            closing.enter_context(self.place)
            # Signals first: one that arrives while we recover is kept, not lost.
            signals = closing.enter_context(Signals())
            recovered = recover(self._config, self.place.left, visiting=self._errand is not None)
            parts = recovered.parts
            closing.callback(parts.events.close)
            closing.callback(parts.ledger.close)
            if self._errand:
                self._errand.begin(recovered.found.attempt)
            elif not recovered.found.stop_unfinished and not may_begin(
                self._config.run, recovered.start, hold=recovered.hold
            ):  # a stop that an earlier life began is finished first, though the run be held
                self._notifier.ready()  # a start that ends well without a word counts as failed
                return 0
            server = Server(self._config.run, self.place.listener)
            closing.callback(server.close)
            self._performer = Performer(parts, self._put)
            self._performer.start()
            self._projections = Projections(self._performer.submit)
            seen = looks(recovered, self._performer, self._inbox.append, self._environ, closing)
            self._upkeep = Upkeep(self._config, self._notifier, server, self._inbox.append, seen)
            closing.callback(self._upkeep.close)
            closing.callback(self._readers.close)
            closing.callback(self._reloading.close)
            closing.callback(self._performer.close)
            self._server = server
            self._register(signals, server)
            state, effects = begin(recovered.state, recovered.found, clock.monotonic())
            if recovered.found.attempt is not None:
                self._follow(recovered.found.attempt.position, parts.child, self.place.oom_kills)
            self._state = state
            self._carry_out(effects)
            self._inbox.extend(self.place.promised(self._notifier))
            self._loop(signals)
            if self._errand is None and self.place.handover is None:
                self._notifier.stopping(done=self._exit == 0)
        return self._exit or 0

    def _register(self, signals: Signals, server: Server) -> None:
        self._selector.register(self._wake, selectors.EVENT_READ, "wake")
        self._selector.register(signals, selectors.EVENT_READ, "signals")
        self._selector.register(server, selectors.EVENT_READ, "control")
        self._selector.register(self._upkeep.sources, selectors.EVENT_READ, "sources")

    def _loop(self, signals: Signals) -> None:
        while self._exit is None and self.place.handover is None:
            now = clock.monotonic()
            for key, _ in self._selector.select(self._timeout(now)):
                self._note(key.data, signals)
            polled = not self._reloading.settling and self._poll_reports()
            now = clock.monotonic()
            self._silence.turn(self._state, self._following, now, polled=polled)
            if self._state.deadline is not None and now >= self._state.deadline:
                self._inbox.append(Tick())
            while self._inbox and self._exit is None:
                self._take(self._inbox.popleft())
            self._upkeep.keep_up(self._state, now, self._readers.keep_up(self._state, now))
            self._make_way(signals, now)

    def _make_way(self, signals: Signals, now: float) -> None:
        """Let another life take over where one is wanted, once nothing is under way."""
        caught_up = not self._catching_up()
        if caught_up and self._reloading.settling:
            self._projections.let_go()
        at_rest = caught_up and self._performer.idle and not self._inbox
        way = self._reloading.turn(
            self._state, self._server, caught_up=caught_up, at_rest=at_rest, now=now
        )
        if way:
            following, restart = self._following, self._reloading.restart
            self.place.leave(self._state, following, self._server, self._notifier, restart=restart)
            hold_back(signals)

    def _timeout(self, now: float) -> float:
        due = [self._upkeep.due(now), self._reloading.due(now)]
        if self._following is not None and not self._reloading.settling:
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
                self._inbox.extend(map(told, signals.drain()))
            case "control":
                self._inbox.extend(self._server.ready())
            case "verifier":
                self._readers.ready()
            case "sources":
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
                known = {"hang": self._silence.facts(self._state), **self._reloading.facts()}
                known["hooks"] = self._performer.parts.hooks.facts()
                if (answer := admit(self._config, self._state, item, known)) is not None:
                    self._answer(Answer(item.reply, answer))
                    return
            case Recorded() | Failed(what="record"):
                self._ahead -= 1
            case Spawned():
                child = self._performer.parts.child
                self._follow(ReportsPosition(item.attempt, 0, 0), child)
            case Ended() if self._following is not None:
                self._following.forget_child()
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
            if isinstance(effect, Verify | Prove):
                self._readers.take(effect, self._state)
            elif isinstance(effect, Spawn) and self._errand:
                break
            elif isinstance(effect, Reload):
                self._reload(effect)
            elif not (self._catching_up() and self._projections.hold(effect)):
                self._ahead += isinstance(effect, Record)
                self._performer.submit(effect)

    def _reload(self, effect: Reload) -> None:
        answer = self._reloading.ask(restart=effect.restart, now=clock.monotonic())
        if effect.reply is not None:
            self._server.answer(effect.reply, answer)

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

    def _follow(
        self, position: ReportsPosition, child: Child | None, oom_kills: int | None = None
    ) -> None:
        """Follow an attempt, spawned or adopted, from a position in its reports on."""
        if self._following is not None:
            self._following.close()
        run, put, selector = self._config.run, self._inbox.append, self._selector
        self._following = Following(run, position, child, put, selector, oom_kills)
        if self._errand is None:  # an errand speaks for itself alone, not for the service
            self._notifier.ready()
