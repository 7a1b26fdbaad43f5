"""Arms that come and go: who gets what they release, what is told, and what flapping costs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from supervisor.core.arms import news
from supervisor.core.bandit import ArmState, fresh
from supervisor.core.messages import GiveOrders, Journal, KeepBandit, Record, Say, SourcesSeen
from supervisor.core.policy import Algorithm, Arm, Policy, Unit
from supervisor.core.presence import Absence, leaves, may_join
from supervisor.core.roster import Standing, in_words, roster
from tests.support.history import LIVE, POLICY, History, fresh_state, step_report
from tests.support.history import running as begun

GONE = LIVE - {"code"}
SOURCES = {name: f"{name}-1" for name in LIVE}


def running(policy: Policy = POLICY) -> History:
    return begun(state=replace(fresh_state(), policy=policy, bandit=fresh(policy, LIVE, 8)))


def seen(history: History, live: frozenset[str] = LIVE, **contents: str) -> None:
    history.tell(SourcesSeen(live, tuple(contents.items())))


def journal(history: History, event: str) -> list[dict[str, Any]]:
    return [e.facts for e in history.all_of(Journal) if e.event == event]


def alarms(history: History) -> list[str]:
    return [e.text for e in history.all_of(Say) if e.alarm]


def test_an_arm_that_leaves_releases_its_floor_and_share_by_name() -> None:
    history = running()
    before = dict(history.state.bandit.phases[0].weights)
    seen(history, GONE)
    after = dict(history.state.bandit.phases[0].weights)
    (facts,) = journal(history, "arm-retired")
    assert (facts["arm"], facts["why"], facts["floor"]) == ("code", "unavailable", 0.1)
    assert facts["share"] == pytest.approx(before["code"], abs=1e-6)
    assert sum(facts["to"].values()) == pytest.approx(facts["share"], abs=1e-5)
    assert facts["to"].keys() <= after.keys()
    (text,) = alarms(history)
    assert "its floor 0.1 and share" in text
    assert all(f"{name} +" in text for name in facts["to"])
    assert [type(effect) for effect in history.last][-2:] == [GiveOrders, KeepBandit]


def test_a_phase_that_has_begun_ends_with_the_mix_that_it_began_with() -> None:
    """So what each step's propensity says is what the trainer drew by, and a replay is the same."""
    history = running()
    first, second = history.state.bandit.phases
    history.steps(1, 3)
    seen(history, GONE)
    now, then = history.state.orders.phases
    assert now == first
    assert set(dict(then.weights)) == GONE
    assert set(dict(second.weights)) == LIVE
    history.steps(4, 5)
    steps = [step for effect in history.all_of(Record) for step in effect.steps]
    told = [dict(step.extras)["propensity"] for step in steps]
    assert len(told) == 5
    assert told == [dict(first.weights)["chat"]] * 5


def test_a_source_that_is_back_is_a_fresh_arm_at_once_and_journaled() -> None:
    history = running()
    bandit = history.state.bandit
    arms = tuple(replace(arm, served=40, n=40, epochs=2.0) for arm in bandit.arms)
    history.state = replace(history.state, bandit=replace(bandit, arms=arms))
    seen(history, GONE)
    seen(history)
    (facts,) = journal(history, "arm-joined")
    assert (facts["arm"], facts["back"]) == ("code", True)
    code = next(arm for arm in history.state.bandit.arms if arm.name == "code")
    assert code == ArmState("code")
    assert history.state.bandit.served == 120


def test_a_source_that_flaps_every_second_does_not_flood_the_journal() -> None:
    history = running()
    for second in range(6 * 3600):
        history.now += 1.0
        live = GONE if second % 2 else LIVE
        if news(history.state, live, {}):
            history.tell(SourcesSeen(live))
    told = journal(history, "arm-retired"), journal(history, "arm-joined")
    assert 5 < len(told[0]) + len(told[1]) < 40
    assert len(alarms(history)) < 20
    assert len(history.state.bandit.retired) == 1


def test_an_arm_that_stayed_for_long_may_leave_and_be_back_at_once_again() -> None:
    known: tuple[Absence, ...] = ()
    now = 0.0
    waits = []
    for _ in range(9):
        known = leaves(known, "a", now)
        waits.append(next(w for w in range(8000) if may_join(known, "a", now + w)))
        now += waits[-1] + 10.0
    assert waits == [0, 30, 60, 120, 240, 480, 960, 1920, 3600]
    known = leaves(known, "a", now + 7300.0)
    assert may_join(known, "a", now + 7300.0)
    assert may_join((), "never away", 0.0)


def test_the_first_content_of_a_source_is_no_change() -> None:
    history = running()
    seen(history, **SOURCES)
    assert journal(history, "arm-changed") == []
    assert {arm.content for arm in history.state.bandit.arms} == set(SOURCES.values())


def test_a_changed_content_is_told_and_the_numbers_are_kept() -> None:
    history = running()
    history.steps(1, 3)
    seen(history, **SOURCES)
    before = {arm.name: arm for arm in history.state.bandit.arms}
    seen(history, **{**SOURCES, "chat": "chat-2"})
    (facts,) = journal(history, "arm-changed")
    assert facts == {"arm": "chat", "step": 3, "before": "chat-1", "after": "chat-2"}
    (text,) = alarms(history)
    assert "the content of arm chat changed (chat-1 to chat-2)" in text
    chat = next(arm for arm in history.state.bandit.arms if arm.name == "chat")
    assert before["chat"].served == 3
    assert chat == replace(before["chat"], content="chat-2", changed=3)


def test_a_source_that_grows_is_told_of_once_an_hour() -> None:
    history = running()
    seen(history, **SOURCES)
    for number in range(7200):
        history.now += 1.0
        contents = {**SOURCES, "code": f"code-{number + 2}"}
        if news(history.state, LIVE, contents):
            seen(history, **contents)
    told = journal(history, "arm-changed")
    assert len(told) == 2
    assert told[0]["after"] == told[1]["before"]
    assert told[1]["after"] == "code-3602"


def test_what_a_source_holds_is_known_across_attempts_and_pivots() -> None:
    history = running()
    seen(history, **SOURCES)
    history.end()
    history.wait()
    assert history.attempt == 2
    assert {arm.content for arm in history.state.bandit.arms} == set(SOURCES.values())


def test_bounds_that_the_others_cannot_keep_are_named_and_the_run_goes_on() -> None:
    arms = (Arm("chat", 0.0, 0.5), Arm("code", 0.0, 0.5), Arm("prose", 0.0, 0.3))
    policy = Policy(1, "1" * 32, Algorithm.STATIC, Unit.SHARE, arms)
    history = running(policy)
    before = history.state.bandit
    seen(history, GONE)
    (text,) = alarms(history)
    assert text.startswith("cannot serve policy 1 with the sources there are: the caps sum to 0.8")
    assert "pulls of code fail until their sources are back or a pivot brings bounds" in text
    (facts,) = journal(history, "policy-unservable")
    assert facts["missing"] == ["code"]
    assert history.state.bandit == before
    seen(history)
    assert "policy 1 can be served again" in [e.text for e in history.all_of(Say)]
    assert history.state.bandit == before


def test_every_arm_stands_somewhere() -> None:
    found = roster(
        ("a", "b", "c", "d", "e"),
        ("a", "b", "c", "e", "x"),
        ("a", "b", "e", "x"),
        {"a": False, "b": True, "old": False},
        ("e", "c", "older"),
    )
    assert found == {
        "a": Standing.LIVE,
        "b": Standing.CHANGED,
        "c": Standing.UNAVAILABLE,
        "d": Standing.REMOVED,
        "e": Standing.LEFT,
        "x": Standing.NEW,
        "old": Standing.ZOMBIE,
        "older": Standing.ZOMBIE,
    }
    assert in_words({"a": Standing.LIVE, "x": Standing.NEW}) == (
        "arms: live a; new x (waits until a pivot names it)"
    )
    assert in_words({}) == "arms: none"


def test_pulls_of_what_is_no_arm_are_told_once_and_counted() -> None:
    history = running()
    history.report(*(step_report(number, 0, arm="essays") for number in (1, 2)))
    history.report(step_report(3, 0, arm="essays"), step_report(4, 0, arm=""))
    assert journal(history, "arm-unknown") == [{"arm": "essays", "policy": 1}]
    (text,) = alarms(history)
    assert text.startswith("the trainer reports pulls of essays, which is no arm of policy 1")
    assert history.state.bandit.strangers == (("essays", 3), ("", 1))
    assert history.state.bandit.served == 4
