"""Carries the core's effects out on the simulated disk, one write at a time.

Every effect is a generator: each ``yield`` is a place where the supervisor may die.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from supervisor.core.coherence.gate import NOTHING_SAMPLED
from supervisor.core.messages import (
    AdvancePivot,
    Answer,
    CloseAttempt,
    Effect,
    EndLeft,
    Event,
    Exit,
    Failed,
    GiveOrders,
    Journal,
    KeepBandit,
    KeepIntent,
    KeepSamples,
    LeaveTerminal,
    Lift,
    Pin,
    Record,
    Recorded,
    RecordStacks,
    Reject,
    ResumePoint,
    Retain,
    Retained,
    Say,
    Seal,
    Sealed,
    SignalTrainer,
    Skip,
    Spawn,
    Spawned,
    SpawnFailed,
    StacksRecorded,
    StageDone,
    Unpin,
)
from supervisor.core.retention import KEEPING, Held, Marks, judge
from tests.support.world.disk import AttemptRecord, Disk, PivotFile, SealFile
from tests.support.world.trainer import Trainer
from trainer.contract.wire import Orders

Reply = Event | Answer | Exit | None
Writing = Generator[None, None, Reply]


class Writer:
    """The writer thread's part. ``chance`` answers whether something fails now."""

    def __init__(
        self,
        disk: Disk,
        chance: Callable[[str], bool],
        start: Callable[[int, float], Trainer],
        newest_seal: str,
    ) -> None:
        self._disk = disk
        self.chance = chance
        self._start = start
        self._newest_seal = newest_seal
        self.trainer: Trainer | None = None
        self.parent = False  # whether this life spawned it and can wait for its status
        self.now = 0.0
        self.rules = KEEPING
        self.sealed: Callable[[Seal], None] = lambda _: None

    def perform(self, effect: Effect) -> Writing:  # noqa: C901, PLR0911, PLR0912, PLR0915 - one short case per effect
        """Carry out one effect; the generator's return value is what goes to the inbox."""
        disk = self._disk
        yield
        match effect:
            case Record():
                return self._record(effect)
            case Seal():
                return (yield from self._seal(effect))
            case Spawn():
                return (yield from self._spawn(effect))
            case AdvancePivot():
                return (yield from self._advance(effect.stage, effect.facts))
            case Answer() | Exit():
                return effect
            case SignalTrainer():
                if self.trainer is not None:
                    assert self.trainer.attempt == effect.attempt
                    self.trainer.send(effect.name)
            case GiveOrders():
                self._give(effect.orders)
            case KeepBandit():
                disk.bandit = effect.bandit
            case KeepSamples():
                kept = [(effect.attempt, effect.policy, sample) for sample in effect.samples]
                new = [sample for sample in kept if sample not in disk.samples]
                disk.samples = [*disk.samples[-16:], *new]
                disk.gate = effect.gate
            case KeepIntent():
                hold = disk.intent.get("hold", False) if effect.hold is None else effect.hold
                disk.intent = {"want": effect.want, "done": effect.done, "hold": hold}
            case Journal():
                disk.journal.append((effect.event, effect.facts))
            case CloseAttempt():
                record = disk.attempts.get(effect.attempt)
                if record is None:
                    return Failed("closeattempt", "cannot closeattempt: it has no record")
                record.end, record.closed = effect.facts, self.now
                self.trainer = None
            case Retain():
                return self._retain(effect)
            case RecordStacks():
                return StacksRecorded(effect.attempt, "output.log")
            case Pin():
                disk.pins[effect.step] = effect.note
            case Unpin():
                disk.pins.pop(effect.step, None)
            case Reject():
                disk.rejected.add(effect.seal)
            case Lift():
                disk.quarantined.pop(effect.seal, None)
            case Skip():
                disk.skips.setdefault(effect.seal, {})[effect.attempt] = effect.steps
            case EndLeft():
                assert self.trainer is None or not self.trainer.alive, "it would be ended too"
            case Say() | LeaveTerminal():
                pass
            case _:
                raise AssertionError(f"{effect} is not for the writer")
        return None

    def _retain(self, effect: Retain) -> Reply:
        """The same judgement as the shell's, over what the simulated disk holds."""
        disk = self._disk
        held = [
            Held(
                step,
                f"step_{step:06d}.bin",
                776,
                seal.point.seal,
                seal.attempt,
                audit=seal.save is not None,
                good=seal.point.seal not in disk.rejected | disk.quarantined.keys(),
                suspect=seal.point.seal in disk.quarantined.keys() - disk.rejected,
            )
            for step, seal in disk.seals.items()
            if step in disk.bins
        ]
        asked = (effect.attempt, effect.resume, effect.suspected)
        marks = Marks(frozenset(disk.pins), disk.pivot_points, *asked)
        going = [fate.held for fate in judge(held, self.rules, marks) if fate.goes]
        for one in going:
            del disk.bins[one.step]
        return Retained(tuple(one.seal for one in going))

    def _give(self, orders: Orders) -> None:
        """A serial means one thing, or a trainer would take old orders for new ones."""
        before = self._disk.orders
        assert orders.serial > before.serial or orders == before, "a serial comes twice"
        self._disk.orders = orders

    def _record(self, effect: Record) -> Reply:
        outcome = self._disk.ledger.record(effect.attempt, effect.policy, effect.steps)
        difference = "" if outcome.differed is None else "loss"
        return Recorded(
            effect.attempt,
            outcome.position,
            outcome.proved,
            0,
            outcome.differed,
            difference,
            outcome.origin,
        )

    def _seal(self, effect: Seal) -> Writing:
        disk, step, verdict = self._disk, effect.verdict.step, effect.verdict
        ledger = disk.ledger
        assert effect.ledger == ledger.position(step), f"seal of {step} ahead of the ledger"
        assert ledger.lines[effect.ledger.entries - 1].step == step
        self.sealed(effect)
        if self.chance("seal fails"):
            return Failed("seal", f"cannot seal step {step}: no room")
        assert step not in disk.seals, f"step {step} is sealed twice"
        disk.seal_number += 1
        point = ResumePoint(step, verdict.sha256, f"{disk.seal_number:064x}")
        if effect.suspect:
            disk.quarantined[point.seal] = effect.suspect
        disk.seals[step] = SealFile(
            point,
            effect.attempt,
            effect.policy,
            effect.bandit,
            effect.ledger,
            effect.reports,
            effect.save,
            effect.replay[0],
            self._newest_seal,
        )
        self._newest_seal = point.seal
        yield
        head = f"{effect.ledger.entries}:{effect.ledger.chain}:{point.seal[:32]}"
        return Sealed(effect.attempt, step, verdict.sha256, point.seal, head, verdict.name)

    def _spawn(self, effect: Spawn) -> Writing:
        disk, resume = self._disk, effect.resume
        assert self.trainer is None, "a trainer is started beside another one"
        assert effect.orders.save is None, "an attempt begins with an order to save"
        if self.chance("spawn fails"):
            return SpawnFailed(effect.attempt, "cannot start the trainer: no such program")
        marks = disk.skips.get(resume.seal, {}) if resume else {}
        told = [marks[number] for number in sorted(marks) if number < effect.attempt]
        assert effect.skip == (told[-1] if told else 0), "another skip than was marked"
        assert resume is None or resume.seal not in disk.quarantined, "a suspect is chosen"
        above = resume.step if resume else -1
        for step in sorted((s for s in disk.seals if s > above), reverse=True):
            del disk.seals[step]
            yield
        for step in sorted((s for s in disk.bins if s > above), reverse=True):
            del disk.bins[step]
            yield
        self._newest_seal = resume.seal if resume else ""
        assert effect.attempt not in disk.attempts, f"attempt {effect.attempt} begins twice"
        record = AttemptRecord(
            effect.attempt, effect.policy, resume, disk.ledger.step, started=self.now
        )
        record.skip = effect.skip
        disk.attempts[effect.attempt] = record
        yield
        self._give(effect.orders)
        yield
        disk.ledger.begin(effect.attempt, record.resumed)
        if self.chance("spawn fails"):
            return SpawnFailed(effect.attempt, "cannot start the trainer: not executable")
        self.trainer, self.parent = self._start(effect.attempt, self.now), True
        yield
        return Spawned(effect.attempt, 1000 + effect.attempt, record.ledger_step)

    def _advance(self, stage: str, facts: dict[str, Any]) -> Writing:
        if self.chance(f"{stage} fails"):
            return Failed(stage, f"cannot {stage}: no room")
        match stage:
            case "requested":
                assert self._disk.pivot is None, "a pivot begins within a pivot"
                self._disk.pivot = PivotFile(
                    stage, facts["text"], facts["asked_step"], facts["when"], facts["by"]
                )
            case "stopped":
                pivot = self._under_way(facts, "requested")
                pivot.stage, pivot.pin, pivot.honoured = stage, facts["pin"], facts["honoured"]
            case "installed":
                yield from self._install(facts)
            case "done":
                pivot = self._under_way(facts, "installed")
                assert facts["first_step"] == facts["pin"].step + 1
                self._disk.certificates[pivot.policy.number] = {**facts, "when": pivot.when}
                yield
                self._disk.pivot = None
            case "cancelled":
                pivot = self._disk.pivot
                assert pivot is None or pivot.stage == "requested", "cancelled after its stop"
                self._disk.pivot = None
            case _:
                raise AssertionError(stage)
        yield
        return StageDone(stage, facts)

    def _install(self, facts: dict[str, Any]) -> Generator[None, None, None]:
        """Archive, install, and archive once more, as the shell does; safe to repeat."""
        disk, pivot = self._disk, self._under_way(facts, "stopped")
        assert pivot.pin == facts["pin"], "the pin of the journal and of the core differ"
        kept = disk.archive.setdefault(pivot.policy.number, {})
        for part in ("bandit", "samples"):
            value = getattr(disk, part)
            if value:
                assert part not in kept, "something archived would be replaced"
                if part == "bandit":
                    assert value.policy < pivot.policy.number, "a new bandit would be archived"
                kept[part] = value
            setattr(disk, part, None if part == "bandit" else [])
            yield
        disk.gate = NOTHING_SAMPLED
        disk.policies[pivot.policy.number] = pivot.policy
        yield
        pivot.stage = "installed"

    def _under_way(self, facts: dict[str, Any], stage: str) -> PivotFile:
        """The journal of the pivot; it only ever goes forward."""
        pivot = self._disk.pivot
        assert pivot is not None, "a pivot goes on that nobody began"
        assert pivot.policy.number == facts["policy"]
        assert pivot.stage == stage, f"{pivot.stage} is not the stage before this one"
        return pivot
