"""How long a trainer may be silent: a budget for each kind of work, that of a step learned.

A step's budget comes from the trainer's own seconds, so neither a supervisor that was stopped nor
a machine that slept can shrink it. What a step took once may have been an accident and counts
double; what two steps took is this trainer's way and counts by ``factor``. So one outlier does not
put a verdict off for hours, and a slow trend lifts the budget with it. A verdict that is wrong
costs a restart and the steps since the last checkpoint, a late one only time: hence ``least``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

ONCE = 2.0  # what was seen once counts double
WINDOW = 500  # steps: remembered are the last 500 to 1000
SURE_AFTER = 8  # steps measured before the budget of the first step is given up


@dataclass(frozen=True, slots=True)
class HangPolicy:
    """Seconds of silence allowed per kind of work; 0 means without limit.

    A wait has none: a mount that is away for an hour is no hang. ``import_`` begins with the
    process, ``first_step`` with the report ``ready`` (it holds warm-up), ``exit`` with the report
    ``finished``. A save's budget begins anew while bytes of a checkpoint move.
    """

    enabled: bool = True
    factor: float = 10.0
    least: float = 300.0
    first_step: float = 1800.0
    import_: float = 900.0
    load: float = 1800.0
    compile: float = 3600.0
    save: float = 900.0
    eval: float = 1800.0
    sample: float = 900.0
    wait: float = 0.0
    exit: float = 120.0

    def of(self, what: str) -> float:
        """The seconds set for an activity, ``exit`` or ``first step``."""
        names = {"import": "import_", "first step": "first_step"}
        seconds: float = getattr(self, names.get(what, what))
        return seconds


class Budget(NamedTuple):
    """``seconds`` of silence for ``what`` (an activity, step, first step or exit), and why."""

    what: str
    seconds: float
    why: str


@dataclass(frozen=True, slots=True)
class Pace:
    """How long steps take in trainer seconds: ``count`` of them, the slowest two remembered.

    ``since`` is the report from which the next step is measured; None where what comes before
    that step's report is more than a step. ``earlier`` are the slowest two of the window before.
    """

    since: float | None = None
    count: int = 0
    slowest: float = 0.0
    second: float = 0.0
    earlier: tuple[float, float] = (0.0, 0.0)

    @property
    def slowest_two(self) -> tuple[float, float]:
        """The slowest and the second slowest of all remembered."""
        *_, second, slowest = sorted((self.slowest, self.second, *self.earlier))
        return slowest, second


PATIENT = HangPolicy()
UNMEASURED = Pace()


def learn(pace: Pace, times: Iterable[float]) -> Pace:
    """Steps were reported at these trainer seconds, one after the other."""
    since, count = pace.since, pace.count
    slowest, second, earlier = pace.slowest, pace.second, pace.earlier
    for at in times:
        if since is not None:
            took = at - since
            if count % WINDOW == 0:
                earlier, slowest, second = (slowest, second), 0.0, 0.0
            count += 1
            if took > slowest:
                slowest, second = took, slowest
            elif took > second:
                second = took
        since = at
    return Pace(since, count, slowest, second, earlier)


def step_budget(policy: HangPolicy, pace: Pace) -> Budget | None:
    """The budget of a step; while few are measured, at least that of the first one."""
    slowest, second = pace.slowest_two
    learned = max(policy.least, ONCE * slowest, policy.factor * second)
    steps = pace.count if pace.count <= WINDOW else (pace.count - 1) % WINDOW + 1 + WINDOW
    why = (
        f"the slowest two of {steps} steps took {slowest:.2f} s and {second:.2f} s: "
        f"{ONCE:g} times the one, {policy.factor:g} times the other, at least {policy.least:g} s"
    )
    if pace.count >= SURE_AFTER:
        return Budget("step", learned, why)
    if not policy.first_step:
        return None
    few = f"only {pace.count} steps are measured"
    return Budget("step", max(learned, policy.first_step), f"hang.first_step, since {few}; {why}")


def set_budget(policy: HangPolicy, what: str) -> Budget | None:
    """The budget of any other work, as set; None where it has no limit."""
    seconds = policy.of(what)
    if not seconds:
        return None
    return Budget(what, seconds, f"hang.{what.replace(' ', '_')} in run.toml, or its default")
