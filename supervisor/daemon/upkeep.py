"""What the loop does now and then: signs of life, the socket, sources and settings that changed."""

from __future__ import annotations

from collections.abc import Callable

from supervisor.config import Config
from supervisor.control.server import Server
from supervisor.core.arms import news
from supervisor.core.messages import Event, SourcesSeen
from supervisor.core.state import State, Want
from supervisor.daemon.describe import one_line
from supervisor.daemon.in_force import settings_files, settings_news
from supervisor.errors import StepkeeperError
from supervisor.perform import say
from supervisor.process.sdnotify import Notifier
from supervisor.process.sources import Sources
from supervisor.process.watch import Watch

SECONDS = 1.0
SILENT_SECONDS = 60.0
MORE_SECONDS = 30.0  # asked for anew each second, so that a loop that stands still is found late


class Upkeep:
    """``put`` receives what was seen. The watchdog is fed by the loop itself, never by a thread.

    ``sources`` are looked at by a thread of their own, to be registered with the selector.
    """

    def __init__(
        self,
        config: Config,
        notifier: Notifier,
        server: Server,
        put: Callable[[Event], None],
        looks: tuple[Callable[[State], None], ...],
    ) -> None:
        self._config = config
        self._looks = looks
        self._notifier = notifier
        self._server = server
        self._put = put
        self._settings = Watch(settings_files(config.run), hints=False)
        self.sources = Sources(config.sources)
        self._unseen = ""
        self._deaf = ""
        self._due = self._watchdog_due = 0.0

    def due(self, now: float) -> float:
        """When the loop must come round for it at the latest, on the monotonic clock."""
        watched = self._notifier.watchdog_interval is not None
        return min(now + SECONDS, self._watchdog_due) if watched else now + SECONDS

    def keep_up(self, state: State, now: float, progress: str) -> None:
        """Do what is due; ``progress`` is what a start waits for, in words, or empty."""
        interval = self._notifier.watchdog_interval
        if interval and now >= self._watchdog_due:
            self._notifier.watchdog()
            self._watchdog_due = now + interval
        if now >= self._due:
            self._due = now + SECONDS
            self._notifier.status(progress or one_line(state))
            if state.want is Want.STOP or not self._notifier.told_ready:
                # Which stop takes too long, and which start, is for the core to say.
                self._notifier.extend(MORE_SECONDS)
            self.look_around(state)
            self._look_for_silence(now)
            for look in self._looks:
                look(state)
            for asked in self._server.ready():
                self._put(asked)
            self._renew()

    def look_around(self, state: State) -> None:
        """Tell the core of sources that came or went, the operator of settings not in force."""
        for line in settings_news(self._config.run, self._settings.changed()):
            say(line)
        seen = self.sources.seen()
        if seen is None:
            return
        live = frozenset(name for name, source in seen.items() if source.there)
        contents = {name: source.content for name, source in seen.items() if source.content}
        if news(state, live, contents):
            self._put(SourcesSeen(live, tuple(contents.items())))

    def close(self) -> None:
        """Stop watching."""
        self.sources.close()
        self._settings.close()

    def _look_for_silence(self, now: float) -> None:
        """Tell of a source whose file system does not answer: nothing is known of it meanwhile."""
        late = self.sources.late(now)
        silent = late[0] if late is not None and late[1] > SILENT_SECONDS else ""
        if silent and silent != self._unseen:
            say(
                f"cannot look at the source of arm {silent}: its file system has not answered for "
                f"{SILENT_SECONDS:.0f} s; no source is watched until it does",
                alarm=True,
            )
        elif self._unseen and not silent:
            say(f"the source of arm {self._unseen} can be looked at again")
        self._unseen = silent

    def _renew(self) -> None:
        """Bind the socket again if it is gone; a run does not end for want of one."""
        problem = ""
        try:
            self._server.renew()
        except (OSError, StepkeeperError) as error:
            problem = str(error)
            if problem != self._deaf:
                say(f"{problem}; going on without it", alarm=True)
        self._deaf = problem
