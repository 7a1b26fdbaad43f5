"""What a new supervisor makes of the simulated disk: the mirror of ``daemon.recovery``."""

from __future__ import annotations

from dataclasses import replace

from supervisor.core.bandit import fresh
from supervisor.core.beginning import Found
from supervisor.core.coherence.gate import known_at
from supervisor.core.guards import NOTHING_SEEN
from supervisor.core.guards import seed as seed_guards
from supervisor.core.messages import Cause, ReportsPosition
from supervisor.core.policy import Policy
from supervisor.core.proving import BEFORE_USE
from supervisor.core.restarting import Outcome, Restarts
from supervisor.core.state import (
    KEPT_SEALS,
    Attempt,
    Pivot,
    PivotStage,
    SealPoint,
    Settings,
    State,
)
from tests.support.world.disk import AttemptRecord, Disk, SealFile
from trainer.contract.wire import Phase, PhaseOrder, Step

STAGES = {
    "requested": PivotStage.REQUESTED,
    "stopped": PivotStage.STOPPED,
    "installed": PivotStage.INSTALLED,
}


def recover(
    disk: Disk, settings: Settings, live: frozenset[str], seed: int, now: float
) -> tuple[State, Found]:
    """The state from the newest seal, and what lived on after it."""
    seals = disk.lineage()[:KEPT_SEALS]
    head = disk.seals[max(disk.seals)] if disk.seals else None
    points = tuple(SealPoint(seal.point, seal.policy, seal.bandit, proved=False) for seal in seals)
    rolled = max(disk.skips.get(seals[0].point.seal, {}), default=0) if seals else 0
    policy = _in_force(disk)
    last = disk.attempts[max(disk.attempts)] if disk.attempts else None
    if not disk.intent or disk.intent.get("done"):
        disk.started_after = max(disk.attempts, default=0)
        disk.intent = {"want": "run", "done": False, "hold": disk.intent.get("hold", False)}
    restarts, waited = reckon(disk, policy.number, points[0].point.step if points else 0, now)
    told = restarts.best
    best = max([told, *(p.point.step for p in points if p.policy == policy.number)])
    before = points[0].bandit if points else None
    step = points[0].point.step if points else 0
    bandit = fresh(policy, live, seed + policy.number, before, step)
    if points and points[0].policy == policy.number and points[0].bandit is not None:
        bandit = points[0].bandit
    state = State(
        settings=settings,
        policy=policy,
        live=live,
        seed=seed,
        bandit=bandit,
        last_attempt=last.attempt if last else 0,
        seals=points,
        orders=disk.orders,
        gate=known_at(disk.gate, head.point.step if head else 0),
        named=_named(disk, seals[:BEFORE_USE][-1] if seals else None, policy.number, rolled),
        restarts=replace(restarts, best=best),
    )
    attempt = None
    if last is not None and last.end is None:
        attempt = _unfinished(disk, head, last, now)
        own = bool(seals) and seals[0].attempt == last.attempt
        attempt = replace(attempt, sealed=own and seals[0].point.step > told)
        if head is None or head.policy != attempt.policy:
            bandit = fresh(policy, live, seed + policy.number, before, attempt.began)
            state = replace(state, bandit=bandit)
        else:
            state = replace(state, bandit=head.bandit)
    state = replace(state, sealed_before=head is not None)
    state, attempt = _guarded(state, disk, attempt, head)
    stop = disk.intent.get("want") == "stop" and not disk.intent.get("done")
    return state, Found(attempt, _pivot(disk), stop_unfinished=stop, waited=waited)


def _guarded(
    state: State, disk: Disk, attempt: Attempt | None, head: SealFile | None
) -> tuple[State, Attempt | None]:
    """What the guards knew, from the ledger's canonical lines, and what the marks say."""
    rules = state.settings.guards
    kept = [seal for seal in disk.usable() if seal.point.seal in disk.quarantined]
    suspects = tuple(SealPoint(s.point, s.policy, s.bandit, proved=False) for s in kept)
    state = replace(state, quarantined=suspects)
    if attempt is not None and attempt.resume is not None:
        marks = disk.skips.get(attempt.resume.seal, {})
        before = [number for number in sorted(marks) if number < attempt.number]
        if before:
            attempt = replace(attempt, skip=marks[before[-1]], rolled=before[-1])
    if head is None:
        return state, attempt
    steps = [seal.point.step for seal in (*state.seals, *suspects)]
    far = min(head.point.step - sorted(steps, reverse=True)[:2][-1], rules.tail) if steps else 0
    first = max(1, head.point.step - far - rules.tail + 1)
    at = [head.point.step, *steps]
    known = seed_guards(rules, _lines(disk, first, head), at, whole=first == 1)

    def told(seal: SealPoint) -> SealPoint:
        skips = tuple(sorted(disk.skips.get(seal.point.seal, {}).items()))
        return replace(seal, guards=known.get(seal.point.step), skips=skips)

    began = known.get(attempt.began) if attempt is not None else None
    return replace(
        state,
        seals=tuple(map(told, state.seals)),
        quarantined=tuple(map(told, suspects)),
        guards=began or NOTHING_SEEN,
    ), attempt


def _lines(disk: Disk, first: int, head: SealFile) -> list[Step]:
    """What stood up to the line of the newest seal."""
    found: list[Step] = []
    lowest = head.point.step + 1
    for line in reversed(disk.ledger.lines[: head.ledger.entries]):
        if line.step < first:
            break
        if line.step < lowest:
            loss, word, arm, *_ = line.facts
            found.append(Step(0, 0.0, line.step, loss, word, arm, 0.0, "", 0, ()))
            lowest = line.step
    return found[::-1]


def _named(disk: Disk, newest: SealFile | None, policy: int, rolled: int) -> tuple[PhaseOrder, ...]:
    """Phases that ended attempts reported after the newest seal."""
    found: dict[int, PhaseOrder] = {}
    for number, record in sorted(disk.attempts.items()):
        first = max(newest.attempt if newest else 1, rolled + 1)
        if number < first or record.end is None or record.policy != policy:
            continue
        skip = newest.reports.seq if newest is not None and newest.attempt == number else 0
        for report in disk.reports.get(number, [])[skip:]:
            if isinstance(report, Phase):
                steps = report.last - report.first + 1
                found[report.phase] = PhaseOrder(report.phase, steps, report.weights)
    return tuple(found.values())


def reckon(disk: Disk, policy: int, newest: int, now: float) -> tuple[Restarts, float]:
    """Restarts as ``daemon.reckoning`` counts them, and the seconds since the last end."""
    found: list[AttemptRecord] = []
    best = -1
    for number in sorted(disk.attempts, reverse=True):
        record = disk.attempts[number]
        if record.policy != policy or number <= disk.started_after:
            break
        if record.end is None:
            continue
        best = max(best, record.end["best"])
        if record.end["sealed"]:
            break
        found.append(record)
    restarts = Restarts(best=best)
    for record in reversed(found):
        restarts = restarts.after(_outcome(record))
    restarts = restarts.at_rest_on(newest)
    if not found or restarts.since is None:
        return restarts, 0.0
    spent = found[0].closed - restarts.since
    return replace(restarts, since=now - spent), now - found[0].closed


def _outcome(record: AttemptRecord) -> Outcome:
    end = record.end or {}
    cause, ready, sealed = Cause(end["cause"]), end["ready"], end["sealed"]
    return Outcome(cause, record.resumed, ready, sealed, record.closed)


def _in_force(disk: Disk) -> Policy:
    number = max(disk.policies)
    pivot = disk.pivot
    if pivot is not None and pivot.stage != "installed" and number >= pivot.policy.number:
        number = pivot.policy.number - 1
    return disk.policies[number]


def _unfinished(disk: Disk, newest: SealFile | None, last: AttemptRecord, now: float) -> Attempt:
    own = newest if newest is not None and newest.attempt == last.attempt else None
    if newest is not None and own is None:
        assert last.resumed == newest.point.step, "the attempt to adopt resumed from another seal"
    step = own.point.step if own else last.resumed
    disk.ledger.begin(last.attempt, step)
    return Attempt(
        number=last.attempt,
        policy=last.policy,
        resume=last.resume,
        position=own.reports if own else ReportsPosition(last.attempt, 0, 0),
        last_step=step,
        started=now,
        replay_until=last.ledger_step,
        began=step,
        ready=own is not None,
        proved=own.proved if own else 0,
        sealed=own is not None,
        replay_told=own is not None and own.point.step >= last.ledger_step,
    )


def _pivot(disk: Disk) -> Pivot | None:
    found = disk.pivot
    if found is None:
        return None
    save = disk.orders.save
    return Pivot(
        stage=STAGES[found.stage],
        policy=found.policy,
        asked_step=found.asked_step,
        when=found.when,
        by=found.by,
        serial=save.serial if save and save.then == "exit" else 0,
        honoured=found.honoured,
        pin=found.pin,
    )
