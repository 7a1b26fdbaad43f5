"""The mix over time: what share of the steps each arm had in one window after the other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from supervisor.core.decimation import stretches


class Window(NamedTuple):
    """Steps ``first`` to ``last``, all under one policy."""

    first: int
    last: int
    policy: int


class Ordered(NamedTuple):
    """Steps ``first`` to ``last`` ran under these weights, shares that sum to 1."""

    first: int
    last: int
    weights: tuple[tuple[str, float], ...]


def windows(spans: Sequence[Window], most: int) -> list[Window]:
    """The spans cut into windows of about equal length: about ``most``, one for each at least."""
    total = sum(span.last - span.first + 1 for span in spans)
    found: list[Window] = []
    for span in spans:
        count = max(1, most * (span.last - span.first + 1) // max(1, total))
        cut = stretches(span.first, span.last + 1, count)
        found += [Window(first, stop - 1, span.policy) for first, stop in cut]
    return found


def drawn(fields: Mapping[str, int]) -> dict[str, float]:
    """Each arm's share of what was drawn; ``fields`` counts the ledger's arm fields.

    A field is one arm's name, or ``a=3 b=13`` for a step of that many sequences of each, which
    counts as one step in all.
    """
    counts: defaultdict[str, float] = defaultdict(float)
    for field, steps in fields.items():
        pulls = _pulls(field)
        whole = sum(pulls.values())
        for arm, pulled in pulls.items():
            counts[arm] += steps * pulled / whole if whole else 0.0
    total = sum(counts.values())
    return {arm: count / total for arm, count in counts.items()} if total else {}


def _pulls(field: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for part in field.split(" "):
        arm, _, number = part.partition("=")
        found[arm] = found.get(arm, 0) + (int(number) if number.isdecimal() else 1)
    return found


def standing(lives: Iterable[tuple[int, Sequence[Ordered]]]) -> list[Ordered]:
    """The phases that count: each life takes back what stood above the step that it resumed from.

    A life is that step and its phases, in order.
    """
    found: list[Ordered] = []
    for resumed, phases in lives:
        while found and found[-1].first > resumed:
            found.pop()
        if found and found[-1].last > resumed:
            found[-1] = found[-1]._replace(last=resumed)
        found += phases
    return found


def ordered(cuts: Sequence[Window], phases: Sequence[Ordered]) -> list[dict[str, float]]:
    """For each window the mean weights of its steps that the phases cover; empty without any.

    Both are in the order of steps.
    """
    found: list[dict[str, float]] = []
    at = 0
    for window in cuts:
        while at < len(phases) and phases[at].last < window.first:
            at += 1
        sums: defaultdict[str, float] = defaultdict(float)
        steps = 0
        for phase in phases[at:]:
            if phase.first > window.last:
                break
            shared = min(phase.last, window.last) - max(phase.first, window.first) + 1
            steps += max(0, shared)
            for arm, weight in phase.weights if shared > 0 else ():
                sums[arm] += weight * shared
        found.append({arm: weight / steps for arm, weight in sums.items()} if steps else {})
    return found
