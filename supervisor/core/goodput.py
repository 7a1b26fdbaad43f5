"""How much of a run's time went into steps that count, from what is known of its attempts.

A step counts where its line stands in the ledger's canonical view, for the attempt that wrote that
line. An attempt writes from the first step that the ledger did not hold on, or from the first
replayed step that differed; a later attempt's first line takes back what it repeats.

    goodput   seconds in canonical steps / wall seconds
    seconds   by the trainer's own clock, from the report before an attempt's first canonical step
    in steps  to that of its last one, saves and evaluations between them included, waits left out
    wall      from the first attempt's start to the last one's end, or to now while the run is
    seconds   kept; without the time between attempts in which it was stopped or finished
    lost      the rest: between attempts (back-off, outages), starting (spawn to the first new
              step, replays included, and from the last report to the end), waiting (orders,
              sources, room), and voided (steps that do not count)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    """One attempt: steps after ``resumed`` up to ``last``; times in seconds since 1970.

    ``ledger_step`` is the ledger's last step when it began, ``differed`` its first replayed step
    that was not equal, or None. ``paused`` says that nobody wanted it between the attempt before
    and this one.
    """

    number: int
    resumed: int
    ledger_step: int
    last: int
    differed: int | None
    started: float
    ended: float
    paused: bool = False

    @property
    def first_new(self) -> int:
        """The first step that it wrote, if it came so far."""
        if self.differed is not None:
            return self.differed
        return max(self.resumed, self.ledger_step) + 1

    @property
    def replayed(self) -> int:
        """Steps that it ran again."""
        return max(0, min(self.last, self.ledger_step) - self.resumed)


def canonical(spans: Sequence[Span]) -> dict[int, tuple[int, int]]:
    """First and last canonical step of each attempt that has any; ``spans`` in their order."""
    found: dict[int, tuple[int, int]] = {}
    taken_back: int | None = None  # the lowest first line of the attempts behind
    for span in reversed(spans):
        first, last = span.first_new, span.last
        if last < first:
            continue
        if taken_back is not None:
            last = min(last, taken_back - 1)
        if last >= first:
            found[span.number] = (first, last)
        taken_back = first if taken_back is None else min(taken_back, first)
    return found


@dataclass(frozen=True, slots=True)
class Times:
    """An attempt's seconds by its trainer's clock; ``total`` from its first report to its last."""

    in_steps: float = 0.0
    voided: float = 0.0
    waiting: float = 0.0
    total: float = 0.0


@dataclass(frozen=True, slots=True)
class Account:
    """Where an attempt's seconds went, those before it included; ``paused`` ones are no loss."""

    in_steps: float
    between: float
    starting: float
    waiting: float
    voided: float
    paused: float

    @property
    def lost(self) -> float:
        """Seconds that went into nothing that counts."""
        return self.between + self.starting + self.waiting + self.voided


def account(span: Span, times: Times, before: float | None) -> Account:
    """The account of one attempt; ``before`` is when the one before it ended, None for the first.

    A wall clock that was set makes no time negative, nor an attempt shorter than its trainer says.
    """
    gap = max(0.0, span.started - before) if before is not None else 0.0
    wall = max(span.ended - span.started, times.total)
    return Account(
        in_steps=times.in_steps,
        between=0.0 if span.paused else gap,
        starting=max(0.0, wall - times.in_steps - times.voided - times.waiting),
        waiting=times.waiting,
        voided=times.voided,
        paused=gap if span.paused else 0.0,
    )


def goodput(accounts: Sequence[Account], after: float) -> float | None:
    """The share of canonical steps; ``after`` are wanted seconds since the last attempt's end."""
    spent = sum(a.in_steps for a in accounts)
    wall = spent + sum(a.lost for a in accounts) + after
    return spent / wall if wall > 0 else None
