"""Which lines of the journal somebody should look at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_ALARMS: Final = frozenset(
    {
        "replay-differed",
        "checkpoint-refused",
        "checkpoint-rejected",
        "losses-differ",
        "seal-failed",
        "contract-broken",
        "hang",
        "gave-up",
        "clock-stepped",
        "disk-trouble",
        "rewound",
        "arm-retired",
        "quarantined",
        "rolled-back",
        "skip-ignored",
        "arm-changed",
        "arm-unknown",
        "policy-unservable",
        "hook-failing",
        "hook-left",
    }
)
_AS_MEANT: Final = ("finished", "stopped")
_NOTED: Final = "record"  # the mildest rung of the ladder


def is_alarm(event: str, facts: Mapping[str, Any]) -> bool:
    """Whether somebody should look at a line with this event and these facts."""
    if event == "attempt-ended":
        return facts.get("cause") not in _AS_MEANT
    if event == "guard":
        return facts.get("action") != _NOTED
    return event in _ALARMS
