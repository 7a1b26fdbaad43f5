"""Ask whoever keeps a run, and wait for what the request does to the run's files."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from supervisor import clock
from supervisor.cli import printing, standing
from supervisor.control.asking import NobodyAnswersError, request
from supervisor.errors import StepkeeperError, UnknownError

T = TypeVar("T")
ANSWER_SECONDS = 20.0
STARTING_SECONDS = 20.0  # from the lock to the socket: the ledger is read back in between
ABSENCE_SECONDS = 10.0  # a supervisor that is being restarted comes back within
PATIENCE_SECONDS = 5.0
_POLL = 0.05
_TRAINED = ("starting", "running", "stopping")  # lives in which there is a trainer to end


def ask(run: Path, verb: str, fields: dict[str, Any]) -> dict[str, Any] | None:
    """The supervisor's answer, or None where there is no supervisor.

    Raises StepkeeperError where it refuses, UnknownError where it does not answer.
    """
    deadline = clock.monotonic() + STARTING_SECONDS
    while standing.supervised(run):
        try:
            answer = request(run, verb, fields, ANSWER_SECONDS)
        except NobodyAnswersError:
            if clock.monotonic() > deadline:
                raise
            clock.pause(_POLL)
            continue
        if "error" in answer:
            raise StepkeeperError(str(answer["error"]))
        return answer
    return None


@contextlib.contextmanager
def interruptible(what_stands: str) -> Iterator[None]:
    """Turn Ctrl-C into what became of the request, and what to do."""
    try:
        yield
    except KeyboardInterrupt:
        raise UnknownError(f"cannot wait any longer: interrupted; {what_stands}") from None


def wait(look: Callable[[], T | None], patience: Patience | None = None) -> T:
    """The first result of ``look`` that is not None; it raises where waiting is in vain."""
    while (found := look()) is None:
        clock.pause(_POLL)
        if patience is not None:
            patience.turn()
    return found


class Patience:
    """Says on stderr what a command waits for, once that takes longer than one expects."""

    def __init__(self, run: Path, advice: str = "") -> None:
        self._run = run
        self._advice = advice
        self._next = clock.monotonic() + PATIENCE_SECONDS
        self._said = ""

    def turn(self) -> None:
        """To be called again and again; says each thing once."""
        if clock.monotonic() < self._next:
            return
        self._next = clock.monotonic() + PATIENCE_SECONDS
        try:
            facts = request(self._run, "status", {}, 1.0)
        except UnknownError:
            return
        trouble, life = facts.get("trouble"), str(facts.get("life"))
        doing = (facts.get("attempt") or {}).get("doing") if life in _TRAINED else None
        parts = [f"waiting: the run is {life}", *([f"doing {doing}"] if doing else [])]
        parts += [f"training is held: {trouble}"] if trouble else []
        text = ", ".join(parts) + (self._advice if life in _TRAINED else "")
        if text != self._said:
            printing.note(text)
            self._said = text


class Absence:
    """Notices that a run has had no supervisor for longer than a restart takes."""

    def __init__(self, run: Path) -> None:
        self._run = run
        self._since: float | None = None

    def too_long(self) -> bool:
        """Whether that is so; to be asked again and again."""
        if standing.supervised(self._run):
            self._since = None
            return False
        now = clock.monotonic()
        self._since = now if self._since is None else self._since
        return now - self._since > ABSENCE_SECONDS


def visit(
    run: Path, verb: str, fields: dict[str, Any], environ: dict[str, str] | None = None
) -> None:
    """Save or stop a trainer that nobody supervises: adopt it, act, seal, leave.

    A service manager that ``environ`` names is asked for more time meanwhile.
    Raises StepkeeperError where that fails, UnknownError where it is interrupted.
    """
    # Imported here: nothing of it is needed where a supervisor answers.
    from supervisor.config import begin_with  # noqa: PLC0415 - see above
    from supervisor.core.messages import Asked  # noqa: PLC0415 - see above
    from supervisor.daemon import Daemon  # noqa: PLC0415 - see above
    from supervisor.daemon.errand import INTERRUPTED  # noqa: PLC0415 - see above
    from supervisor.perform import unattended  # noqa: PLC0415 - see above

    unattended.refuse_a_stranger(run, verb)
    asked = Asked(0, verb, {**fields, "by": f"{unattended.by()}, without a supervisor"})
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        code = Daemon(begin_with(run, keep=True)[0], environ or {}, asked).run()
    if code == INTERRUPTED:
        raise KeyboardInterrupt
    if code:
        alarms = [line for line in said.getvalue().splitlines() if "ALARM: " in line]
        last = alarms[-1].partition("ALARM: ")[2] if alarms else "it ended without a reason"
        raise StepkeeperError(last if last.startswith("cannot") else f"cannot {verb} {run}: {last}")
