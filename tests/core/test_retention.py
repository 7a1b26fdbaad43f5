"""Which checkpoints go after a new seal, and that no rule ever takes what must stay."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.messages import Retain, Retained
from supervisor.core.retention import Fate, Held, Marks, Retention, judge
from tests.support.history import point, running


def held(step: int, **other: object) -> Held:
    one = Held(step, f"step_{step:06d}.bin", 776, f"{step:064x}", 1)
    return one._replace(**other)


def left(step: int, attempt: int, **other: object) -> Held:
    name = f"superseded/attempt-{attempt:06d}/step_{step:06d}.bin"
    return held(step, name=name, good=False, left=attempt, **other)


def kept(fates: tuple[Fate, ...]) -> list[int]:
    return [fate.held.step for fate in fates if not fate.goes]


def why(fates: tuple[Fate, ...], step: int) -> str:
    return next(fate.why for fate in fates if fate.held.step == step)


def test_the_newest_five_stay_and_all_else_goes() -> None:
    fates = judge([held(step) for step in range(100, 1000, 100)], Retention(), Marks())
    assert kept(fates) == [900, 800, 700, 600, 500]
    assert why(fates, 900) == "one of the newest two"
    assert why(fates, 500) == "one of the last 5"
    assert why(fates, 400) == "older than the last 5"


def test_the_newest_from_before_what_may_be_harmed_stays_however_many_follow() -> None:
    steps = [held(step) for step in range(100, 2000, 100)]
    rules = Retention(keep_last=2, keep_every=0)
    fates = judge(steps, rules, Marks(suspected=400))
    assert kept(fates) == [1900, 1800, 300]
    assert why(fates, 300) == "the last before step 400, from which on it may be harmed"


def test_the_first_at_or_after_each_multiple_stays() -> None:
    rules = Retention(keep_last=2, keep_every=1000)
    fates = judge([held(step) for step in range(300, 5000, 300)], rules, Marks())
    assert kept(fates) == [4800, 4500, 4200, 3000, 2100, 1200]
    assert why(fates, 1200) == "the first of 1000 steps"


def test_those_made_on_request_are_counted_apart_from_the_others() -> None:
    """Row 5: many checkpoints made on a signal push out neither the others nor the disk."""
    rules = Retention(keep_last=3, keep_every=0, keep_audit=2)
    steps = [held(step, audit=step % 100 != 0) for step in range(50, 1001, 50)]
    assert kept(judge(steps, rules, Marks())) == [1000, 950, 900, 850, 800]


def test_the_newest_two_stay_even_where_no_count_keeps_them() -> None:
    rules = Retention(keep_last=2, keep_every=0, keep_audit=0)
    steps = [held(step, audit=True) for step in (100, 200, 300)]
    assert kept(judge(steps, rules, Marks())) == [300, 200]


def test_pins_and_pivot_points_stay_wherever_they_lie() -> None:
    rules = Retention(keep_last=2, keep_every=0)
    seals = frozenset({held(200).seal, held(250).seal})
    steps = [*map(held, range(100, 1001, 100)), left(250, 2), left(350, 2), left(450, 2)]
    steps = [one if one.left else one._replace(attempt=2) for one in steps]
    fates = judge(steps, rules, Marks(pins=frozenset({300, 350}), pivots=seals))
    assert kept(fates) == [1000, 900, 300, 200, 350, 250]
    assert why(fates, 300) == "pinned"
    assert why(fates, 250) == "a pivot point"


def test_the_resume_point_stays_until_the_attempt_has_made_two_seals() -> None:
    rules = Retention(keep_last=2, keep_every=0)
    marks = Marks(attempt=7, resume=held(300).seal)
    old = [held(step) for step in (300, 400, 500)]  # the attempt fell back behind 400 and 500
    one = [*old, held(600, attempt=7)]
    assert kept(judge(one, rules, marks)) == [600, 500, 300]
    assert why(judge(one, rules, marks), 300) == "the attempt resumed from it"
    assert kept(judge([*one, held(700, attempt=7)], rules, marks)) == [700, 600]


def test_bad_ones_do_not_count_and_go_only_behind_enough_good_ones() -> None:
    rules = Retention(keep_last=2, keep_every=0)
    bad = [held(500, good=False), held(400, good=False)]
    assert kept(judge([held(300), held(200), held(100), *bad], rules, Marks())) == [
        500, 400, 300, 200,
    ]  # fmt: skip
    newer = [held(600), held(700)]
    assert kept(judge([held(300), *bad, *newer], rules, Marks())) == [700, 600]


def test_superseded_ones_go_once_enough_were_sealed_since() -> None:
    rules = Retention(keep_last=3, keep_every=0)
    steps = [held(100), left(200, 5), held(200, attempt=5), held(300, attempt=5)]
    fates = judge(steps, rules, Marks())
    assert not any(fate.goes for fate in fates)
    assert fates[-1].why == "superseded, until 3 are sealed since (2 now)"
    fates = judge([*steps, held(400, attempt=6)], rules, Marks())
    assert [fate.held.name for fate in fates if fate.goes] == [held(100).name, left(200, 5).name]


checkpoints = st.lists(
    st.builds(
        lambda step, attempt, audit, good, behind: (
            left(step, attempt) if behind else held(step, attempt=attempt, audit=audit, good=good)
        ),
        st.integers(1, 60),
        st.integers(1, 4),
        st.booleans(),
        st.booleans(),
        st.booleans(),
    ),
    max_size=40,
    unique_by=lambda one: one.name,
)
rules = st.builds(Retention, st.integers(2, 6), st.integers(0, 15), st.integers(0, 4))
marked = st.builds(
    lambda pins, pivots, attempt, resume: Marks(
        frozenset(pins), frozenset(f"{p:064x}" for p in pivots), attempt, f"{resume:064x}"
    ),
    st.sets(st.integers(1, 60), max_size=3),
    st.sets(st.integers(1, 60), max_size=3),
    st.integers(1, 5),
    st.integers(0, 60),
)


@given(checkpoints, rules, marked)
def test_what_must_stay_stays_whatever_the_settings(
    found: list[Held], rules: Retention, marks: Marks
) -> None:
    fates = judge(found, rules, marks)
    assert sorted(fate.held.name for fate in fates) == sorted(one.name for one in found)
    stays = {fate.held.name for fate in fates if not fate.goes}
    good = sorted((one for one in found if one.good), key=lambda one: -one.step)
    assert {one.name for one in good[:2]} <= stays
    assert {one.name for one in found if one.step in marks.pins} <= stays
    assert {one.name for one in found if one.seal in marks.pivots} <= stays
    if sum(one.attempt == marks.attempt for one in good) < 2:
        assert {one.name for one in good if one.seal == marks.resume} <= stays
    assert {one.name for one in [o for o in good if not o.audit][: rules.keep_last]} <= stays


@given(checkpoints, rules, marked)
def test_judging_what_stays_takes_nothing_more(
    found: list[Held], rules: Retention, marks: Marks
) -> None:
    stays = [fate.held for fate in judge(found, rules, marks) if not fate.goes]
    assert not any(fate.goes for fate in judge(stays, rules, marks))


@given(checkpoints, rules, marked, st.integers(1, 4))
def test_what_goes_would_go_after_one_more_seal_too(
    found: list[Held], rules: Retention, marks: Marks, attempt: int
) -> None:
    goes = {fate.held.name for fate in judge(found, rules, marks) if fate.goes}
    newer = held(61, attempt=attempt)
    after = {fate.held.name for fate in judge([*found, newer], rules, marks) if fate.goes}
    assert goes <= after


@given(checkpoints, rules, marked)
def test_stricter_settings_never_keep_more(
    found: list[Held], rules: Retention, marks: Marks
) -> None:
    strict = replace(rules, keep_last=max(2, rules.keep_last - 1), keep_audit=0)
    stays = {fate.held.name for fate in judge(found, rules, marks) if not fate.goes}
    fewer = {fate.held.name for fate in judge(found, strict, marks) if not fate.goes}
    assert fewer <= stays


def test_retention_follows_each_seal_with_the_attempt_and_its_resume_point() -> None:
    history = running(100)
    history.seal(100)
    assert history.all_of(Retain) == [Retain(1, "")]
    history.end()
    history.spawned(100)
    history.ready()
    history.steps(101, 200)
    history.seal(200)
    assert history.all_of(Retain)[1:] == [Retain(2, point(100).seal)]


def test_nothing_falls_back_to_what_is_gone() -> None:
    history = running(300)
    for step in (100, 200, 300):
        history.state = replace(
            history.state, attempt=replace(history.state.attempt, last_step=step)
        )
        history.seal(step)
    history.tell(Retained((point(100).seal,)))
    assert [seal.point.step for seal in history.state.seals] == [300, 200]
