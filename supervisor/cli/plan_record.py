"""What a plan of a pivot can know of the run: its bandit, its phases, its attempts.

Nothing of it is needed for a plan; what cannot be read is told, and the rest is planned.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TypeVar

from supervisor.cli import standing
from supervisor.config import Config
from supervisor.core.bandit import BanditState
from supervisor.errors import StepkeeperError
from supervisor.sidecars import attempts, bandit_state
from supervisor.sidecars import phase_reports as reported
from supervisor.sidecars.checkpoints import SealRecord
from supervisor.sidecars.report_times import report_times
from trainer.contract.checkpoint_format import seal_of
from trainer.contract.wire import Phase

MOST_PHASES = 4000  # the newest, of which rewards are known
_MEASURED = 5  # attempts whose start is looked at
T = TypeVar("T")


@dataclass(slots=True)
class Known:
    """What could be read; ``unknown`` says in one line each what could not, and why."""

    bandit: BanditState | None = None
    sealed: int | None = None
    phases: tuple[Phase, ...] = ()
    save: float | None = None
    start: float | None = None
    unknown: list[str] = field(default_factory=list)

    def attempt(self, what: str, read: Callable[[], T], otherwise: T) -> T:
        """What ``read`` gives, or ``otherwise`` and a line that says why not."""
        try:
            return read()
        except (StepkeeperError, OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error).splitlines()[0]
            self.unknown.append(f"{what}: {why}")
            return otherwise


def look(config: Config, policy: int) -> Known:
    """Read what there is of the run under ``policy``, the one in force."""
    known = Known()
    run = config.run
    known.bandit = known.attempt("statistics of the arms", lambda: _state(config), None)
    none: tuple[SealRecord, ...] = ()
    sealed = known.attempt("the newest seal", lambda: standing.seals(run), none)
    if sealed:
        known.sealed = sealed[0].step
        if known.bandit is None:
            seal = sealed[0]
            known.bandit = known.attempt(
                "the bandit state of the newest seal",
                lambda: bandit_state.from_record(seal.bandit, seal_of(seal.step)),
                None,
            )
    else:
        known.unknown.append("where it would go on from: no checkpoint is sealed yet")
    if known.bandit is not None and known.bandit.policy != policy:
        known.bandit = None
    known.phases = known.attempt("rewards of the past", lambda: _phases(run, policy), ())
    known.attempt("how long a start takes", lambda: _measure(run, known), None)
    return known


def _state(config: Config) -> BanditState:
    path = config.bandit
    return bandit_state.from_record(json.loads(path.read_bytes()), str(path))


def _phases(run: Path, policy: int) -> tuple[Phase, ...]:
    """The phases under the policy, each once and as it was last reported, the newest of them."""
    found: dict[int, Phase] = {}
    for number in reversed(attempts.numbers(run)):
        record = attempts.read(run, number)
        if record.policy != policy:
            if record.policy < policy:
                break
            continue
        for report in reported.phases(standing.reports_path(run, number)):
            found.setdefault(report.phase, report)
        if len(found) >= MOST_PHASES:
            break
    return tuple(found[number] for number in sorted(found)[-MOST_PHASES:])


def _measure(run: Path, known: Known) -> None:
    """Seconds that a save took, and those from a start to the first step, as measured."""
    starts = []
    for number in reversed(attempts.numbers(run)[-_MEASURED:]):
        path = standing.reports_path(run, number)
        if known.save is None:
            known.save = reported.last_save(path)
        with report_times(path) as times:
            if times is not None and times.first is not None and times.ready is not None:
                record = attempts.read(run, number)
                first = times.at((record.resume.step if record.resume else 0) + 1)
                if first is not None:
                    starts.append(first - times.first)
    known.start = median(starts) if starts else None
