"""Why a step drew its arm: the decision of its phase, made once more from the record.

The state of the nearest seal before the decision, or an empty one where its policy began, and the
reports of phases from there determine the decision to the last bit. When a source went or came is
not in the reports; which arms each phase had is, so the states are reconciled to these.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from supervisor.core.bandit import (
    AHEAD,
    BanditState,
    Decision,
    decide_phase,
    freeze,
    fresh,
    learn,
    reconcile,
)
from supervisor.core.bandit.reconciling import retire_read
from supervisor.core.policy import Policy
from trainer.contract.wire import Phase, PhaseOrder

Mix = Mapping[str, float]
_FROZEN = "a guard froze the mix"


class Result(StrEnum):
    """How the recomputed phase compares with the recorded one."""

    EQUAL = "equal"
    DIFFERS = "differs"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Record:
    """What the run says of the time from a state on to the phase that is asked about.

    ``state`` is the state to begin with; of a policy's beginning it has no phase yet. ``reports``
    are phases in order. ``mixes`` are the shares of each phase as it ran or was ordered, by its
    number. ``freezes`` are steps at which a guard froze the mix.
    """

    state: BanditState
    reports: tuple[Phase, ...]
    mixes: Mapping[int, Mix]
    freezes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Change:
    """Arms that left or came between two phases; ``phase`` is the last one before it."""

    phase: int
    left: tuple[str, ...]
    joined: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Recomputed:
    """A phase decided once more: from ``state``, as ``decision``, in force as ``order``.

    ``order`` is the decision without what left between it and the phase. ``missing`` are phases
    that the reports do not hold although later ones follow.
    """

    state: BanditState
    decision: Decision
    order: PhaseOrder
    changes: tuple[Change, ...]
    missing: tuple[int, ...]


def beginning(
    policy: Policy, live: frozenset[str], seed: int, before: BanditState | None, step: int
) -> BanditState:
    """The empty state of a policy before its first phases are decided; see ``fresh``."""
    state = fresh(policy, live, seed, before, step)
    bare = replace(policy, arms=())
    return replace(fresh(bare, frozenset(), seed, before, step), arms=state.arms)


def recompute(record: Record, policy: Policy, wanted: int, recorded: Mix) -> Recomputed | None:
    """Decide phase ``wanted`` once more; None where the reports do not reach its decision.

    A source that comes or goes is seen by the trainer a phase sooner or later, depending on when
    it looked; of these courses, that of no source at all first, the first that leads to the
    ``recorded`` shares counts, else the first with their arms. A phase that had begun when an arm
    left runs as it was decided.
    """
    first: Recomputed | None = None
    begun: Recomputed | None = None
    close: Recomputed | None = None
    for course in _courses(record, wanted):
        found = _fold(record, policy, wanted, course)
        if found is None:
            continue
        shares = dict(found.order.weights)
        if shares == dict(recorded):
            return found
        if begun is None and dict(found.decision.phase.weights) == dict(recorded):
            begun = replace(found, order=found.decision.phase)
        first = first or found
        close = close or (found if shares.keys() == recorded.keys() else None)
    return begun or close or first


@dataclass(frozen=True, slots=True)
class _Course:
    """``live``: the arms there were when a phase was reported; ``frozen_after``: a step."""

    live: Mapping[int, frozenset[str]]
    frozen_after: int | None


def _courses(record: Record, wanted: int) -> Iterator[_Course]:
    seen: list[_Course] = []
    reports = [report.phase for report in record.reports]
    arms = {phase: frozenset(mix) for phase, mix in record.mixes.items()}
    last = arms.get(wanted)
    views: list[dict[int, frozenset[str]]] = [{}]
    views += (
        {phase: arms[phase + ahead] for phase in reports if phase + ahead in arms}
        for ahead in (1, AHEAD)
    )
    views += [dict.fromkeys(reports, last)] if last is not None else []
    for frozen in dict.fromkeys((*_earliest(record.freezes), None)):
        for view in views:
            course = _Course(view, frozen)
            if course not in seen:
                seen.append(course)
                yield course


def _earliest(freezes: Sequence[int]) -> tuple[int, ...]:
    """The step of the first freeze; a sample that caused it may follow the phase's report."""
    return (min(freezes), min(freezes) + 1) if freezes else ()


def _fold(record: Record, policy: Policy, wanted: int, course: _Course) -> Recomputed | None:
    state, decided = _filled(record.state, policy, wanted)
    missing: list[int] = []
    changes: list[Change] = []
    for report in record.reports:
        if report.phase >= wanted:
            break
        missing += range(state.finished + 1, report.phase)
        live = course.live.get(report.phase)
        if live is not None:
            before = _names(state)
            state, _ = reconcile(state, policy, live, report.last)
            changes += _change(report.phase, before, _names(state))
        if course.frozen_after is not None and report.last >= course.frozen_after:
            state = freeze(state, _FROZEN)
        state, more = _filled(retire_read(learn(state, policy, report), policy), policy, wanted)
        decided = more or decided
    if decided is None:
        return None
    order = next((p for p in state.phases if p.phase == wanted), decided[1].phase)
    return Recomputed(*decided, order, tuple(changes), tuple(missing))


def _filled(
    state: BanditState, policy: Policy, wanted: int
) -> tuple[BanditState, tuple[BanditState, Decision] | None]:
    """Decide what is due, and keep the decision that is wanted with the state that it was of."""
    kept = None
    while len(state.phases) < AHEAD and state.arms:
        before = state
        state, decision = decide_phase(state, policy)
        if decision.phase.phase == wanted:
            kept = before, decision
    return state, kept


def _names(state: BanditState) -> tuple[str, ...]:
    return tuple(arm.name for arm in state.arms)


def _change(phase: int, before: Iterable[str], after: Iterable[str]) -> list[Change]:
    left = tuple(name for name in before if name not in set(after))
    joined = tuple(name for name in after if name not in set(before))
    return [Change(phase, left, joined)] if left or joined else []
