"""Guards on the loss: what they find, what they do not, and that they know it after a death."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from supervisor.core.guard_rules import LOOK, SPAN, Divergence, Guards, Plateau
from supervisor.core.guards import NOTHING_SEEN, Finding, seed, watch
from supervisor.core.levels import BLOCK, Average, Block, Sums, closed, rise, shares
from supervisor.core.spiking import reference
from trainer.contract.wire import Step

ARMS = {"chat": 3.2, "code": 1.4, "prose": 4.1}
RULES = Guards()


def _chance(seed: int) -> random.Random:
    return random.Random(seed)  # noqa: S311 - chance that can be repeated


def reported(step: int, loss: float, arm: str = "chat") -> Step:
    finite = math.isfinite(loss)
    word = "" if finite else "nan"
    return Step(0, 0.0, step, loss if finite else None, word, arm, 3e-4, "", 1, ())


def healthy(last: int, change: Callable[[int, str, float], float] | None = None) -> list[Step]:
    """Steps 1 to ``last`` of three arms whose losses fall slowly, each with a noise of its own."""
    rng = _chance(7)
    steps = []
    for step in range(1, last + 1):
        arm = rng.choice(sorted(ARMS))
        loss = ARMS[arm] * (1 + math.exp(-step / 400)) + rng.gauss(0, 0.02 * ARMS[arm])
        steps.append(reported(step, change(step, arm, loss) if change else loss, arm))
    return steps


def found(steps: Sequence[Step], rules: Guards = RULES) -> list[tuple[str, int]]:
    return [(finding.guard, finding.step) for finding in watch(NOTHING_SEEN, rules, steps)[1]]


def test_a_healthy_run_of_three_unlike_arms_shows_nothing() -> None:
    assert found(healthy(6000)) == []


@pytest.mark.parametrize("word", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_is_told_once_until_it_was_good_for_long(word: float) -> None:
    bad = {300, 301, 310, 480, 900}
    steps = healthy(1200, lambda step, _, loss: word if step in bad else loss)
    assert found(steps) == [("nonfinite", 300), ("nonfinite", 900)]


def test_a_spike_is_judged_by_its_own_arms_losses() -> None:
    # 2.4 is nothing for prose, whose losses are near 4, and a spike for code at 1.4.
    steps = healthy(1000, lambda step, arm, loss: 2.4 if step >= 800 and arm == "code" else loss)
    first = next(step.step for step in steps if step.step >= 800 and step.arm == "code")
    assert found(steps) == [("spike", first)]
    blind = [step._replace(arm="") for step in steps]
    assert found(blind) == []  # in one window for all arms it would not be seen


def test_a_low_loss_is_no_spike() -> None:
    assert found(healthy(1000, lambda step, _, loss: 0.01 if step == 900 else loss)) == []


def test_a_flat_loss_may_move_by_a_tenth_and_not_by_more() -> None:
    flat = [reported(step, 2.0) for step in range(1, 101)]
    assert found([*flat, reported(101, 2.15)]) == []
    assert found([*flat, reported(101, 2.25)]) == [("spike", 101)]
    zero = [reported(step, 0.0) for step in range(1, 101)]
    assert found([*zero, reported(101, 0.1)]) == [("spike", 101)]


def test_of_few_losses_none_is_a_spike() -> None:
    assert found([*healthy(20), reported(21, 1e9)]) == []


def test_the_score_is_the_robust_z_of_the_books() -> None:
    losses = [float(x) for x in range(1, 42)]  # median 21, MAD 10
    known = reference(losses, 0.0, 32)
    assert known is not None
    assert known.score(21 + 14.826 * 3) == pytest.approx(3.0)
    assert reference(losses[:31], 0.0, 32) is None


@pytest.mark.parametrize("loss", [1.7e308, 1e300])
def test_the_largest_floats_break_nothing(loss: float) -> None:
    flat = [reported(step, 3.0) for step in range(1, 101)]
    wild = [reported(step, (-1) ** step * loss) for step in range(101, 400)]
    findings = watch(NOTHING_SEEN, RULES, [*flat, *wild])[1]
    assert ("spike", 102) in [(finding.guard, finding.step) for finding in findings]
    values = [value for one in findings for value in one.facts.values()]
    assert all(math.isfinite(value) for value in values if isinstance(value, float))
    assert all(len(finding.text) < 200 for finding in findings)


def test_a_loss_that_climbs_slowly_is_a_divergence_whatever_the_mix() -> None:
    rules = replace(RULES, divergence=Divergence(margin=0.05, steps=500, window=4000))
    slow = healthy(5000, lambda step, _, loss: loss * (1 + max(0, step - 2000) / 10_000))
    told = watch(NOTHING_SEEN, rules, slow)[1]
    assert [finding.guard for finding in told] == ["divergence"]
    assert 3500 < told[0].step <= 4500


@pytest.mark.parametrize("mixed", [False, True])
def test_a_mix_that_turns_to_harder_arms_is_no_divergence(mixed: bool) -> None:  # noqa: FBT001 - a parameter
    rng = _chance(3)
    steps = []
    for step in range(1, 4001):
        hard = 0.2 if step < 2000 else 0.8  # of prose at 4.1; the rest is code at 1.4
        prose = sum(rng.random() < hard for _ in range(16)) if mixed else 16 * (rng.random() < hard)
        loss = (4.1 * prose + 1.4 * (16 - prose)) / 16 + rng.gauss(0, 0.05)
        arm = f"code={16 - prose} prose={prose}" if mixed else ("prose" if prose else "code")
        steps.append(reported(step, loss, arm))
    rules = replace(RULES, plateau=Plateau(steps=100_000))
    assert [guard for guard, _ in found(steps, rules) if guard != "spike"] == []
    plain = [step._replace(arm="one") for step in steps]
    assert "divergence" in [guard for guard, _ in found(plain, rules)]


def test_arms_within_steps_are_told_apart_by_least_squares() -> None:
    rng = _chance(5)
    sums = Sums({}, {})
    for _ in range(400):
        chat, code = rng.randint(1, 8), rng.randint(1, 8)
        loss = (3.0 * chat + 1.0 * code + 5.0 * 4) / (chat + code + 4)
        sums.add(shares(f"chat={chat} code={code} prose=4"), loss)
    averages = closed((), BLOCK, sums).averages
    losses = {arm: round(average.loss, 1) for arm, average in averages.items()}
    assert losses == {"chat": 3.0, "code": 1.0, "prose": 5.0}


def test_blocks_without_a_common_arm_are_not_compared() -> None:
    old = Block(100, Sums({}, {}), {"chat": Average(3.0, 100.0)}, 100.0)
    new = Block(200, Sums({}, {}), {"code": Average(9.0, 100.0)}, 100.0)
    assert rise(new, old) is None


def test_a_loss_that_stays_where_it_is_is_a_plateau_and_told_once() -> None:
    rules = replace(RULES, plateau=Plateau(margin=0.005, steps=1000))
    assert [guard for guard, _ in found(healthy(6000), rules)] == ["plateau"]
    falling = healthy(6000, lambda step, _, loss: loss * (1 - step / 20_000))
    assert found(falling, rules) == []


@pytest.mark.parametrize("cut", [8321, 10_000, 11_777])
def test_whoever_reads_the_tail_of_the_ledger_knows_what_the_dead_one_knew(cut: int) -> None:
    rules = Guards(
        divergence=Divergence(margin=0.05, steps=200, window=1500), plateau=Plateau(steps=1500)
    )

    def odd(step: int, _: str, loss: float) -> float:
        if 8250 <= step < 8260 or step in (9900, 11_700):
            return loss * 3
        return loss * (1.1 if step > 11_000 else 1.0)

    steps = healthy(12_000, odd)
    before, _ = watch(NOTHING_SEEN, rules, steps[:cut])
    tail = steps[max(0, cut - rules.tail) : cut]
    assert len(tail) < cut
    seeded = seed(rules, tail, [cut])[cut]
    assert seeded == before
    assert seed(rules, tail[1:], [cut]) == {}  # from one step less, it could not be told
    assert watch(seeded, rules, steps[cut:]) == watch(before, rules, steps[cut:])


def test_what_only_seems_a_spike_where_the_tail_begins_is_not_believed() -> None:
    rules = Guards(divergence=Divergence(window=1000), plateau=Plateau(steps=1000))
    first, last = 1008, 1008 + rules.tail - 1

    rng = _chance(1)

    def loss(step: int) -> float:
        if first <= step < first + 32:  # all that a reader of the tail sees before step 1040
            return 5.0
        return rng.uniform(1.0, 9.6) if step < 100 else (9.6 if step % 2 == 0 else 1.0)

    steps = [reported(step, loss(step)) for step in range(1, last + 1)]
    before, findings = watch(NOTHING_SEEN, rules, steps)
    assert [finding.guard for finding in findings if finding.guard != "plateau"] == []
    assert seed(rules, steps[first - 1 :], [last])[last] == before


def test_in_what_portions_steps_come_changes_nothing() -> None:
    steps = healthy(1000, lambda step, _, loss: math.nan if step % 300 == 0 else loss)
    whole, findings = watch(NOTHING_SEEN, RULES, steps)
    state, told = NOTHING_SEEN, list[Finding]()
    for at in range(0, 1000, 7):
        state, more = watch(state, RULES, steps[at : at + 7])
        told += more
    assert (state, told) == (whole, findings)


def test_a_suspicion_is_over_once_the_loss_was_good_for_long_enough_and_is_back() -> None:
    steps = healthy(1500, lambda step, _, loss: math.nan if step in (600, 650) else loss)
    assert watch(NOTHING_SEEN, RULES, steps[:649])[0].suspicion is not None
    assert watch(NOTHING_SEEN, RULES, steps[:849])[0].suspicion is not None
    after = watch(NOTHING_SEEN, RULES, steps[:850])[0]
    assert (after.suspicion, after.cleared) == (None, 850)


def test_a_loss_that_is_good_but_higher_than_before_leaves_the_suspicion() -> None:
    steps = healthy(2000, lambda step, _, loss: loss * (1.2 if step >= 800 else 1.0))
    state, findings = watch(NOTHING_SEEN, RULES, steps)
    assert [finding.guard for finding in findings] == []  # 1.2 is far below a spike
    harmed = [
        step._replace(loss=None, nonfinite="nan") if step.step == 800 else step for step in steps
    ]
    state, _ = watch(NOTHING_SEEN, RULES, harmed)
    assert state.suspicion is not None
    assert state.suspicion.first == 800


def test_the_first_losses_after_a_resume_are_held_against_those_before_the_stop() -> None:
    """What lost m and v shows at once: the windows of before are there."""
    steps = healthy(2000)
    resumed = seed(RULES, steps[:1500], [1500], whole=True)[1500]
    harmed = [step._replace(loss=(step.loss or 0.0) * 1.5) for step in steps[1500:1510]]
    assert [finding.step for finding in watch(resumed, RULES, harmed)[1]] == [1501]
    assert watch(NOTHING_SEEN, RULES, harmed)[1] == []  # nobody would see it without them
    assert watch(resumed, RULES, steps[1500:])[1] == []


def test_what_is_remembered_is_bounded() -> None:
    rules = Guards(divergence=Divergence(window=1000), plateau=Plateau(steps=1000))
    state, _ = watch(NOTHING_SEEN, rules, healthy(9000))
    assert len(state.blocks) <= 40
    assert all(len(window.losses) <= rules.spike.window for window in state.windows.values())
    left = [reported(step, 2.0, "other") for step in range(9001, 9001 + SPAN + LOOK)]
    state, _ = watch(state, rules, left)
    assert set(state.windows) == {"other"}
