"""How a starting supervisor stands with restarts: counted from the attempts' records alone."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from supervisor import clock
from supervisor.core.messages import Cause
from supervisor.core.restarting import Outcome, Restarts
from supervisor.core.state import SealPoint
from supervisor.sidecars import attempts
from supervisor.sidecars.attempts import AttemptModel


class Reckoning(NamedTuple):
    """``restarts`` with ``since`` on the monotonic clock of this boot.

    ``waited`` seconds have passed since the last attempt ended. ``best`` is the highest step that
    ended attempts sealed under the policy.
    """

    restarts: Restarts
    waited: float
    best: int


def reckon(run: Path, policy: int, after: int, seals: tuple[SealPoint, ...]) -> Reckoning:
    """Count the attempts numbered above ``after`` that made no progress under ``policy``.

    ``seals`` are those that the run can go on from, the newest first. What lies between the last
    attempt's end and now was an outage, perhaps, and is not counted.
    """
    records, told = attempts.without_progress(run, policy, after)
    own = (seal.point.step for seal in seals if seal.policy == policy)
    restarts = Restarts(best=max(told, next(own, -1)))
    outcomes = [_outcome(record) for record in records]
    for outcome in outcomes:
        restarts = restarts.after(outcome)
    restarts = restarts.at_rest_on(seals[0].point.step if seals else 0)
    if restarts.since is None:
        return Reckoning(restarts, 0.0, told)
    # Wall time: a clock that was set back must neither end a run nor make it wait for hours.
    spent = max(0.0, outcomes[-1].at - restarts.since)
    restarts = replace(restarts, since=clock.monotonic() - spent)
    return Reckoning(restarts, max(0.0, _seconds(clock.wall()) - outcomes[-1].at), told)


def _outcome(record: AttemptModel) -> Outcome:
    end = record.ended
    if end is None:
        raise ValueError(f"attempt {record.attempt} has not ended")
    try:
        cause = Cause(end.cause)
    except ValueError:
        cause = Cause.UNKNOWN
    resumed = record.resume.step if record.resume else 0
    return Outcome(cause, resumed, end.ready, end.sealed, _seconds(end.time))


def _seconds(time: str) -> float:
    return datetime.fromisoformat(time).timestamp()
