"""The rules: ``decide(state, event, now) -> (state, effects)``, without I/O, clock or chance."""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from supervisor.core import hanging, hooks, quarantine, reloading, saving, trouble
from supervisor.core import pivot as pivots
from supervisor.core.arms import sources_seen
from supervisor.core.ending import drained, ended, go_on, spawn_failed
from supervisor.core.folding import bad_report, take_reports
from supervisor.core.keeping import pin_asked, retained
from supervisor.core.lifecycle import kill, leaving, stop, stop_asked, time_told
from supervisor.core.messages import (
    Answer,
    Asked,
    BadReport,
    ClockStepped,
    DiskSeen,
    Effect,
    Ended,
    Event,
    Exit,
    Failed,
    HookSeen,
    KeepBandit,
    KeepIntent,
    LeaveTerminal,
    LimitNear,
    Moved,
    Proved,
    Quiet,
    Recorded,
    Reports,
    Retained,
    Say,
    Sealed,
    Signalled,
    SourcesSeen,
    Spawned,
    SpawnFailed,
    StacksRecorded,
    StageDone,
    TerminalGone,
    Tick,
    Verified,
)
from supervisor.core.proving import proved, unproved, wait
from supervisor.core.state import Life, PivotStage, State

Turn = tuple[State, list[Effect]]


def decide(state: State, event: Event, now: float) -> Turn:
    """One event in, the new state and what shall be done out. Raises nothing on any history.

    After Exit nothing is begun any more: news is dropped, requests are refused.
    """
    if state.life is Life.LEAVING:
        text = "cannot do that: the supervisor is leaving; ask again when it is gone"
        return state, [Answer(event.reply, {"error": text})] if isinstance(event, Asked) else []
    return leaving(*trouble.bounded(*_turn(state, event, now), now))


def _turn(state: State, event: Event, now: float) -> Turn:
    match event:
        case Reports():
            return take_reports(state, event, now)
        case BadReport():
            return bad_report(state, event)
        case Recorded():
            return drained(*saving.recorded(state, event), now)
        case Spawned():
            return _spawned(state, event)
        case SpawnFailed():
            return spawn_failed(state, event, now)
        case Ended():
            return ended(state, event, now)
        case Verified():
            return drained(*saving.verified(state, event), now)
        case Sealed():
            return drained(*saving.sealed(state, event), now)
        case Proved():
            return _proved(state, event, now)
        case Retained():
            return retained(state, event)
        case Asked():
            return _asked(state, event, now)
        case Signalled():
            return _signalled(state, event, now)
        case StageDone():
            return _stage_done(state, event, now)
        case Failed():
            return _failed(state, event, now)
        case SourcesSeen():
            return sources_seen(state, event, now)
        case LimitNear() | ClockStepped():
            return time_told(state, event, now)
        case Quiet():
            return hanging.quiet(state, event, now)
        case Moved():
            return hanging.moved(state, event, now)
        case StacksRecorded():
            return hanging.stacks_recorded(state, event, now)
        case DiskSeen():
            return trouble.seen(state, event)
        case TerminalGone():
            return state, [LeaveTerminal(), Say("the terminal is gone: going on")]
        case HookSeen():
            return hooks.seen(state, event)
        case Tick():
            return _tick(state, now)
        case _:
            assert_never(event)


def _proved(state: State, event: Proved, now: float) -> Turn:
    state, effects = proved(state, event)
    refused = any(isinstance(effect, Exit) for effect in effects)
    if state.life is not Life.PROVING or refused:
        return state, effects
    # A bad one makes an older one the next to wait for; what is asked for twice is read once.
    state, more = wait(state) if unproved(state) else go_on(state, now)
    return state, effects + more


def _spawned(state: State, event: Spawned) -> Turn:
    attempt = state.attempt
    if attempt is None or attempt.number != event.attempt:
        return state, []
    attempt = replace(attempt, pid=event.pid, replay_until=event.ledger_step)
    text = f"attempt {attempt.number} started as pid {event.pid} after step {attempt.resumed}"
    return replace(state, attempt=attempt), [Say(text)]


def _asked(state: State, event: Asked, now: float) -> Turn:
    match event.verb:
        case "save":
            return saving.order_save(
                state,
                pin=event.fields.get("pin", False),
                note=event.fields.get("note", ""),
                reply=event.reply,
                sample=event.fields.get("sample", False),
            )
        case "stop":
            return stop_asked(state, event, now)
        case "release":
            return state, [
                Answer(event.reply, {"released": True}),
                KeepIntent(str(state.want), "", done=False, hold=False),
            ]
        case "pin" | "unpin":
            return pin_asked(state, event)
        case "unquarantine":
            return quarantine.asked(state, event)
        case "reload":
            return reloading.reload(state, reply=event.reply, restart=event.fields["restart"])
        case "restart":
            return reloading.restart(state, now)
        case "pivot":
            return pivots.ask(state, event)
        case "cancel-pivot":
            return pivots.cancel(state, event)
        case _:
            return state, [Answer(event.reply, {"error": f"cannot do {event.verb!r}: unknown"})]


def _signalled(state: State, event: Signalled, now: float) -> Turn:
    match event.name:
        case "TERM" | "INT":
            return stop(state, by=f"SIG{event.name}", now=now)
        case "USR1":
            return saving.order_save(state, pin=False, note="", reply=None)
        case _:
            return reloading.reload(state, reply=None, restart=False)


def _stage_done(state: State, event: StageDone, now: float) -> Turn:
    before = state.pivot
    state, effects = pivots.stage_done(state, event)
    if state.pivot == before:
        return state, effects
    if event.stage == "installed":
        state, more = go_on(state, now)
        return state, [*effects, KeepBandit(state.bandit), *more]
    rests = state.attempt is None and pivots.at_rest(state) and not unproved(state)
    if event.stage == "requested" and rests:
        state, more = pivots.stop_done(replace(state, deadline=None))
        return state, effects + more
    return state, effects


def _failed(state: State, event: Failed, now: float) -> Turn:
    if event.what == "seal":
        return drained(*saving.seal_failed(state, event), now)
    effects: list[Effect] = [Say(event.problem, alarm=True)]
    pivot = state.pivot
    if event.what == "requested" and pivot is not None and pivot.stage is PivotStage.ASKED:
        state = replace(state, pivot=None)
        if pivot.reply is not None:
            effects.append(Answer(pivot.reply, {"error": event.problem}))
    elif event.what == "done" and pivot is not None:
        # The next line recorded tries again; a stage that stays would refuse saves for ever.
        state = replace(state, pivot=replace(pivot, stage=PivotStage.INSTALLED))
    elif event.what in ("stopped", "installed", "record"):
        effects.append(Exit(1))
    return state, effects


def _tick(state: State, now: float) -> Turn:
    if state.deadline is None or now < state.deadline:
        return state, []
    state = replace(state, deadline=None)
    if state.life is Life.BACKOFF:
        return go_on(state, now)
    if state.life is Life.STOPPING:
        state, effects = kill(state)
        return state, [Say("no report since the stop: killing the trainer", alarm=True), *effects]
    return trouble.out_of_patience(state)
