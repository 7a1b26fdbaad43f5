"""A reload from the request to the moment when another life takes over: checked, then calm.

The program that will take over checks the settings, in a child of ours; only then is the loop
brought to rest. Nothing of it blocks the loop, and whatever fails leaves everything as it was.
"""

from __future__ import annotations

import json
import secrets
import selectors
from pathlib import Path
from typing import Any, Final

import supervisor
from supervisor import environment
from supervisor.control.server import Server
from supervisor.core.messages import Event, Signalled, TerminalGone
from supervisor.core.state import Life, State, Want
from supervisor.daemon.successor import ours
from supervisor.perform import say
from supervisor.perform.output import terminal_is_gone
from supervisor.process.answering import AnsweringChild, Said

CHECK_SECONDS: Final = 60.0
SETTLE_SECONDS: Final = 15.0
_REST: Final = 0.01  # between looks whether what was begun is done
_CALM: Final = (Life.STARTING, Life.RUNNING, Life.BACKOFF)


class Reloading:
    """Requests are numbered, so that who asked can tell what became of it.

    ``selector`` watches the checking child, as ``"check"``.
    """

    def __init__(self, run: Path, selector: selectors.BaseSelector) -> None:
        self._run = run
        self._selector = selector
        self._program = ours()
        self._child = AnsweringChild()
        self._life = secrets.token_hex(8)
        self._asked = self._checked = 0
        self._until: float | None = None
        self._stayed: tuple[int, str] = (0, "")
        self.restart = False
        self.settling = False
        self._version = ""

    def ask(self, *, restart: bool, now: float) -> dict[str, Any]:
        """Begin; one that is under way begins anew, since the settings may have changed since.

        For whoever asked: the request's number and whom it was put to.
        """
        self._asked += 1
        self.restart = self.restart or restart
        if self._child.fileno() < 0:
            self._check(now)
        return {"serial": self._asked, **self.facts()}

    def turn(
        self, state: State, server: Server, *, caught_up: bool, at_rest: bool, now: float
    ) -> bool:
        """At each turn of the loop: whether another life is to take over now.

        While ``settling`` nothing new is taken in, and what was begun is finished.
        """
        self._hear(now)
        if not self._version and not self.settling:
            return False
        calm = bool(self._version) and self._calm(state) and caught_up
        if calm != self.settling:
            self.settling, self._until = calm, now + SETTLE_SECONDS
            server.pause(paused=calm)
        if not calm or (at_rest and not server.busy):
            return calm
        if self._until is not None and now > self._until:
            self._stay(f"what was begun is not done after {SETTLE_SECONDS:.0f} s")
        return False

    def _hear(self, now: float) -> None:
        """What the checking child has said, if anything, or that it is late."""
        descriptor = self._child.fileno()
        if descriptor < 0:
            return
        said = self._child.result()
        if said is None and self._until is not None and now >= self._until:
            self._child.close()
            said = Said(1, b"its check took more than %d s" % CHECK_SECONDS)
        if said is None:
            return
        self._selector.unregister(descriptor)
        if self._asked > self._checked:
            self._check(now)
            return
        version, why = _verdict(said, self._program[0])
        if why:
            self._stay(why)
        else:
            self._version, self._until = version, None

    def due(self, now: float) -> float:
        """When the loop must come round for it at the latest."""
        if self.settling:
            return now + _REST
        return now + CHECK_SECONDS if self._until is None else max(now, self._until)

    def facts(self) -> dict[str, Any]:
        """For whoever waits for it."""
        serial, why = self._stayed
        facts = {"version": supervisor.__version__, "life": self._life}
        return {"supervisor": {**facts, "stayed": {"serial": serial, "why": why}}}

    def close(self) -> None:
        """End the child if it still runs."""
        descriptor = self._child.fileno()
        if descriptor >= 0:
            self._selector.unregister(descriptor)
        self._child.close()

    def _calm(self, state: State) -> bool:
        """Whether another life may take over now; a stop makes an end of it."""
        if state.want is Want.STOP or state.life is Life.LEAVING:
            self._stay("the run is being stopped")
            return False
        if state.trouble:
            self._stay(f"the disk must take what is written first: {state.trouble}")
            return False
        known = state.attempt is None or state.attempt.pid is not None
        return state.life in _CALM and known

    def _stay(self, why: str) -> None:
        """Nothing changes, and this is why."""
        self._stayed = (self._asked, why)
        self._version, self.restart, self._until = "", False, None
        self.close()
        say(f"cannot reload: {why}; what is in force stays", alarm=True)

    def _check(self, now: float) -> None:
        self._checked = self._asked
        self._version, self._until = "", now + CHECK_SECONDS
        command = (*self._program, "check", str(self._run), "--json")
        say(f"reloading: {self._program[0]} checks the settings")
        try:
            descriptor = self._child.start(command, environment.for_trainer())
        except OSError as error:
            self._stay(f"{command[0]} cannot be started: {error.strerror}")
            return
        self._selector.register(descriptor, selectors.EVENT_READ, "check")


def _verdict(said: Said, program: str) -> tuple[str, str]:
    """The version that found the settings good, or why they are not."""
    lines = said.output.decode("utf-8", "replace").splitlines()
    for line in reversed(lines):
        try:
            facts = json.loads(line)
        except ValueError:
            continue
        if isinstance(facts, dict) and "ok" in facts:
            problems = "; ".join(map(str, facts.get("problems", ())))
            if facts["ok"] is True and said.status == 0:
                return str(facts.get("version") or "unknown"), ""
            return "", problems or f"its check ended with {said.status}"
    last = next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")
    text = "".join(c if c.isprintable() else "?" for c in last)[:300]
    return "", f"{program} cannot check the settings ({said.status}): {text}"


def told(signalled: Signalled) -> Event:
    """HUP asks for a reload, unless it only says that our terminal is gone."""
    return TerminalGone() if signalled.name == "HUP" and terminal_is_gone() else signalled
