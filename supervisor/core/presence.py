"""When a source that came back is an arm again: at once, but later each time if it keeps leaving.

An arm whose source is gone leaves at once, for its pulls would fail. Every return begins an empty
arm, which costs exploration and a line of the journal; so one that leaves again and again waits
30 s, then twice that each time, at most an hour.
"""

from __future__ import annotations

from typing import Final, NamedTuple

FIRST: Final = 30.0  # seconds
MOST: Final = 3600.0
CALM: Final = 3600.0  # stayed so much longer than it had to wait: it begins with no wait again


class Absence(NamedTuple):
    """An arm that left at ``at``, on the monotonic clock; ``times`` before that, lately."""

    arm: str
    times: int
    at: float


def leaves(known: tuple[Absence, ...], arm: str, now: float) -> tuple[Absence, ...]:
    """The absences with this one."""
    before = next((a for a in known if a.arm == arm), None)
    calm = before is None or now - before.at > _wait(before) + CALM
    absence = Absence(arm, 0 if before is None or calm else before.times + 1, now)
    return (*(other for other in known if other.arm != arm), absence)


def may_join(known: tuple[Absence, ...], arm: str, now: float) -> bool:
    """Whether an arm that was away, and whose source is there, is to be one again."""
    absence = next((a for a in known if a.arm == arm), None)
    return absence is None or now - absence.at >= _wait(absence)


def _wait(absence: Absence) -> float:
    return min(MOST, FIRST * 2.0 ** min(absence.times - 1, 32)) if absence.times else 0.0
