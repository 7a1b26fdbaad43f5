"""What histories of pivots have in common: a trainer that is asked, and one that obeys."""

from __future__ import annotations

from supervisor.core.messages import AdvancePivot
from supervisor.core.state import PivotStage
from tests.support.history import History, fresh_state, running, with_seals


def stages(history: History) -> list[str]:
    """The stages that were to be made durable, in order."""
    return [effect.stage for effect in history.all_of(AdvancePivot)]


def stage_of(history: History) -> PivotStage | None:
    """Where the pivot stands."""
    return history.state.pivot.stage if history.state.pivot else None


def serial_of(history: History) -> int:
    """The serial of the order that the trainer is to answer."""
    assert history.state.pivot is not None
    return history.state.pivot.serial


def asked_at(step: int, when: str = "boundary") -> History:
    """A ready trainer at ``step`` with a seal below it, ordered to save and to leave."""
    history = running(step, with_seals(fresh_state(), step // 100 * 100))
    history.pivot(when)
    return history


def ordered_exit(history: History, step: int) -> None:
    """The trainer does as ordered at ``step``: saves, reports the order's serial, and leaves."""
    assert history.state.attempt is not None
    if step > history.state.attempt.last_step:
        history.steps(history.state.attempt.last_step + 1, step)
    history.checkpoint(step, "cadence", save=serial_of(history))
    history.finished("order")
    history.end(status=0)
    history.verified(step)
    history.sealed(step)
