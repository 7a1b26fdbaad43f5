"""The gate: rules over the verdicts of many steps, as a fold that can be cut at any step.

All samples of one step come from the same weights, so a step is one outcome: it fails where more
than half of its judged samples do. Five failing in a row, K failing of the last N, and a sum of log
odds (CUSUM) each say that the model has collapsed. An episode begins with the first rule that
fires, and ends when all are quiet again: no failing outcome at the end, fewer than K of N, the sum
back at 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final, NamedTuple

from supervisor.core.coherence.judging import Bar, Judged, Said, Verdict, judge, unjudged
from supervisor.core.coherence.sketch import Sketch
from supervisor.core.rungs import Action

KEPT: Final = 256  # outcomes: more than any rule looks at, so that a cut leaves enough
COMPARED: Final = 8  # steps back that a sample is compared with
SKETCHED: Final = 4  # samples of a step that later ones are compared with
JUDGED: Final = 32  # samples of a step that are looked at
HELD: Final = 64  # samples of a step that wait for its end, before they are kept as they are
BLIND: Final = 5  # outcomes in a row that nobody could judge


@dataclass(frozen=True, slots=True)
class Rules:
    """The gate's settings. ``every`` is the cadence of samples in steps, 0 without one.

    Outcomes of steps up to ``after`` count in no rule. A rule whose threshold (``in_a_row``,
    ``failing``, ``cusum``) is 0 never fires. ``healthy`` and ``collapsed`` are the shares of
    failing outcomes that the sum tells apart. ``action`` is a rung of the ladder.
    """

    every: int = 0
    after: int = 2000
    min_tokens: int = 32
    fail_below: float = 30.0
    in_a_row: int = 5
    failing: int = 7
    window: int = 25
    cusum: float = 9.0
    healthy: float = 0.05
    collapsed: float = 0.3
    action: Action = Action.ALERT
    words: frozenset[str] | None = None

    @property
    def bar(self) -> Bar:
        """What a sample has to reach."""
        return Bar(self.min_tokens, self.fail_below, self.words)


WATCHING: Final = Rules()


class Outcome(NamedTuple):
    """All samples of one step. ``score`` is the mean of those judged, None without any.

    ``sum`` is the CUSUM behind it. ``firing`` names the rules of the episode under way, and is
    empty without one. ``sketches`` are by the prompt's place among the step's samples.
    """

    step: int
    attempt: int
    judged: int
    failed: int
    score: float | None
    verdict: str
    counts: bool
    sum: float
    firing: str
    sketches: tuple[Sketch, ...]


class Open(NamedTuple):
    """The step whose samples are coming in. ``waiting`` are those not kept yet."""

    step: int
    attempt: int
    judged: int = 0
    failed: int = 0
    total: float = 0.0
    seen: int = 0
    waiting: tuple[Judged, ...] = ()
    sketches: tuple[Sketch, ...] = ()
    late: bool = False


@dataclass(frozen=True, slots=True)
class GateState:
    """Outcomes, oldest first; the step whose samples come in now; the cadence that was missed.

    ``missing`` is the first step of a gap in which a sample was due and none came, or None.
    """

    outcomes: tuple[Outcome, ...] = ()
    open: Open | None = None
    missing: int | None = None

    @property
    def last(self) -> Outcome | None:
        """The newest outcome."""
        return self.outcomes[-1] if self.outcomes else None

    @property
    def firing(self) -> str:
        """The rules of the episode under way, or nothing."""
        return self.outcomes[-1].firing if self.outcomes else ""

    @property
    def blind(self) -> int:
        """Outcomes at the end, of those that count, that nobody could judge."""
        blind = 0
        for outcome in reversed(self.outcomes):
            if not outcome.counts or outcome.judged:
                break
            blind += 1
        return blind


NOTHING_SAMPLED: Final = GateState()


def sampled(gate: GateState, rules: Rules, said: Said, attempt: int, *, newest: int) -> GateState:
    """A sample came in. One that is not of the ``newest`` step done has no say in the rules."""
    opened = gate.open
    if opened is None or opened.step != said.step:
        last = gate.last
        late = said.step != newest or (last is not None and last.step >= said.step)
        opened = Open(said.step, attempt, late=late)
    if opened.seen >= JUDGED:
        kept: tuple[Judged, Sketch] = unjudged(said), ()
    else:
        kept = judge(said, rules.bar, _earlier(gate, said.step, opened.seen))
    judged, own = kept
    counted = judged.verdict in (Verdict.PASS, Verdict.FAIL)
    opened = opened._replace(
        judged=opened.judged + counted,
        failed=opened.failed + (judged.verdict == Verdict.FAIL),
        total=opened.total + (dict(judged.scores)["score"] if counted else 0.0),
        seen=opened.seen + 1,
        waiting=(*opened.waiting, judged),
        sketches=(*opened.sketches, own)[:SKETCHED],
    )
    return replace(gate, open=opened)


def closed(gate: GateState, rules: Rules) -> GateState:
    """The step whose samples came in is over: its outcome enters the rules."""
    opened = gate.open
    if opened is None:
        return gate
    gate = replace(gate, open=None)
    if opened.late:
        return gate
    verdict = Verdict.FAIL if 2 * opened.failed > opened.judged else Verdict.PASS
    outcome = Outcome(
        opened.step,
        opened.attempt,
        opened.judged,
        opened.failed,
        round(opened.total / opened.judged, 4) if opened.judged else None,
        str(verdict if opened.judged else Verdict.CANNOT),
        opened.step > rules.after,
        gate.last.sum if gate.last else 0.0,
        gate.firing,
        opened.sketches,
    )
    return replace(gate, outcomes=with_outcome(gate.outcomes, outcome, rules), missing=None)


def with_outcome(
    outcomes: tuple[Outcome, ...], outcome: Outcome, rules: Rules
) -> tuple[Outcome, ...]:
    """The newest outcome with what the rules make of it; ``sum`` and ``firing`` come as before."""
    if outcome.counts and outcome.judged:
        failed = outcome.verdict == Verdict.FAIL
        rise = min(max(outcome.sum + log_odds(rules, failed=failed), 0.0), max(rules.cusum, 0.0))
        outcome = outcome._replace(sum=rise)
    outcomes = _newest((*outcomes, outcome))
    standing = standing_of(outcomes, rules)
    firing = " and ".join(rule.name for rule in standing if rule.fires)
    before = outcome.firing
    if not firing and before and not all(rule.quiet for rule in standing):
        firing = before
    return (*outcomes[:-1], outcome._replace(firing=firing))


def _newest(outcomes: tuple[Outcome, ...]) -> tuple[Outcome, ...]:
    """As many as are kept, and those with which the episode and the sum under way began."""
    older = outcomes[:-KEPT]
    begun = {_first(outcomes, lambda one: bool(one.firing)), _first(outcomes, lambda one: one.sum)}
    return (*(one for at, one in enumerate(older) if at in begun), *outcomes[-KEPT:])


def _first(outcomes: tuple[Outcome, ...], holds: Callable[[Outcome], float]) -> int:
    """Where those at the end begin of which ``holds`` is true."""
    at = len(outcomes)
    while at and holds(outcomes[at - 1]):
        at -= 1
    return at


def log_odds(rules: Rules, *, failed: bool) -> float:
    """What one outcome adds to the sum."""
    one, other = rules.collapsed, rules.healthy
    return math.log(one / other) if failed else math.log((1 - one) / (1 - other))


class Rule(NamedTuple):
    """Where a rule stands: it fires at ``at`` or above."""

    name: str
    now: float
    at: float
    quiet: bool

    @property
    def fires(self) -> bool:
        """Whether it says that the model has collapsed."""
        return self.now >= self.at


def standing_of(outcomes: tuple[Outcome, ...], rules: Rules) -> tuple[Rule, ...]:
    """The standing of each rule that is not off, behind the newest outcome."""
    counted = (o for o in reversed(outcomes) if o.counts and o.judged)
    newest = [
        outcome.verdict == Verdict.FAIL
        for outcome in islice(counted, max(rules.window, rules.in_a_row))
    ]
    run = next((at for at, failed in enumerate(newest) if not failed), len(newest))
    several = sum(newest[: rules.window])
    total = outcomes[-1].sum if outcomes else 0.0
    found = (
        Rule(f"{rules.in_a_row} in a row", run, rules.in_a_row, quiet=run == 0),
        Rule(
            f"{rules.failing} of {rules.window}",
            several,
            rules.failing,
            quiet=several < rules.failing,
        ),
        Rule(f"cusum {rules.cusum:g}", total, rules.cusum, quiet=total == 0),
    )
    return tuple(rule for rule in found if rule.at > 0)


def known_at(gate: GateState, step: int) -> GateState:
    """What was known at ``step``: everything of later steps is dropped."""
    outcomes = tuple(outcome for outcome in gate.outcomes if outcome.step <= step)
    missing = gate.missing if gate.missing is not None and gate.missing <= step else None
    return GateState(outcomes, None, missing)


def missed(gate: GateState, rules: Rules, first: int, last: int, start: int) -> int | None:
    """The first cadence that went by without a sample, told when its next step is done.

    ``first`` to ``last`` are steps just done, ``start`` is the step that the attempt began
    behind. A sample between two cadences is as good as one at the second.
    """
    every = rules.every
    if not every or gate.missing is not None:
        return None
    seen = gate.last.step if gate.last else 0
    due = -(-max(first - 1, start + 1, seen + every) // every) * every
    return due if due < last else None


def _earlier(gate: GateState, step: int, place: int) -> list[Sketch]:
    """Sketches of the samples in the same place of the newest steps before ``step``."""
    return [
        outcome.sketches[place]
        for outcome in islice(reversed(gate.outcomes), COMPARED)
        if outcome.step < step and place < len(outcome.sketches)
    ]
