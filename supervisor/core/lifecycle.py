"""The trainer's life: how an attempt begins and how it is stopped."""

from __future__ import annotations

from dataclasses import replace

from supervisor.core.bandit import BanditState, fresh, reconcile, with_contents
from supervisor.core.gating import cut_at
from supervisor.core.guards import NOTHING_SEEN
from supervisor.core.limits import DEADLINE
from supervisor.core.messages import (
    Answer,
    Asked,
    Cause,
    ClockStepped,
    Effect,
    EndLeft,
    Exit,
    Journal,
    KeepBandit,
    KeepIntent,
    LimitNear,
    ReportsPosition,
    Say,
    SignalTrainer,
    Spawn,
)
from supervisor.core.policy import servable
from supervisor.core.proving import none_left, unproved, wait
from supervisor.core.state import Attempt, Life, PivotStage, State, Want
from trainer.contract.wire import PhaseOrder

HALTED = 12
Turn = tuple[State, list[Effect]]

_STILL = {
    Life.STOPPING: "still stopping: waiting for the trainer's checkpoint; stepkeeper stop --now "
    "kills it, and what is not saved is lost",
    Life.DRAINING: "still stopping: the trainer has ended, its last checkpoint is being sealed",
    Life.KILLING: "still stopping: the trainer is being killed",
}


def spawn(state: State, now: float) -> Turn:
    """Begin the next attempt from the newest seal, with the bandit state of that step.

    It waits in PROVING for what was not read back in this life.
    """
    if unproved(state):
        return wait(state)
    if not state.seals and state.sealed_before:
        return none_left(state)
    number = state.last_attempt + 1
    newest = state.seals[0] if state.seals else None
    point = newest.point if newest else None
    bandit = _bandit_at(state)
    orders = state.orders._replace(
        serial=state.orders.serial + 1,
        phases=phases_to_order(state, bandit),
        save=None,
        hold=state.trouble or None,
    )
    step = point.step if point else 0
    state, kept = cut_at(state, step)
    rolled, skip = newest.skip_of(number) if newest else (0, 0)
    attempt = Attempt(
        number,
        state.policy.number,
        point,
        ReportsPosition(number, 0, 0),
        step,
        now,
        step,
        step,
        skip=skip,
        rolled=rolled,
    )
    state = replace(
        state,
        life=Life.STARTING,
        attempt=attempt,
        last_attempt=number,
        bandit=bandit,
        guards=(newest.guards if newest else None) or NOTHING_SEEN,
        orders=orders,
        pending=(),
        deadline=None,
        settings=state.next_settings or state.settings,
        next_settings=None,
        again=False,
        quarantined=tuple(seal for seal in state.quarantined if seal.point.step < step),
    )
    return state, [
        *kept,
        KeepBandit(bandit),
        Spawn(number, point, state.policy.number, orders, skip),
    ]


def phases_to_order(state: State, bandit: BanditState) -> tuple[PhaseOrder, ...]:
    """The decided phases; a replay is given those that its reports name, repeats included."""
    named = {phase.phase: phase for phase in state.named}
    return tuple(named.get(phase.phase, phase) for phase in bandit.phases)


def _bandit_at(state: State) -> BanditState:
    """The bandit state of the newest seal; of another policy it gives weights only."""
    newest = state.seals[0] if state.seals else None
    live = servable(state.policy, state.live)
    if newest and newest.policy == state.policy.number and newest.bandit is not None:
        bandit = reconcile(newest.bandit, state.policy, live, newest.point.step)[0]
        return with_contents(bandit, state.bandit)
    before = newest.bandit if newest else None
    step = newest.point.step if newest else 0
    bandit = fresh(state.policy, live, state.seed + state.policy.number, before, step)
    return with_contents(bandit, state.bandit)


def stop(state: State, *, by: str, hold: bool = False, at_once: bool = False, now: float) -> Turn:
    """The operator wants the run stopped; wins over any restart rule.

    ``by`` is empty where an earlier life of the supervisor has begun this stop.
    """
    held = hold or None  # a stop that does not ask for it leaves an earlier hold as it is
    told: list[Effect] = []
    first = state.want is not Want.STOP
    state = replace(state, want=Want.STOP)
    attempt = state.attempt
    if first and by:
        step = attempt.last_step if attempt else None
        told = [Journal("stop-asked", {"by": by, "step": step})]
    if state.life in (Life.BACKOFF, Life.PROVING) or (
        state.life is Life.IDLE and _pivot_rests(state)
    ):
        return replace(state, life=Life.IDLE, deadline=None), [
            *told,
            KeepIntent("stop", by, done=True, hold=held),
            Say("stopped; no trainer was running"),
            stopped(state),
        ]
    effects: list[Effect] = [KeepIntent("stop", by, done=False, hold=held), *told]
    if attempt is not None:
        if state.life in (Life.STARTING, Life.RUNNING, Life.STOPPING) and (
            at_once or state.life is Life.STARTING
        ):
            state, more = kill(state)
            effects += more
        elif state.life is Life.RUNNING:
            who = by or "an earlier stop"
            text = f"stopping, asked by {who}: the trainer saves at the end of its step"
            state, more = ask_to_end(state, now)
            effects += [*more, Say(text)]
        elif not first:
            effects.append(Say(_STILL.get(state.life, f"still stopping: {state.life}")))
    return state, effects


def stopped(state: State) -> Exit:
    """The end of a stop that was carried out: of the operator's, or of a guard's."""
    return Exit(HALTED if state.halted else 0)


def _pivot_rests(state: State) -> bool:
    """Whether no pivot's files are being moved at this moment."""
    return state.pivot is None or state.pivot.stage is PivotStage.REQUESTED


def ask_to_end(state: State, now: float) -> Turn:
    """Have the trainer save and end; one that was stopped by a signal is woken for it."""
    if state.attempt is None:
        return state, []
    number = state.attempt.number
    state = replace(state, life=Life.STOPPING, deadline=now + grace(state))
    return state, [SignalTrainer(number, "TERM"), SignalTrainer(number, "CONT")]


def kill(state: State, cause: Cause | None = None) -> Turn:
    """End the trainer at once; ``cause`` names a verdict of ours."""
    if state.attempt is None:
        return state, []
    attempt = replace(state.attempt, cause=cause or state.attempt.cause)
    state = replace(state, life=Life.KILLING, deadline=None, attempt=attempt)
    return state, [SignalTrainer(attempt.number, "KILL")]


def grace(state: State) -> float:
    """Seconds a stop may take without a report: from measured steps and saves."""
    attempt = state.attempt
    if attempt is None:
        return state.settings.grace
    return state.settings.grace + 5 * attempt.longest_step + 10 * attempt.longest_save


def stop_asked(state: State, event: Asked, now: float) -> Turn:
    """The verb ``stop``."""
    state, effects = stop(
        state,
        by=event.fields.get("by", "operator"),
        hold=event.fields.get("hold", False),
        at_once=event.fields.get("now", False),
        now=now,
    )
    return state, [Answer(event.reply, {"stopping": True}), *effects]


def time_told(state: State, event: LimitNear | ClockStepped, now: float) -> Turn:
    """News of the clocks."""
    if isinstance(event, LimitNear):
        return _limit_near(state, event, now)
    return _clock_stepped(state, event)


def _limit_near(state: State, event: LimitNear, now: float) -> Turn:
    """A time limit of the machine is as near as a stop needs: as the operator's stop, in time."""
    if state.want is Want.STOP:
        return state, []
    facts = {"limit": event.limit, "left": round(event.left, 1), "needed": round(event.needed, 1)}
    when = f"is {event.left:.0f} s away" if event.left > 0 else f"was {-event.left:.0f} s ago"
    text = f"limits.{event.limit} {when} and a stop may need {event.needed:.0f} s: stopping now"
    state, effects = stop(state, by=DEADLINE, now=now)
    return state, [Journal(DEADLINE, facts), Say(text), *effects]


def _clock_stepped(state: State, event: ClockStepped) -> Turn:
    """Say that the wall clock jumped: a limit in wall time has come nearer or gone farther."""
    way = "forward" if event.seconds > 0 else "back"
    text = f"the clock was set {way} by {abs(event.seconds):.0f} s, or the machine slept"
    if event.left is not None:
        there = f"{event.left:.0f} s away" if event.left > 0 else f"{-event.left:.0f} s ago"
        text += f"; by it limits.stop_at is {there}"
    facts = {"seconds": round(event.seconds, 1), "left": event.left and round(event.left, 1)}
    return state, [Journal("clock-stepped", facts), Say(text, alarm=event.left is not None)]


def leaving(state: State, effects: list[Effect]) -> Turn:
    """Nothing of a trainer that is gone outlives its supervisor that leaves."""
    if not any(isinstance(effect, Exit) for effect in effects):
        return state, effects
    if state.attempt is None:
        at = next(n for n, effect in enumerate(effects) if isinstance(effect, Exit))
        effects = [*effects[:at], EndLeft(), *effects[at:]]
    return replace(state, life=Life.LEAVING, deadline=None), effects
