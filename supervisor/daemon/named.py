"""Find the phases that dead attempts named since a seal, for the replay that follows."""

from __future__ import annotations

from pathlib import Path

from supervisor.core.messages import Reports, ReportsPosition
from supervisor.perform.spawning import reports_path
from supervisor.process.reports import Follower
from supervisor.sidecars import attempts
from supervisor.sidecars.checkpoints import SealRecord
from trainer.contract.wire import Phase, PhaseOrder


def named_phases(
    run: Path, since: SealRecord | None, policy: int, cut: int
) -> tuple[PhaseOrder, ...]:
    """Every phase reported after ``since`` by attempts that have ended, the last one's word.

    They ran as reported, whatever the bandit decides now: a repeated phase, say, or one whose
    arm was retired on the way. What attempts up to number ``cut`` did was taken back by a rewind.
    Costs a read of those reports.
    """
    first = max(since.attempt if since else 1, cut + 1)
    found: dict[int, PhaseOrder] = {}
    numbers = [number for number in attempts.numbers(run) if number >= first]
    for number in numbers:
        record = attempts.read(run, number)
        # Only the newest one may live: of an older one, the record of its end was lost.
        if record.policy != policy or (record.ended is None and number == numbers[-1]):
            continue
        position = ReportsPosition(number, 0, 0)
        if since is not None and since.attempt == number:
            position = ReportsPosition(**since.reports._asdict())
        for phase in _phases(run, position):
            found[phase.phase] = phase
    return tuple(found.values())


def _phases(run: Path, position: ReportsPosition) -> list[PhaseOrder]:
    follower = Follower(reports_path(run, position.attempt), position)
    found: list[PhaseOrder] = []
    try:
        while not follower.exhausted:
            for event in follower.poll():
                if isinstance(event, Reports):
                    found += [_order(r) for r in event.reports if isinstance(r, Phase)]
    finally:
        follower.close()
    return found


def _order(report: Phase) -> PhaseOrder:
    return PhaseOrder(report.phase, report.last - report.first + 1, report.weights)
