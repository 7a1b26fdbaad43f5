"""The same reports, read in other pieces or again from a seal, come to the same decisions."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from supervisor.core.coherence.gate import WATCHING, known_at
from supervisor.core.guard_rules import Guards, Nonfinite, Spike
from supervisor.core.guards import seed as seed_guards
from supervisor.core.messages import Journal, Record, ReportsPosition
from supervisor.core.rungs import Action
from supervisor.core.state import State
from tests.support.history import History, fresh_state, running, step_report
from tests.support.speech import COLLAPSED, healthy
from trainer.contract.wire import ArmResult, Checkpoint, Doing, Phase, Report, Sample, Step

CADENCE, STEPS = 20, 400
ACTIONS = (Action.ALERT, Action.FREEZE, Action.CHECKPOINT)


def written(rng: random.Random) -> list[Report]:
    """A life's reports: phases, samples of which many fail, losses of which some are none."""
    reports: list[Report] = []
    first, number, length = 1, 1, rng.randint(7, 42)
    ill = rng.random() < 0.8
    for step in range(1, STEPS + 1):
        arm = rng.choice(("chat", "code", "prose", "chat=2 code=3", "gone"))
        report = step_report(step, 0, arm)._replace(phase=number)
        lost = rng.random() < 0.01
        loss = 3.0 + rng.gauss(0, 0.1) + 9.0 * (rng.random() < 0.01)
        told = (None, "nan") if lost else (loss, "")
        reports.append(report._replace(loss=told[0], nonfinite=told[1]))
        over = step == first + length - 1
        after = rng.random() < 0.5  # a trainer may tell what belongs to a step in either order
        phase = Phase(
            0, step / 10, number, first, step, repeated=False, weights=(), arms=results(rng)
        )
        if over and not after:
            reports.append(phase)
        if step % 10 == 0:
            text = COLLAPSED[0] if ill and rng.random() < 0.5 else healthy(rng)
            reports.append(Sample(0, step / 10, step, "say", text, 0.8))
        if over and after:
            reports.append(phase)
        if over:
            first, number, length = step + 1, number + 1, rng.randint(7, 42)
        if step % CADENCE == 0:
            if rng.random() < 0.5:
                reports.append(Doing(0, step / 10, "save", step))
            name = f"step_{step:06d}.bin"
            reports.append(
                Checkpoint(0, step / 10, step, name, f"{step:064x}", 776, "cadence", 0.1, None)
            )
    return [report._replace(seq=seq) for seq, report in enumerate(reports, 2)]


def results(rng: random.Random) -> tuple[ArmResult, ...]:
    return tuple(
        ArmResult(arm, rng.randint(0, 20), rng.randint(0, 1), rng.choice((None, rng.random() * 5)))
        for arm in ("chat", "code", "prose")
    )


def begun(action: Action) -> History:
    guards = Guards(Nonfinite(action), Spike(action), quarantine_steps=30)
    gate = replace(WATCHING, every=10, after=0, action=action)
    return running(0, fresh_state(guards=guards, gate=gate))


def folded(history: History, reports: list[Report], rng: random.Random | None) -> History:
    """Read in pieces of chance, or one by one; a checkpoint is the last of its piece."""
    piece: list[Report] = []
    for at, report in enumerate(reports):
        piece.append(report)
        last = at == len(reports) - 1 or isinstance(report, Checkpoint)
        if last or rng is None or rng.random() < 0.02:
            history.report(*piece)
            piece = []
    return history


def told(history: History) -> list[tuple[str, str]]:
    return [(entry.event, repr(entry.facts)) for entry in history.all_of(Journal)]


def known(state: State) -> dict[str, object]:
    moments = [(p.step, p.bandit, p.guards, p.sample_verdict, p.suspect) for p in state.pending]
    return {
        "bandit": state.bandit,
        "guards": state.guards,
        "gate": state.gate,
        "named": state.named,
        "phases": state.orders.phases,
        "seals": moments,
    }


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("seed", range(4))
def test_reports_read_in_other_pieces_come_to_the_same(action: Action, seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311 - chance that can be repeated
    reports = written(rng)
    whole, single = folded(begun(action), reports, rng), folded(begun(action), reports, None)
    assert known(whole.state) == known(single.state)
    assert told(whole) == told(single)
    assert whole.journal("guard")


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("seed", range(2))
def test_reports_folded_again_from_any_seal_come_to_the_same(action: Action, seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311 - chance that can be repeated
    reports = written(rng)
    whole = folded(begun(action), reports, rng)
    steps = [step for effect in whole.all_of(Record) for step in effect.steps]
    assert isinstance(steps[0], Step)
    for seal in whole.state.pending:
        again = begun(action)
        before, rules = steps[: seal.step], again.state.settings.guards
        guards = seed_guards(rules, before, [seal.step], whole=True)
        attempt = again.state.attempt
        assert attempt is not None
        seq = seal.reports.seq
        attempt = replace(
            attempt,
            last_step=seal.step,
            began=seal.step,
            position=ReportsPosition(1, seq, seq * 100),
        )
        again.state = replace(
            again.state,
            attempt=attempt,
            bandit=seal.bandit,
            guards=guards[seal.step],
            gate=known_at(whole.state.gate, seal.step),
        )
        again.seq = seq
        after = [report for report in reports if report.seq > seq]
        folded(again, after, rng)
        mine, theirs = known(again.state), known(whole.state)
        for what in ("bandit", "guards", "gate"):
            assert mine[what] == theirs[what], f"{what} from the seal of step {seal.step}"
