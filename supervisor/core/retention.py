"""Which checkpoints go after a new seal, and why each of the others stays.

Of the lineage stay: the newest two that can be resumed from, the newest ``keep_last``, the newest
``keep_audit`` of those made on a signal or a request, the first one at or after each multiple of
``keep_every``, pivot points, pinned and quarantined ones, and the point that the current attempt
resumed from until it has made two seals. While samples fail, or a rollback waits, so does the
newest from before that. What cannot be resumed from goes once ``keep_last`` newer ones can. What an
attempt left behind goes once ``keep_last`` were sealed since.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

LEAST = 2  # so many good ones stay, whatever the settings say


@dataclass(frozen=True, slots=True)
class Retention:
    """The operator's rules: counts of checkpoints, and a span of steps (0: no such rule)."""

    keep_last: int = 5
    keep_every: int = 10_000
    keep_audit: int = 10


KEEPING: Final = Retention()


class Held(NamedTuple):
    """A checkpoint that is there. ``name`` is its path under ``checkpoints/``.

    ``seal`` is its seal's digest, empty without one, ``attempt`` the one that made it. ``audit``:
    made on a signal or a request. ``good``: it can be resumed from. ``left`` is the attempt that
    left it behind, 0 for one of the lineage. ``suspect``: it is quarantined.
    """

    step: int
    name: str
    bytes: int
    seal: str = ""
    attempt: int = 0
    audit: bool = False
    good: bool = True
    left: int = 0
    suspect: bool = False


class Marks(NamedTuple):
    """What must stay: pinned steps, the seals of pivots, the current attempt's resume point.

    ``resume`` is a seal's digest, empty for an attempt that began from nothing. ``suspected`` is
    the step from which on a model may be harmed, 0 where there is none.
    """

    pins: frozenset[int] = frozenset()
    pivots: frozenset[str] = frozenset()
    attempt: int = 0
    resume: str = ""
    suspected: int = 0


class Fate(NamedTuple):
    """``why`` says by which rule it stays or goes."""

    held: Held
    why: str
    goes: bool


def judge(held: Iterable[Held], rules: Retention, marks: Marks) -> tuple[Fate, ...]:
    """The fate of each, the lineage first, newest first. Judging what stays changes nothing."""
    everything = sorted(held, key=lambda one: (one.left, -one.step, one.name))
    good = [one for one in everything if one.good and not one.left]
    reasons = _reasons(good, rules, marks)
    last = max(rules.keep_last, LEAST)
    return tuple(
        Fate(one, _marked(one, marks) or reasons[one.name], goes=False)
        if _marked(one, marks) or one.name in reasons
        else _past(one, good, last)
        for one in everything
    )


def _marked(one: Held, marks: Marks) -> str:
    """Why somebody's word keeps it, wherever it lies; empty where nobody's does."""
    if one.step in marks.pins:
        return "pinned"
    if one.suspect:
        return "quarantined, until it proves clean"
    return "a pivot point" if one.seal and one.seal in marks.pivots else ""


def _reasons(good: Sequence[Held], rules: Retention, marks: Marks) -> dict[str, str]:
    """Why good ones of the lineage stay, by name; the first reason that holds."""
    found: dict[str, str] = {}

    def keep(ones: Iterable[Held], why: str) -> None:
        for one in ones:
            found.setdefault(one.name, why)

    keep(good[:LEAST], "one of the newest two")
    made = sum(one.attempt == marks.attempt for one in good)
    if made < LEAST and marks.resume:
        keep((one for one in good if one.seal == marks.resume), "the attempt resumed from it")
    before = [one for one in good if one.step < marks.suspected]
    keep(before[:1], f"the last before step {marks.suspected}, from which on it may be harmed")
    ordinary = [one for one in good if not one.audit]
    keep(ordinary[: rules.keep_last], f"one of the last {rules.keep_last}")
    audit = [one for one in good if one.audit]
    keep(audit[: rules.keep_audit], f"one of the last {rules.keep_audit} made on request")
    if rules.keep_every:
        spans: dict[int, Held] = {}
        for one in reversed(good):
            spans.setdefault(one.step // rules.keep_every, one)
        spans.pop(0, None)
        keep(spans.values(), f"the first of {rules.keep_every} steps")
    return found


def _past(one: Held, good: Sequence[Held], last: int) -> Fate:
    """The fate of one that no rule keeps for good: some wait until enough newer ones are there."""
    if one.left:
        since = sum(other.attempt >= one.left for other in good)
        if since >= last:
            return Fate(one, f"superseded, and {last} sealed since", goes=True)
        return Fate(one, f"superseded, until {last} are sealed since ({since} now)", goes=False)
    if not one.good:
        newer = sum(other.step > one.step for other in good)
        if newer >= last:
            return Fate(one, f"not to be resumed from, and {last} newer ones are", goes=True)
        return Fate(one, f"not to be resumed from, until {last} newer ones are", goes=False)
    if one.audit:
        return Fate(one, "made on request, and enough newer ones are", goes=True)
    return Fate(one, f"older than the last {last}", goes=True)
