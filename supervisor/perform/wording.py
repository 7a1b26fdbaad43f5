"""What an effect is called where it fails, for the core and for a person."""

from __future__ import annotations

from supervisor.core.messages import (
    AdvancePivot,
    CloseAttempt,
    Effect,
    EndLeft,
    GiveOrders,
    Journal,
    KeepBandit,
    KeepIntent,
    KeepSamples,
    Lift,
    Pin,
    Record,
    Reject,
    Retain,
    Seal,
    SignalTrainer,
    Skip,
    Spawn,
    Unpin,
)


def name(effect: Effect | None) -> str:
    """What a failure is told under."""
    if isinstance(effect, AdvancePivot):
        return effect.stage
    return type(effect).__name__.lower()


_WORDS = {
    CloseAttempt: "record the attempt's end",
    EndLeft: "end what the trainer left behind",
    GiveOrders: "write the trainer's orders",
    Journal: "append to events.jsonl",
    KeepBandit: "write the bandit state",
    KeepIntent: "write down what is wanted",
    KeepSamples: "keep the samples",
    Pin: "pin the checkpoint",
    Record: "append to the ledger",
    Spawn: "start the trainer",
    type(None): "append to events.jsonl",
    Reject: "mark the checkpoint as rejected",
    Lift: "lift the quarantine of the checkpoint",
    Skip: "mark which data is to be skipped",
    Retain: "delete old checkpoints",
    Seal: "seal the checkpoint",
    SignalTrainer: "signal the trainer",
    Unpin: "unpin the checkpoint",
}


def words(effect: Effect | None) -> str:
    """What was to be done, for a person."""
    if isinstance(effect, AdvancePivot):
        return f"make the pivot {effect.stage}"
    return _WORDS.get(type(effect), name(effect))


def reason(error: Exception) -> str:
    """Why, for a person: a name only where it tells more."""
    if not isinstance(error, OSError) or error.strerror is None:
        return str(error)
    return f"{error.strerror} ({error.filename})" if error.filename else error.strerror
