"""The lives of a proof one after the other, each in a new copy, and what is compared of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from supervisor.cli.proving_lives import Life, LifeEndedError
from supervisor.cli.proving_plan import Plan
from supervisor.cli.proving_view import View
from supervisor.core import resume_verdict as judged
from supervisor.core.resume_verdict import Comparison, Control
from supervisor.errors import UnknownError
from supervisor.perform import scratch_runs
from supervisor.perform.scratch_runs import Origin, Sealed
from supervisor.sidecars.checkpoints.comparing import compared
from trainer.contract.checkpoint_format import Companion, form_of

_LEFT_OUT: Final = "STEPKEEPER_OMIT asks"  # what a trainer says that does as it was asked


class Trial:
    """``take_place`` fills the rest.

    ``repeated`` compares two lives before the cut, ``resumed`` the resumed one behind it with the
    uninterrupted one; ``controls`` are the lives without a state; ``cut_at`` and ``last`` the steps
    at which all that was. ``keep``: the copies stay. ``unchanged``, called after each life, raises
    where it is no longer the same run that is proved.
    """

    def __init__(
        self,
        origin: Origin,
        plan: Plan,
        place: Path,
        view: View,
        unchanged: Callable[[], None],
        *,
        keep: bool,
    ) -> None:
        self.plan = plan
        self.cut_at, self.last = plan.cut, plan.last
        self.repeated: list[Comparison] = []
        self.resumed: list[Comparison] = []
        self.controls: list[Control] = []
        self.companion: Companion | None = None
        self._origin = origin
        self._place = place
        self._view = view
        self._unchanged = unchanged
        self._keep = keep

    def take_place(self) -> None:
        """Train. Raises UnknownError where a life does not come as far as it must, OSError."""
        plan = self.plan
        shorter, longer = self._place / "cut", self._place / "continuous"
        self._begin_both(shorter, longer)
        cut_life, cut = self._live("cut", shorter, plan.began, plan.cut)
        self.cut_at = cut.seal.step
        # A trainer that saves when it likes is compared where it does.
        continuous, end = self._live("continuous", longer, self.cut_at, plan.last)
        self.last = end.seal.step
        self.companion = end.companion()
        self._continuous, self._end, self._cut = continuous, end, cut
        self._between = bool(cut_life.phases(range(self.cut_at, self.cut_at + 1)))
        before = range(plan.began + 1, self.cut_at + 1)
        steps = judged.steps("steps before the cut", continuous.steps(), cut_life.steps(), before)
        self.repeated = [steps]
        self._resume()
        for state in judged.CONTROLS:
            if judged.unequal((*self.repeated, *self.resumed)):
                control = Control(state, judged.LEFT, "the whole resume does not hold")
            else:
                control = self._without(state)
            self.controls.append(control)
            self._view.say(f"   without {state}: {control.result}")

    def _begin_both(self, shorter: Path, longer: Path) -> None:
        """Before either lives: a run that trains on deletes what they begin from."""
        plan, origin = self.plan, self._origin
        try:
            scratch_runs.begin(origin, plan.start, shorter, plan.half)
            scratch_runs.begin(origin, plan.start, longer, 2 * plan.half)
        except FileNotFoundError as error:
            raise UnknownError(
                f"cannot prove {origin.run}: {error.filename} was there and is gone; where the run "
                "deletes its checkpoints so soon, pin one and give its step with --at"
            ) from None

    def _live(self, what: str, run: Path, above: int, last: int) -> tuple[Life, Sealed]:
        """One life to its first checkpoint above a step. Raises UnknownError."""
        life = Life(run, lambda step: self._view.at(what, step, last, 2 * self.plan.half))
        try:
            with life:
                sealed = life.until_sealed(above)
        except LifeEndedError as error:
            raise UnknownError(f"cannot prove {self._origin.run}: {what}: {error}") from None
        self._unchanged()
        self._view.say(f"   {what}: to step {sealed.seal.step}")
        return life, sealed

    def _resume(self) -> None:
        target = self._place / "resumed"
        scratch_runs.begin(self._origin, self._cut, target, 2 * self.plan.half)
        found, refusal = self._follow("resumed", target)
        self.resumed = found or [Comparison("resume", equal=False, detail=refusal)]
        same = not judged.unequal(self.resumed)
        self._view.say(f"   resumed: to step {self.last}, {'the same' if same else 'NOT THE SAME'}")
        self._forget(target)

    def _without(self, state: str) -> Control:
        why = scratch_runs.uncontrollable(self._cut, state, self._end)
        whole_file = form_of(self._cut.seal.bin.name) != "bin"
        if why and not whole_file:
            return Control(state, judged.ABSENT, f"not used by this trainer: {why}")
        target, every = self._place / f"without-{state}", 2 * self.plan.half
        if whole_file:  # only the trainer can leave out what it alone reads
            scratch_runs.begin(self._origin, self._cut, target, every, omit=state)
        else:
            scratch_runs.begin_without(self._origin, self._cut, target, every, state, self._end)
        found, refusal = self._follow(f"without {state}", target)
        heard = not whole_file or Life(target, lambda _: None).said(_LEFT_OUT)
        self._forget(target)
        different = judged.unequal(found)
        if not heard and (different or not found):
            raise UnknownError(
                f"cannot prove {self._origin.run}: it does not heed STEPKEEPER_OMIT, and resumed "
                f"twice from one checkpoint it is not the same: {different or refusal}"
            )
        if not found:
            return Control(state, judged.REFUSED, refusal)
        if different:
            return Control(state, judged.DIVERGED, different)
        if not heard:
            return Control(state, judged.ABSENT, "this trainer does not heed STEPKEEPER_OMIT")
        if state == "phase" and self._between:
            text = f"none was in progress: one ended with step {self.cut_at}; try another --steps"
            return Control(state, judged.SAME, text)
        steps = self.last - self.cut_at
        text = f"in {steps} steps: not used by this trainer, or not within so many"
        return Control(state, judged.SAME, text)

    def _follow(self, what: str, run: Path) -> tuple[list[Comparison], str]:
        """A resumed life against the continuous one; nothing, and why, where it did not begin.

        Raises UnknownError where it broke off behind its first step, or was ended by others.
        """
        life = Life(run, lambda step: self._view.at(what, step, self.last, 2 * self.plan.half))
        try:
            with life:
                sealed = life.until_sealed(self.last - 1)
        except LifeEndedError as error:
            if not error.chosen or any(step > self.cut_at for step in life.steps()):
                raise UnknownError(f"cannot prove {self._origin.run}: {what}: {error}") from None
            return [], str(error)
        if sealed.seal.step != self.last:
            raise UnknownError(
                f"cannot prove {self._origin.run}: {what}: it made no checkpoint at step "
                f"{self.last}, as the uninterrupted life did, but at step {sealed.seal.step}"
            )
        self._unchanged()
        return list(self._compared(life, sealed)), ""

    def _compared(self, life: Life, sealed: Sealed) -> Iterable[Comparison]:
        span = range(self.cut_at + 1, self.last + 1)
        continuous = self._continuous
        yield judged.steps("steps behind the cut", continuous.steps(), life.steps(), span)
        yield judged.phases(continuous.phases(span), life.phases(span))
        for array in compared(self._end.checkpoint, sealed.checkpoint):
            yield Comparison(**array, detail=f"at step {self.last}")
        mine = sealed.companion()
        theirs = self.companion
        yield from judged.states(
            theirs._asdict() if theirs else None, mine._asdict() if mine else None
        )

    def _forget(self, target: Path) -> None:
        """Remove a copy that is done with, unless all are kept."""
        if not self._keep:
            scratch_runs.remove(target)
