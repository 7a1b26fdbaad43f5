"""Arms whose sources come and go while a run goes on."""

from __future__ import annotations

from dataclasses import replace

from supervisor.core.bandit import Retired, reconcile
from supervisor.core.lifecycle import phases_to_order
from supervisor.core.messages import (
    Effect,
    GiveOrders,
    Journal,
    KeepBandit,
    Say,
    SourcesSeen,
)
from supervisor.core.policy import problem_of
from supervisor.core.state import State

Turn = tuple[State, list[Effect]]


def tell_retired(retired: tuple[Retired, ...]) -> list[Effect]:
    """Journal and name arms that were retired."""
    journal: list[Effect] = [
        Journal("arm-retired", {"arm": r.arm.name, "why": r.why, "served": r.arm.served})
        for r in retired
    ]
    return journal + [Say(f"arm {r.arm.name} retired: {r.why}", alarm=True) for r in retired]


def sources_seen(state: State, event: SourcesSeen) -> Turn:
    """Retire arms whose source went, from the next phase on; one that is back starts empty."""
    problem = problem_of(state.policy, event.live)
    if problem:
        text = f"cannot serve policy {state.policy.number} with the sources there are: {problem}"
        return replace(state, live=event.live), [Say(text, alarm=True)]
    step = state.attempt.last_step if state.attempt else 0
    bandit, retired = reconcile(state.bandit, state.policy, event.live, step)
    state = replace(state, live=event.live, bandit=bandit)
    if state.attempt is None or not retired:
        return state, tell_retired(retired)
    phases = phases_to_order(state, bandit)
    orders = state.orders._replace(serial=state.orders.serial + 1, phases=phases)
    state = replace(state, orders=orders)
    return state, [*tell_retired(retired), GiveOrders(orders), KeepBandit(bandit)]
