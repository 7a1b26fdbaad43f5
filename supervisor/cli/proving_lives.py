"""One life of a proof: a copy of the run under a supervisor of its own, watched and ended."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Self

from supervisor import clock
from supervisor.cli import standing
from supervisor.cli.demo_keeper import LOG, Keeper
from supervisor.control.asking import request
from supervisor.errors import StepkeeperError, UnknownError
from supervisor.perform.scratch_runs import Sealed
from supervisor.perform.spawning import last_words
from supervisor.process.identity import Identity
from supervisor.process.leftovers import end_leftovers
from supervisor.sidecars import attempts
from supervisor.sidecars.checkpoints import scan
from supervisor.sidecars.ledger import canonical
from trainer.contract.wire import Phase, read_report

_LOOK_SECONDS: Final = 0.02
_ASK_SECONDS: Final = 5.0
_END_SECONDS: Final = 30.0
_ENDS_OF_ITS_OWN: Final = ("finished", "stopped")
_REFUSALS: Final = ("failed", "never ready", "broke the contract")


class LifeEndedError(StepkeeperError):
    """The trainer ended before it came as far as was asked; its message says how.

    ``chosen``: it ended by its own doing. One that was killed, or hung, or had no room says nothing
    of what it was given to resume.
    """

    def __init__(self, text: str, *, chosen: bool) -> None:
        super().__init__(text)
        self.chosen = chosen


class Life:
    """A copy in ``run``, as a context that leaves nothing running; ``tell`` hears of each step."""

    def __init__(self, run: Path, tell: Callable[[int], None]) -> None:
        self.run = run
        self._tell = tell
        self._keeper = Keeper(run)

    def __enter__(self) -> Self:
        self._keeper.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def until_sealed(self, above: int) -> Sealed:
        """Wait for the first checkpoint above a step that is sealed in this life.

        Raises LifeEndedError where the trainer ends before, or had to be started again.
        """
        while True:
            alive = self._keeper.alive
            # Asked before the seals are read: an attempt is closed only after its last seal.
            newest = (standing.last_attempt(self.run) or {}).get("attempt", 0)
            sealed = [s for s in scan(self.run / "checkpoints").sealed if s.step > above]
            # One of a later attempt is of a life that was itself resumed.
            if sealed and sealed[-1].attempt == 1:
                return Sealed(self.run, sealed[-1])
            self._refuse_an_end(newest, above, alive=alive)
            line = standing.last_line(self.run)
            if line is not None:
                self._tell(int(line["step"]))
            clock.pause(_LOOK_SECONDS)

    def _refuse_an_end(self, newest: int, above: int, *, alive: bool) -> None:
        """Raise LifeEndedError where the first attempt has ended, or nobody keeps the copy."""
        ended = attempts.read(self.run, 1).ended if newest else None
        if ended is None and newest <= 1 and alive:
            return
        if ended is not None and ended.cause in _ENDS_OF_ITS_OWN:
            raise LifeEndedError(
                f"its trainer has {ended.cause} at step {ended.last_step}, without a checkpoint "
                f"above step {above}",
                chosen=True,
            )
        if ended is not None:
            said = last_words(self.run, 1)
            raise LifeEndedError(
                f"its trainer ended ({ended.cause})" + (f": {said}" if said else ""),
                chosen=ended.cause in _REFUSALS and (ended.status or 0) >= 0,
            )
        raise LifeEndedError(f"its supervisor ended: {_last_line(self.run / LOG)}", chosen=False)

    def end(self) -> None:
        """End its supervisor, its trainer and all that they started. Raises UnknownError."""
        if self._keeper.alive:
            with contextlib.suppress(UnknownError):
                request(self.run, "stop", {"now": True}, _ASK_SECONDS)
                self._await_end()
        self._keeper.kill()
        end_all_of(self.run)

    def _await_end(self) -> None:
        deadline = clock.monotonic() + _END_SECONDS
        while self._keeper.alive and clock.monotonic() < deadline:
            clock.pause(_LOOK_SECONDS)

    def said(self, text: str) -> bool:
        """Whether its trainer printed a line with this text."""
        try:
            return text.encode() in (attempts.folder(self.run, 1) / "output.log").read_bytes()
        except OSError:
            return False

    def steps(self) -> dict[int, dict[str, Any]]:
        """The ledger's lines by step."""
        path = standing.ledger_path(self.run)
        return {entry.fields["step"]: entry.fields for entry in canonical(path)}

    def phases(self, span: range) -> list[Phase]:
        """What its trainer reported of phases that ended in ``span``."""
        try:
            lines = standing.reports_path(self.run, 1).read_bytes().split(b"\n")[:-1]
        except FileNotFoundError:
            return []
        found = [read_report(line) for line in lines if b'"report":"phase"' in line]
        return [
            report._replace(seq=0, at=0.0)
            for report in found
            if isinstance(report, Phase) and report.last in span
        ]


def end_all_of(run: Path) -> None:
    """End every process of this copy's trainers. Raises UnknownError where one outlives that."""
    record = attempts.last(run)
    known = (Identity(**record.identity.model_dump()),) if record and record.identity else ()
    try:
        end_leftovers(run, known, grace=0.0)
    except TimeoutError as error:
        raise UnknownError(str(error)) from None


def _last_line(path: Path) -> str:
    try:
        lines = path.read_text("utf-8", "replace").split("\n")
    except OSError:
        return "it said nothing"
    last = next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")
    # Behind the time that each line begins with.
    return last.partition("Z ")[2] or last
