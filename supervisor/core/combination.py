"""What a proof of resume holds for: how two combinations of code, settings and machine differ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

VALID: Final = "valid"
NONE: Final = "none"
OTHER: Final = "of another combination"
_PROVED: Final = "proved"
_SHOWN: Final = 40
_NAMED: Final = 3  # differences
_NEITHER: Final = ("data", "settings")  # of what a trainer says of itself: told elsewhere


def standing(
    proof: Mapping[str, Any] | None, now: Mapping[str, Any], trained: Mapping[str, Any] | None
) -> tuple[str, str]:
    """Whether a proof holds, in a word, and why it does not.

    ``now`` is what a start would train by, as far as that can be told without one; ``trained``
    the identities in a checkpoint that was made after the proof, or None.
    """
    if proof is None:
        return NONE, ""
    if proof["verdict"] != _PROVED:
        return str(proof["verdict"]), str(proof["why"])
    present = dict(now)
    if trained is not None:
        present["identities"] = identities(trained)
    found = differences(proof["combination"], present)
    return (OTHER, "; ".join(found[:_NAMED])) if found else (VALID, "")


def differences(proved: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """One phrase for each part that is not what was proved; a part unknown on one side is none."""
    found = []
    for part in proved:
        if part not in now:
            continue
        before, after = _flat(proved[part], part), _flat(now[part], part)
        found += [
            f"{key} was {_short(before.get(key))} and is {_short(after.get(key))}"
            for key in sorted(before.keys() | after.keys())
            if before.get(key) != after.get(key)
        ]
    return found


def identities(told: Mapping[str, Any]) -> dict[str, Any]:
    """Of a companion's identities what a resume depends on: data and settings stand elsewhere."""
    return {key: value for key, value in told.items() if key not in _NEITHER}


def _flat(value: object, name: str) -> dict[str, Any]:
    if isinstance(value, dict):
        flat: dict[str, Any] = {}
        for key, inner in value.items():
            flat |= _flat(inner, f"{name}.{key}")
        return flat
    return {name: value}


def _short(value: object) -> str:
    text = "unset" if value is None else str(value)
    return text if len(text) <= _SHOWN else text[:12] + "..."
