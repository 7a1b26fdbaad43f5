"""The pivot: requested -> stopped(pin) -> installed -> done, forward only, whoever dies.

    stage       what is durable                            what comes next
    REQUESTED   pivot.json with the new policy             trainer saves at the boundary and exits
    STOPPED     the pin: the newest seal                   sidecars into archive/, policy installed
    INSTALLED   new policy in policies/, bandit empty      trainer resumes from the pin
    (done)      step pin + 1 under the new policy, synced  certificate, pivot.json removed

Cancelling is possible until STOPPED. The ledger appears in no stage but the last, as a witness.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from supervisor.core.bandit import fresh, with_contents
from supervisor.core.coherence.gate import NOTHING_SAMPLED
from supervisor.core.messages import (
    AdvancePivot,
    Answer,
    Asked,
    Effect,
    GiveOrders,
    Journal,
    Recorded,
    Say,
    SignalTrainer,
    StageDone,
)
from supervisor.core.policy import Policy, servable
from supervisor.core.restarting import Restarts
from supervisor.core.state import KEPT_SEALS, Life, Pivot, PivotStage, State
from trainer.contract.wire import Checkpoint, SaveOrder

Turn = tuple[State, list[Effect]]


def ask(state: State, event: Asked) -> Turn:
    """Accept a pivot whose policy the shell has checked, or say why not."""
    if state.pivot is not None:
        text = (
            f"cannot pivot: the pivot to policy {state.pivot.policy.number} is under way "
            f"({state.pivot.stage}); wait until it is done"
        )
        return state, [Answer(event.reply, {"error": text})]
    policy: Policy = event.fields["policy"]
    step = _last_step(state)
    clean = [seal.point.step for seal in state.seals]
    suspect = [seal.point.step for seal in state.quarantined]
    if state.attempt is not None and (problem := goes_back(clean, suspect, step)):
        return state, [Answer(event.reply, {"error": problem})]
    pivot = Pivot(
        PivotStage.ASKED, policy, step, event.fields["when"], event.fields["by"], reply=event.reply
    )
    facts = {
        "policy": policy.number,
        "text": event.fields["text"],
        "asked_step": step,
        "when": pivot.when,
        "by": pivot.by,
    }
    return replace(state, pivot=pivot), [AdvancePivot("requested", facts)]


def goes_back(clean: Sequence[int], suspect: Sequence[int], step: int) -> str:
    """Why a pivot at ``step`` would lose more than the last cadence; empty where it would not.

    ``clean`` and ``suspect`` are steps of sealed checkpoints, newest first; only clean ones can be
    the pin.
    """
    if not suspect or (clean and clean[0] > suspect[0]):
        return ""
    lost = f"{step - clean[0]} steps, to step {clean[0]}" if clean else "to the beginning"
    return (
        f"cannot pivot: it would go back {lost}, for what was sealed since is quarantined; wait "
        "until it is trusted, or see stepkeeper checkpoints and trust one: stepkeeper unquarantine"
    )


def cancel(state: State, event: Asked) -> Turn:
    """Withdraw a pivot that has not stopped the trainer yet."""
    pivot = state.pivot
    if pivot is None:
        return state, [Answer(event.reply, {"error": "cannot cancel: no pivot is under way"})]
    if pivot.stage not in (PivotStage.ASKED, PivotStage.REQUESTED):
        text = f"cannot cancel the pivot to policy {pivot.policy.number}: it is {pivot.stage}"
        return state, [Answer(event.reply, {"error": text})]
    state, effects = drop(state, "by the operator")
    return state, [*effects, Answer(event.reply, {"cancelled": pivot.policy.number})]


def drop(state: State, why: str) -> Turn:
    """Forget a pivot in ASKED or REQUESTED; the run goes on under the policy in force."""
    pivot = state.pivot
    if pivot is None:
        return state, []
    number = pivot.policy.number
    text = f"pivot to policy {number} cancelled {why}"
    effects: list[Effect] = [
        AdvancePivot("cancelled", {"policy": number, "why": why}),
        Say(text),
    ]
    if pivot.stage is PivotStage.ASKED and pivot.reply is not None:
        effects.append(Answer(pivot.reply, {"error": text}))
    save = state.orders.save
    if save is not None and save.then == "exit":
        # A save asked for before the pivot, whose order it took the place of, is due again.
        asked = state.saves[-1].serial if state.saves else 0
        again = SaveOrder(asked, "cadence" if state.settings.boundary else "step", "go")
        orders = state.orders._replace(
            serial=state.orders.serial + 1, save=again if asked else None
        )
        state = replace(state, orders=orders)
        effects.append(GiveOrders(orders))
    return replace(state, pivot=None), effects


def order_exit(state: State) -> Turn:
    """Order a checkpoint at the boundary and the exit after it, once the trainer is ready."""
    pivot, attempt = state.pivot, state.attempt
    if pivot is None or pivot.stage is not PivotStage.REQUESTED or attempt is None:
        return state, []
    if not attempt.ready or state.life is not Life.RUNNING:
        return state, []
    in_force = state.orders.save
    if in_force is not None and in_force.then == "exit":
        return state, [SignalTrainer(attempt.number, "USR1")]
    serial = state.orders.serial + 1
    save = SaveOrder(serial, "cadence" if pivot.when == "boundary" else "step", "exit")
    orders = state.orders._replace(serial=serial, save=save)
    state = replace(state, orders=orders, pivot=replace(pivot, serial=serial, honoured=None))
    return state, [GiveOrders(orders), SignalTrainer(attempt.number, "USR1")]


def note_checkpoint(state: State, report: Checkpoint) -> State:
    """Remember the checkpoint that answered the order, to notice a trainer that goes on after it.

    A trainer that does not read orders answers by the signal or at the cadence.
    """
    pivot = state.pivot
    if pivot is None or pivot.stage is not PivotStage.REQUESTED or not pivot.serial:
        return state
    last = state.attempt.last_step if state.attempt is not None else report.step
    # One that is reported late was perhaps begun before the pivot was asked for.
    since = pivot.asked_step + (report.step != last)
    unordered = report.save is None and report.step >= since
    # One on a signal that is reported late may have been begun before it could answer anything.
    signalled = report.reason == "signal" and report.step == last
    # One that ignores signal and order alike is given a whole cadence: the first boundary may
    # have come before the order did, as a repeated fold cannot tell.
    late = report.step >= pivot.asked_step + state.settings.cadence
    if report.save == pivot.serial or (unordered and (signalled or late)):
        return replace(state, pivot=replace(pivot, honoured=report.step))
    return state


def ignored(state: State) -> bool:
    """Whether the trainer went on after the checkpoint that should have been its last."""
    pivot, attempt = state.pivot, state.attempt
    return (
        pivot is not None
        and attempt is not None
        and pivot.stage is PivotStage.REQUESTED
        and pivot.honoured is not None
        and attempt.last_step > pivot.honoured
    )


def at_rest(state: State) -> bool:
    """Whether, with no trainer running, the newest seal can be the pin."""
    pivot = state.pivot
    if pivot is None or pivot.stage is not PivotStage.REQUESTED or not state.seals:
        return False
    # The pin is the newest clean one, though what was saved last be quarantined.
    newest = max(seal.point.step for seal in (*state.seals, *state.quarantined))
    if pivot.honoured is not None:
        return newest >= pivot.honoured
    if pivot.when == "now":
        return newest >= pivot.asked_step
    return newest >= boundary_after(pivot.asked_step, state.settings.cadence)


def pin_lost(state: State) -> bool:
    """Whether what would be resumed is neither the pin nor sealed above it by the new policy."""
    pivot = state.pivot
    if pivot is None or pivot.pin is None:
        return False
    for seal in state.seals:
        if seal.point == pivot.pin or seal.policy != pivot.policy.number:
            return seal.point != pivot.pin
    return len(state.seals) < KEPT_SEALS


def boundary_after(step: int, cadence: int) -> int:
    """The first multiple of the cadence at or after ``step``; ``step`` itself by clock only."""
    return -(-step // cadence) * cadence if cadence else step


def stop_done(state: State) -> Turn:
    """The trainer is gone and its last checkpoint sealed: make the pin durable."""
    pivot = state.pivot
    if pivot is None or not state.seals:
        return state, []
    pin = state.seals[0].point
    facts = _pin_facts(pivot, pin)
    pivot = replace(pivot, stage=PivotStage.STOPPING, pin=pin)
    return replace(state, pivot=pivot, life=Life.IDLE, deadline=None), [
        AdvancePivot("stopped", facts)
    ]


def stage_done(state: State, event: StageDone) -> Turn:
    """Move on: each stage begins only when the one before is durable. Other news is late."""
    pivot = state.pivot
    if pivot is None:
        return state, []
    match event.stage:
        case "requested" if pivot.stage is PivotStage.ASKED:
            state = replace(state, pivot=replace(pivot, stage=PivotStage.REQUESTED))
            effects: list[Effect] = [
                Journal(
                    "pivot-requested", {"policy": pivot.policy.number, "step": pivot.asked_step}
                )
            ]
            if pivot.reply is not None:
                answer = {"policy": pivot.policy.number, "asked_step": pivot.asked_step}
                effects.append(Answer(pivot.reply, answer))
            state, more = order_exit(state)
            return state, [*effects, *more]
        case "stopped" if pivot.stage is PivotStage.STOPPING:
            state = replace(state, pivot=replace(pivot, stage=PivotStage.STOPPED))
            return state, [install(pivot)]
        case "installed" if pivot.stage is PivotStage.STOPPED:
            return _installed(state, pivot)
        case "done" if pivot.stage is PivotStage.FINISHING:
            text = f"pivot to policy {pivot.policy.number} done"
            return replace(state, pivot=None), [Say(text)]
        case _:
            return state, []


def install(pivot: Pivot) -> AdvancePivot:
    """The effect that archives the sidecars and installs the policy."""
    facts = _pin_facts(pivot, pivot.pin) if pivot.pin else {}
    return AdvancePivot("installed", facts)


def note_recorded(state: State, event: Recorded) -> Turn:
    """The first line of the new policy ends the pivot."""
    pivot = state.pivot
    if pivot is None or pivot.stage is not PivotStage.INSTALLED or pivot.pin is None:
        return state, []
    if event.position.step <= pivot.pin.step:
        return state, []
    facts = {**_pin_facts(pivot, pivot.pin), "first_step": pivot.pin.step + 1}
    state = replace(state, pivot=replace(pivot, stage=PivotStage.FINISHING))
    return state, [AdvancePivot("done", facts)]


def _installed(state: State, pivot: Pivot) -> Turn:
    live = servable(pivot.policy, state.live)
    before = state.seals[0].bandit if state.seals else None
    step = pivot.pin.step if pivot.pin else 0
    bandit = fresh(pivot.policy, live, state.seed + pivot.policy.number, before, step)
    state = replace(
        state,
        policy=pivot.policy,
        bandit=with_contents(bandit, state.bandit),
        named=(),
        gate=NOTHING_SAMPLED,
        restarts=Restarts(),
        pivot=replace(pivot, stage=PivotStage.INSTALLED),
    )
    return state, []


def _pin_facts(pivot: Pivot, pin: object) -> dict[str, Any]:
    return {
        "policy": pivot.policy.number,
        "pin": pin,
        "asked_step": pivot.asked_step,
        "honoured": pivot.honoured,
        "by": pivot.by,
    }


def _last_step(state: State) -> int:
    if state.attempt is not None:
        return state.attempt.last_step
    return state.seals[0].point.step if state.seals else 0
