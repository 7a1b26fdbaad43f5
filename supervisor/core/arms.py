"""Arms whose sources come, go and change while a run goes on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from supervisor.core.bandit import ArmState, BanditState, Retired, reconcile
from supervisor.core.lifecycle import phases_to_order
from supervisor.core.messages import (
    Effect,
    GiveOrders,
    Journal,
    KeepBandit,
    Say,
    SourcesSeen,
)
from supervisor.core.policy import Policy, problem_of
from supervisor.core.presence import leaves, may_join
from supervisor.core.state import State
from trainer.contract.wire import PhaseOrder

AGAIN = 3600.0  # seconds after which a content that goes on changing is told of again
_DIGITS, _SHOWN = 6, 5e-7  # of shares in the journal
_NAMED = 8  # arms that are said to have got what one released
Turn = tuple[State, list[Effect]]


def tell_retired(
    retired: tuple[Retired, ...], policy: Policy, before: BanditState | None, after: BanditState
) -> list[Effect]:
    """Journal and name arms that were retired, what each released, and who got it.

    ``before`` is the state that still had them, None where there was none.
    """
    told: list[Effect] = []
    floors = {arm.name: arm.floor for arm in policy.arms}
    was, shares = _shares(before, after)
    gains = {name: share - was.get(name, 0.0) for name, share in shares.items()}
    gained = sorted((name for name in gains if gains[name] > _SHOWN), key=lambda n: (-gains[n], n))
    to = {name: round(gains[name], _DIGITS) for name in gained[:_NAMED]}
    for one in retired:
        name, floor, share = one.arm.name, floors.get(one.arm.name, 0.0), was.get(one.arm.name, 0.0)
        facts: dict[str, Any] = {"arm": name, "why": one.why, "step": one.step}
        facts["served"] = one.arm.served
        facts |= {"floor": floor, "share": round(share, _DIGITS), "to": to}
        got = ", ".join(f"{other} +{gain:.3f}" for other, gain in to.items()) or "nobody"
        text = (
            f"arm {name} retired: {one.why}; its floor {floor:g} and share {share:.3f} go to {got}"
        )
        told += [Journal("arm-retired", facts), Say(text, alarm=True)]
    return told


def tell_joined(before: BanditState, after: BanditState, step: int) -> list[Effect]:
    """Journal and name arms that the state has now and had not: each begins with no numbers."""
    had = {arm.name for arm in before.arms}
    left = {retired.arm.name: retired.arm for retired in before.retired}
    told: list[Effect] = []
    for arm in after.arms:
        if arm.name in had:
            continue
        back = arm.name in left
        told.append(Journal("arm-joined", {"arm": arm.name, "step": step, "back": back}))
        how = "is back and begins with no numbers" if back else "begins"
        told.append(Say(f"arm {arm.name} {how}: its source is there"))
    return told


def tell_strangers(before: BanditState, after: BanditState) -> list[Effect]:
    """Journal and name what the trainer has drawn from and this policy does not have."""
    if after.strangers == before.strangers:
        return []
    had = dict(before.strangers)
    told: list[Effect] = []
    for name, _ in after.strangers:
        if name and name not in had:
            text = (
                f"the trainer reports pulls of {name}, which is no arm of policy {after.policy}: "
                "they are counted apart and teach nothing; correct the trainer, or pivot to a "
                "policy that has it"
            )
            facts = {"arm": name, "policy": after.policy}
            told += [Journal("arm-unknown", facts), Say(text, alarm=True)]
    return told


def news(state: State, live: frozenset[str], contents: dict[str, str]) -> bool:
    """Whether what was seen of the sources is other than what the core knows."""
    return live != state.live or any(
        contents.get(arm.name, "") not in ("", arm.content) for arm in state.bandit.arms
    )


def sources_seen(state: State, event: SourcesSeen, now: float) -> Turn:
    """Retire arms whose source went, from the next phase on; one that is back starts empty."""
    back = (arm for arm in event.live - state.live if may_join(state.absences, arm, now))
    live = (event.live & state.live) | frozenset(back)
    before = state
    for arm in sorted(state.live - live):
        state = replace(state, absences=leaves(state.absences, arm, now))
    state, effects = _came_and_went(replace(state, live=live), before)
    state, more = _changed(state, dict(event.contents), now)
    effects += more
    if state.bandit is before.bandit:
        return state, effects
    if state.attempt is not None and state.orders != before.orders:
        effects.append(GiveOrders(state.orders))
    if state.attempt is not None:
        effects.append(KeepBandit(state.bandit))
    return state, effects


def _came_and_went(state: State, before: State) -> Turn:
    """The arms by the sources that are there now."""
    if state.live == before.live:
        return state, []
    policy, step = state.policy, _last_step(state)
    if problem := problem_of(policy, state.live):
        return state, _unservable(state, problem)
    bandit, retired = reconcile(state.bandit, policy, state.live, step)
    effects = tell_retired(retired, policy, before.bandit, bandit)
    effects += tell_joined(before.bandit, bandit, step)
    if problem_of(policy, before.live):
        effects.append(Say(f"policy {policy.number} can be served again"))
    state = replace(state, bandit=bandit, named=(*state.named, *_in_progress(before, bandit, step)))
    if state.attempt is not None and bandit is not before.bandit:
        phases = phases_to_order(state, bandit)
        orders = state.orders._replace(serial=state.orders.serial + 1, phases=phases)
        state = replace(state, orders=orders)
    return state, effects


def _in_progress(before: State, after: BanditState, step: int) -> tuple[PhaseOrder, ...]:
    """The phase that has begun and is ended with the mix that it began with, by any trainer."""
    first, rest = before.bandit.phases[:1], after.phases[:1]
    known = {phase.phase for phase in before.named}
    begun = before.attempt is not None and step > before.bandit.step
    return first if begun and first != rest and first[0].phase not in known else ()


def _unservable(state: State, problem: str) -> list[Effect]:
    """The mix stays as it is: pulls of what is gone fail, and the run goes on."""
    gone = sorted(arm.name for arm in state.policy.arms if arm.name not in state.live)
    number = state.policy.number
    text = (
        f"cannot serve policy {number} with the sources there are: {problem}; the mix stays, and "
        f"pulls of {', '.join(gone)} fail until their sources are back or a pivot brings bounds "
        "that the others can keep"
    )
    return [
        Journal("policy-unservable", {"policy": number, "problem": problem, "missing": gone}),
        Say(text, alarm=True),
    ]


def _changed(state: State, contents: dict[str, str], now: float) -> Turn:
    """Take note of what the sources hold; what changed is told, and its arm's numbers are kept.

    What was learned of the old documents fades by itself, and a source that grows would never be
    known otherwise. One that goes on changing is told of once an hour.
    """
    effects: list[Effect] = []
    step, told = _last_step(state), dict(state.contents_told)
    arms = []
    for old in state.bandit.arms:
        seen = contents.get(old.name, "")
        known = seen in ("", old.content)
        waits = old.content and old.name in told and now - told[old.name] < AGAIN
        if known or waits:
            arms.append(old)
            continue
        arm = replace(old, content=seen)
        if old.content:
            arm = replace(arm, changed=step)
            told[old.name] = now
            effects += _tell_changed(old, seen, step)
        arms.append(arm)
    if all(arm is old for arm, old in zip(arms, state.bandit.arms, strict=True)):
        return state, []
    bandit = replace(state.bandit, arms=tuple(arms))
    return replace(state, bandit=bandit, contents_told=tuple(told.items())), effects


def _tell_changed(arm: ArmState, seen: str, step: int) -> Iterable[Effect]:
    facts = {"arm": arm.name, "step": step, "before": arm.content, "after": seen}
    text = (
        f"the content of arm {arm.name} changed ({arm.content} to {seen}); its numbers are kept, "
        "and its epochs begin anew where the trainer says so"
    )
    return [Journal("arm-changed", facts), Say(text, alarm=True)]


def _shares(
    before: BanditState | None, after: BanditState
) -> tuple[dict[str, float], dict[str, float]]:
    """Shares in the first phase that both states have decided; of a state without one, none."""
    old = {phase.phase: phase for phase in before.phases} if before else {}
    both = next((phase for phase in after.phases if phase.phase in old), None)
    if both is None:
        return {}, {}
    return dict(old[both.phase].weights), dict(both.weights)


def _last_step(state: State) -> int:
    if state.attempt is not None:
        return state.attempt.last_step
    return state.seals[0].point.step if state.seals else 0
