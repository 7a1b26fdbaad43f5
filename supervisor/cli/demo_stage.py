"""What every act of the demo stands on: waiting with the view alive, commands, claims."""

from __future__ import annotations

import shlex
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from supervisor import clock
from supervisor.cli.demo_keeper import LOG, Keeper
from supervisor.cli.demo_screen import Screen
from supervisor.cli.demo_watch import Watch
from supervisor.cli.plot import Mark
from supervisor.errors import StepkeeperError

PATIENCE = 180.0  # seconds without any news of the run
_LOOK_SECONDS = 0.05
_RUN = "{run}"
_NAME = "stepkeeper"


class StuckError(StepkeeperError):
    """What the demo waits for does not come."""


class Stage:
    """The run under the eyes of the demo. ``shown`` is the run's path as the operator wrote it.

    ``failed`` collects the claims that do not hold; ``marks`` what the plot points at.
    """

    def __init__(self, run: Path, shown: str, screen: Screen) -> None:
        self.run = run
        self.keeper = Keeper(run)
        self.watch = Watch(run)
        self.screen = screen
        self.failed: list[str] = []
        self.marks: list[Mark] = []
        self.shown = shown
        self._program = sys.argv[0] if Path(sys.argv[0]).name == _NAME else _NAME

    def claim(self, holds: object, text: str) -> None:
        """Say something about the run that was just looked up in its files, true or not."""
        if holds:
            self.screen.say(f"   ok  {text}")
        else:
            self.failed.append(text)
            self.screen.say(f"   DOES NOT HOLD  {text}")

    def until(self, condition: Callable[[], object], reason: str, *, alone: bool = False) -> None:
        """Wait with the view alive; ``alone`` expects the supervisor to be gone.

        Raises StuckError when nothing moves any more, or the supervisor ends by itself.
        """
        seen, since = (-1, -1), clock.monotonic()
        while not condition():
            self.watch.look()
            now = clock.monotonic()
            if seen != (self.watch.step, self.watch.trainer_step):
                seen, since = (self.watch.step, self.watch.trainer_step), now
            if now - since > PATIENCE:
                raise StuckError(self._stuck(reason, f"no news for {PATIENCE:.0f} s"))
            if not alone and not self.keeper.alive and not condition():
                ended = f"the supervisor has ended with exit code {self.keeper.exit_code}"
                raise StuckError(self._stuck(reason, ended))
            self.screen.show(self.watch, self._note(alone=alone))
            clock.pause(_LOOK_SECONDS)
        self.watch.look()

    def command(self, *words: str) -> int:
        """Run a command of this program on the run as an operator would; its exit code."""
        self.screen.say(f"   $ {self.line(*words)}")
        real = (words[0], str(self.run), *(w.replace(_RUN, str(self.run)) for w in words[1:]))
        with tempfile.TemporaryFile() as output:
            child = self.keeper.command(real, output)
            try:
                self.until(lambda: child.poll() is not None, f"the end of {words[0]}", alone=True)
            finally:
                if child.poll() is None:
                    child.kill()
                    child.wait()
            output.seek(0)
            text = output.read().decode("utf-8", "replace")
        for line in text.splitlines():
            self.screen.say(f"     {line}")
        return child.returncode

    def line(self, *words: str) -> str:
        """A command on this run as it is typed; ``{run}`` in a word is the run's path."""
        typed = (word.replace(_RUN, self.shown) for word in words[1:])
        return shlex.join((self._program, words[0], self.shown, *typed))

    def _note(self, *, alone: bool) -> str:
        if alone and not self.keeper.alive:
            return f"(no supervisor; the trainer is at step {self.watch.trainer_step})"
        return ""

    def _stuck(self, reason: str, why: str) -> str:
        return f"cannot go on: waited in vain for {reason}: {why}; see {self.run / LOG}"
