"""The rungs of the ladder of actions, by the names that settings and the journal use."""

from __future__ import annotations

from enum import StrEnum


class Action(StrEnum):
    """A rung, from the mildest to the hardest."""

    RECORD = "record"
    ALERT = "alert"
    CHECKPOINT = "checkpoint"
    FREEZE = "freeze"
    ROLL_BACK = "rollback"
    STOP = "stop"
