"""What must hold at every event of a simulated run, and what every seal must say."""

from __future__ import annotations

from supervisor.core.bandit import BanditState, count_steps, finish_phase, freeze, fresh
from supervisor.core.coherence.gate import KEPT
from supervisor.core.guards import GuardState
from supervisor.core.messages import (
    Effect,
    Event,
    Exit,
    GiveOrders,
    Reports,
    Seal,
    Spawn,
    Tick,
)
from supervisor.core.proving import BEFORE_USE
from supervisor.core.state import KEPT_SEALS, Life, Pivot, PivotStage, State, Want
from tests.support.world.disk import Disk
from trainer.contract.wire import Phase, PhaseOrder, Step

FORWARD = {
    None: {None, PivotStage.ASKED},
    PivotStage.ASKED: {PivotStage.ASKED, PivotStage.REQUESTED, PivotStage.STOPPING, None},
    PivotStage.REQUESTED: {PivotStage.REQUESTED, PivotStage.STOPPING, None},
    PivotStage.STOPPING: {PivotStage.STOPPING, PivotStage.STOPPED},
    PivotStage.STOPPED: {PivotStage.STOPPED, PivotStage.INSTALLED},
    PivotStage.INSTALLED: {PivotStage.INSTALLED, PivotStage.FINISHING},
    PivotStage.FINISHING: {PivotStage.FINISHING, PivotStage.INSTALLED, None},
}
EXITS = {0, 1, 10, 11, 12}


class Laws:
    """Looks at every decision; raises AssertionError at the first that breaks a law.

    ``exact`` says that replays are exact, so a phase number has one meaning per policy.
    """

    def __init__(self, disk: Disk, live: frozenset[str], seed: int, *, exact: bool) -> None:
        self.events = 0
        self.began = {1: 0}  # the step after which each policy began
        self._disk = disk
        self._live = live
        self._seed = seed
        self._exact = exact
        self._phases: dict[tuple[int, int], PhaseOrder] = {}
        self._folds: dict[int, tuple[int, BanditState]] = {}
        self._left = False
        self._guards: dict[str, GuardState] = {}

    def _of_gate(self, after: State) -> None:
        """Every cadence's sample is one outcome, whoever died; none is of a lost step."""
        steps = [outcome.step for outcome in after.gate.outcomes]
        if steps:
            every = after.settings.cadence
            assert steps == list(range(steps[0], steps[-1] + 1, every))[-KEPT:]
            if len(steps) < KEPT // 2:  # more, and the oldest were dropped, some since by a cut
                assert steps[0] - self.began[after.policy.number] in range(1, every + 1)
        if after.attempt is not None and steps:
            assert steps[-1] <= after.attempt.last_step

    def restart(self) -> None:
        """Another supervisor begins."""
        self._left = False

    def look(self, before: State, event: Event | None, after: State, effects: list[Effect]) -> None:
        """The laws of one turn."""
        self.events += 1
        self._of_life(after)
        self._of_guards(after)
        self._of_pivot(before if event is not None else after, after)
        self._of_gate(after)
        if self._left:
            assert all(type(effect).__name__ == "Answer" for effect in effects), effects
        for effect in effects:
            assert not self._left or type(effect).__name__ == "Answer", f"{effect} after Exit"
            if isinstance(effect, Exit):
                assert effect.code in EXITS
                self._left = True
            elif isinstance(effect, Spawn):
                self._of_spawn(after, effect)
            elif isinstance(effect, GiveOrders):
                assert after.orders.serial >= effect.orders.serial >= before.orders.serial
        if isinstance(event, Tick):
            assert before.deadline is not None
        if self._exact:
            self._of_phases(after)
        if isinstance(event, Reports):
            waited = [r for r in event.reports if isinstance(r, Phase) and r.repeated]
            assert not waited, f"the trainer waited in vain for a phase: {waited}"

    def _of_life(self, state: State) -> None:
        timed = state.life in (Life.BACKOFF, Life.STOPPING)
        if state.trouble and state.want is Want.STOP:
            timed = timed or state.life in (Life.KILLING, Life.DRAINING, Life.IDLE)
        assert (state.deadline is not None) == timed, f"deadline {state.deadline} in {state.life}"
        alone = state.life in (Life.BACKOFF, Life.PROVING, Life.IDLE)
        if state.life is not Life.LEAVING:
            assert (state.attempt is None) == alone, f"an attempt in {state.life}"
        steps = [pending.step for pending in state.pending]
        assert steps == sorted(set(steps)), f"pending {steps}"
        assert all(not pending.asked for pending in state.pending[1:])
        sealed = [seal.point.step for seal in state.seals]
        assert sealed == sorted(set(sealed), reverse=True), f"seals {sealed}"
        if state.attempt is not None:
            assert state.attempt.policy == state.policy.number
            assert state.attempt.last_step >= state.attempt.resumed
            assert state.bandit.policy == state.policy.number
            assert len(state.bandit.phases) == 2
        if state.life is Life.DRAINING:
            assert state.attempt is not None
            assert state.attempt.ending is not None
            assert state.pending or not state.attempt.settled

    def _of_guards(self, state: State) -> None:
        """What the guards knew at a seal is the same whoever tells it; no suspect is chosen."""
        for seal in (*state.seals, *state.quarantined):
            if seal.guards is not None:
                known = self._guards.setdefault(seal.point.seal, seal.guards)
                assert known == seal.guards, f"the guards knew two things at {seal.point.step}"
        steps = [seal.point.step for seal in state.quarantined]
        assert steps == sorted(set(steps), reverse=True), f"quarantined {steps}"
        clean = {seal.point.step for seal in state.seals}
        assert not clean & set(steps), "one is both clean and quarantined"

    def _of_pivot(self, before: State, after: State) -> None:
        was = before.pivot.stage if before.pivot else None
        now = after.pivot.stage if after.pivot else None
        # Several turns of a pivot may fall into one event: the trainer's end stops and pins.
        assert now in FORWARD[was], f"the pivot went from {was} to {now}"
        if after.pivot is None or after.pivot.pin is None:
            return
        if now in (PivotStage.STOPPING, PivotStage.STOPPED):
            assert after.life in (Life.IDLE, Life.LEAVING)
            assert after.seals[0].point == after.pivot.pin, "the pin is not the newest seal"
            self._is_far_enough(after, after.pivot)
        elif now is PivotStage.INSTALLED:
            self._goes_on_from_the_pin(after, after.pivot)

    def _is_far_enough(self, after: State, pivot: Pivot) -> None:
        """A pin is at the boundary after the request or beyond, or answers the order itself."""
        assert pivot.pin is not None
        cadence = after.settings.cadence
        due = -(-pivot.asked_step // cadence) * cadence
        if any(seal.point.step >= due for seal in after.quarantined):
            return  # it was saved in time, and something older had to be the pin
        if pivot.honoured is not None:
            due = pivot.honoured
        elif pivot.when == "now":
            due = pivot.asked_step
        assert pivot.pin.step >= due, f"pinned at {pivot.pin.step}, due was {due}"

    def _goes_on_from_the_pin(self, state: State, pivot: Pivot) -> None:
        """What will be resumed is the pin, or what the new policy has sealed above it."""
        for seal in state.seals:
            if seal.point == pivot.pin:
                return
            assert seal.policy == pivot.policy.number, f"{seal.point} would be resumed"
        assert len(state.seals) == KEPT_SEALS, "the pin is not among the seals"

    def _of_spawn(self, state: State, effect: Spawn) -> None:
        """A resume point is the newest seal, with the bandit state of its step."""
        newest = state.seals[0] if state.seals else None
        assert effect.resume == (newest.point if newest else None)
        assert state.life is Life.STARTING
        assert effect.orders.hold == (state.trouble or None)
        assert all(seal.proved for seal in state.seals[:BEFORE_USE]), "resumed from unread"
        assert effect.policy == state.policy.number
        assert effect.orders.phases == state.bandit.phases
        pivot = state.pivot
        if pivot is not None and pivot.stage is PivotStage.INSTALLED:
            self._goes_on_from_the_pin(state, pivot)
        if newest is None or newest.policy != state.policy.number:
            before = newest.bandit if newest else None
            seed = self._seed + effect.policy
            assert state.bandit == fresh(
                state.policy, self._live, seed, before, newest.point.step if newest else 0
            )
            self.began[effect.policy] = newest.point.step if newest else 0

    def _of_phases(self, state: State) -> None:
        """What a phase holds follows from the reports alone, whoever died in between."""
        for phase in state.bandit.phases:
            known = self._phases.setdefault((state.bandit.policy, phase.phase), phase)
            assert known == phase, f"phase {phase.phase} was decided twice: {known}, {phase}"

    def of_seal(self, effect: Seal) -> None:
        """A seal's bandit is the fold of the reports up to its checkpoint, and counts its steps."""
        folded = self._fold(effect.attempt, effect.reports.seq, effect.bandit.frozen)
        step = effect.verdict.step
        assert effect.bandit == folded, f"the seal of {step} holds another bandit state"
        served = effect.bandit.served
        since = self.began[effect.policy]
        assert served == step - since, f"{served} pulls in {step - since} steps by {step}"

    def _fold(self, attempt: int, seq: int, frozen: str) -> BanditState:
        """Fold an attempt's reports one by one, with nothing of the core's around it.

        ``frozen`` ends with the step of the loss for which the mix was frozen.
        """
        frozen_at = int(frozen.rpartition(" ")[2] or 0)
        record = self._disk.attempts[attempt]
        policy = self._disk.policies[record.policy]
        done, bandit = self._folds.get(attempt, (0, None))
        if bandit is None or done > seq:
            done = 0
            seal = self._disk.seals.get(record.resumed) if record.resume else None
            before = seal.bandit if seal is not None else None
            began = seal.point.step if seal is not None else 0
            bandit = fresh(policy, self._live, self._seed + policy.number, before, began)
            if seal is not None and seal.policy == policy.number:
                bandit = seal.bandit
        for report in self._disk.reports[attempt][done:seq]:
            if isinstance(report, Step):
                bandit = count_steps(bandit, (report,))
                bandit = freeze(bandit, frozen) if report.step == frozen_at else bandit
            elif isinstance(report, Phase):
                bandit = finish_phase(bandit, policy, report)
        self._folds[attempt] = (seq, bandit)
        return bandit
