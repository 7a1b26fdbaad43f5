"""Guards on the loss: a fold over the steps that finds what a person should know of.

    nonfinite   a loss that is no number
    spike       a loss far above its arm's own (``spiking``)
    divergence  the smoothed loss stays above its lowest (``levels``)
    plateau     the smoothed loss has not come down (``levels``)

What was found goes on until it is over, and is told once. A loss that is not finite or spikes
begins a suspicion as well: what is saved from there on may hold a harmed model, until the loss has
been good for ``quarantine_steps`` in a row and is back at the level of before, arm by arm.

What is kept follows from the last ``tail`` steps alone, so that a new supervisor, which reads so
many from the ledger, goes on as the old one would have.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from supervisor.core.guard_rules import LOOK, SPAN, Guards
from supervisor.core.levels import BLOCK, Block, Sums, closed, rise, shares
from supervisor.core.spiking import BUCKET, Reference, Window, reference
from trainer.contract.wire import Step

NONFINITE, SPIKE, DIVERGENCE, PLATEAU = "nonfinite", "spike", "divergence", "plateau"
BACK = 1.0  # robust deviations above the level of before, on average, that are as good as before
_LARGE = 1e30  # beyond it, sums and their squares would leave what a float holds
_LARGE_TO_READ = 1e6
MIXED = "several"  # the arm of a step whose sequences drew their own


class Finding(NamedTuple):
    """What a guard found at ``step``, in words and as JSON values."""

    guard: str
    step: int
    text: str
    facts: dict[str, Any]


class Suspicion(NamedTuple):
    """What began at step ``first``; ``last`` is the last loss that was not finite or spiked.

    ``before`` are the arms' references of then. ``judged`` losses since had the score ``total``.
    """

    first: int
    last: int
    why: str
    before: dict[str, Reference]
    since: int
    judged: int = 0
    total: float = 0.0


@dataclass(frozen=True, slots=True)
class GuardState:
    """What the guards know at a step: a value that is never changed, its dicts included.

    ``sums`` are of the block in progress. ``bad`` maps open findings to the last step that showed
    them. ``cleared`` is the step at which the last suspicion was over, 0 where none is remembered.
    """

    windows: dict[str, Window] = field(default_factory=dict)
    blocks: tuple[Block, ...] = ()
    sums: Sums = field(default_factory=lambda: Sums({}, {}))
    rising: int = 0
    bad: dict[str, int] = field(default_factory=dict)
    suspicion: Suspicion | None = None
    cleared: int = 0


NOTHING_SEEN = GuardState()


def watch(
    state: GuardState, rules: Guards, steps: Iterable[Step]
) -> tuple[GuardState, list[Finding]]:
    """Fold these steps, which follow each other; what was found that is new."""
    fold = _Fold(state, rules)
    for step in steps:
        fold.take(step)
    return fold.state(), fold.findings


def seed(
    rules: Guards, steps: Sequence[Step], at: Iterable[int], *, whole: bool = False
) -> dict[int, GuardState]:
    """The state at those of the steps ``at`` of which it can be told what ``watch`` came to.

    ``steps`` are in order, the canonical ones of a ledger. From the last ``rules.tail`` steps on it
    can be told, and from all there are: ``whole`` says that none is before these.
    """
    if not steps:
        return {}
    known_from = 0 if whole else steps[0].step + rules.tail - 1
    wanted = {step for step in at if step >= known_from}
    found: dict[int, GuardState] = {}
    fold = _Fold(NOTHING_SEEN, rules)
    # The windows of the first steps lack what was before: what they show is not to be believed.
    sure = 0 if whole else steps[0].step + SPAN
    for step in steps:
        fold.take(step)
        if step.step == sure:
            fold.forget()
        if step.step in wanted:
            found[step.step] = fold.state()
    return found


class _Fold:
    """The working copy: lists and dicts that are its own until ``state`` is asked for."""

    def __init__(self, state: GuardState, rules: Guards) -> None:
        self.findings: list[Finding] = []
        self._rules = rules
        self._windows = dict(state.windows)
        self._blocks = state.blocks
        self._sums = state.sums.copy()
        self._rising = state.rising
        self._bad = dict(state.bad)
        self._suspicion = state.suspicion
        self._cleared = state.cleared

    def state(self) -> GuardState:
        """What is known now."""
        return GuardState(
            dict(self._windows),
            self._blocks,
            self._sums.copy(),
            self._rising,
            dict(self._bad),
            self._suspicion,
            self._cleared,
        )

    def forget(self) -> None:
        """Drop what was found so far."""
        self._bad.clear()
        self._suspicion, self._cleared = None, 0

    def take(self, step: Step) -> None:
        """One more step."""
        arm = MIXED if "=" in step.arm else step.arm
        if step.loss is None:
            text = f"the loss of step {step.step} is {step.nonfinite} (arm {step.arm or 'unnamed'})"
            self._suspect(NONFINITE, step, text, {"loss": step.nonfinite})
        else:
            self._judge(step, arm, step.loss)
        if self._bad:
            self._calm(step.step)
        if self._suspicion is not None:
            self._clear(self._suspicion, step, arm)
        if step.step % BLOCK == 0:
            self._close(step.step)

    def _judge(self, step: Step, arm: str, loss: float) -> None:
        rules = self._rules.spike
        losses, bucket, known = self._windows.get(arm) or Window()
        if bucket != step.step // BUCKET:
            bucket = step.step // BUCKET
            known = reference([value for _, value in losses], rules.floor, rules.least)
        if known is not None and known.score(loss) > rules.threshold:
            score = round(known.score(loss), 1)
            text = (
                f"the loss of step {step.step} is {_shown(loss)} (arm {step.arm or 'unnamed'}): "
                f"{score:g} robust deviations above {_shown(known.median)}, the median of before"
            )
            facts = {"loss": loss, "median": known.median, "score": score}
            self._suspect(SPIKE, step, text, facts)
        self._windows[arm] = Window((*losses, (step.step, loss))[-rules.window :], bucket, known)
        self._sums.add(shares(step.arm), min(max(loss, -_LARGE), _LARGE))

    def _suspect(self, guard: str, step: Step, text: str, facts: dict[str, Any]) -> None:
        if guard not in self._bad:
            self.findings.append(
                Finding(guard, step.step, text, {"step": step.step, "arm": step.arm, **facts})
            )
        self._bad[guard] = step.step
        if not self._rules.quarantine_steps:
            return
        if self._suspicion is None:
            before = self._references()
            self._suspicion = Suspicion(step.step, step.step, text, before, step.step)
        else:
            self._suspicion = self._suspicion._replace(
                last=step.step, since=step.step, judged=0, total=0.0
            )

    def _references(self) -> dict[str, Reference]:
        rules = self._rules.spike
        found = {
            arm: reference([value for _, value in window.losses], rules.floor, rules.least)
            for arm, window in self._windows.items()
        }
        return {arm: known for arm, known in found.items() if known is not None}

    def _calm(self, step: int) -> None:
        """An event is over once so many steps showed nothing of it."""
        for guard in (NONFINITE, SPIKE):
            if guard in self._bad and step - self._bad[guard] >= self._rules.calm:
                del self._bad[guard]

    def _clear(self, open_: Suspicion, step: Step, arm: str) -> None:
        """Whether the loss has been good for long enough, and is where it was."""
        before = open_.before.get(arm)
        if before is not None and step.loss is not None and step.step > open_.last:
            judged, total = open_.judged + 1, open_.total + before.score(step.loss)
            open_ = open_._replace(judged=judged, total=total)
        if step.step - open_.since >= self._rules.quarantine_steps:
            if open_.total <= BACK * open_.judged:
                self._suspicion, self._cleared = None, step.step
                return
            open_ = open_._replace(since=step.step, judged=0, total=0.0)
        self._suspicion = open_

    def _close(self, last: int) -> None:
        """The end of a block: what is too old is forgotten, and the level is looked at."""
        if self._cleared <= last - LOOK:
            self._cleared = 0
        for arm, window in list(self._windows.items()):
            if window.losses[0][0] <= last - SPAN:
                kept = tuple(one for one in window.losses if one[0] > last - SPAN)
                if kept:
                    self._windows[arm] = window._replace(losses=kept)
                else:
                    del self._windows[arm]
        block = closed(self._blocks, last, self._sums)
        self._sums = Sums({}, {})
        self._blocks = (*self._blocks, block)[-self._rules.blocks :]
        self._diverging(block)
        self._on_a_plateau(block)

    def _diverging(self, now: Block) -> None:
        rules = self._rules.divergence
        worst, low = 0.0, now
        for then in self._blocks:
            if then.last >= now.last - rules.window:
                above = rise(now, then)
                if above is not None and above > worst:
                    worst, low = above, then
        enough = rules.steps // BLOCK + 1
        self._rising = min(self._rising + 1, enough) if worst > rules.margin else 0
        if self._rising < enough:
            self._bad.pop(DIVERGENCE, None)
            return
        text = (
            f"the smoothed loss is {worst:.1%} above that of step {low.last}, "
            f"and was above {rules.margin:.1%} for {rules.steps} steps"
        )
        self._level(DIVERGENCE, now.last, text, {"above": worst, "lowest": low.last})

    def _on_a_plateau(self, now: Block) -> None:
        rules = self._rules.plateau
        then = next((b for b in self._blocks if b.last == _back(now.last, rules.steps)), None)
        above = rise(now, then) if then is not None else None
        if above is None or -above >= rules.margin:
            self._bad.pop(PLATEAU, None)
            return
        text = (
            f"the smoothed loss came down by {max(-above, 0.0):.2%} in {rules.steps} steps, "
            f"less than {rules.margin:.2%}"
        )
        self._level(PLATEAU, now.last, text, {"above": above, "steps": rules.steps})

    def _level(self, guard: str, step: int, text: str, facts: dict[str, Any]) -> None:
        if guard not in self._bad:
            self.findings.append(Finding(guard, step, text, {"step": step, **facts}))
        self._bad[guard] = step


def _shown(loss: float) -> str:
    """Of a size that a line and a seal can hold."""
    return f"{loss:.4f}" if abs(loss) < _LARGE_TO_READ else f"{loss:.5g}"


def _back(step: int, steps: int) -> int:
    """The end of a block so many steps earlier, or a little more."""
    return (step - steps) // BLOCK * BLOCK
