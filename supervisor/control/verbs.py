"""What an operator may ask: the closed set of verbs and the fields of each."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

NAME: Final = "control.sock"
LIMIT: Final = 1 << 16  # bytes of a line, either way
READING: Final = frozenset({"status"})  # verbs that change nothing, so anyone who connects may
_LONGEST_NOTE = 1000


def _one_of(*words: str) -> Callable[[object], bool]:
    return lambda value: value in words


def _flag(value: object) -> bool:
    return isinstance(value, bool)


def _note(value: object) -> bool:
    return isinstance(value, str) and len(value) <= _LONGEST_NOTE and value.isprintable()


def _step(value: object) -> bool:
    return type(value) is int and value >= 0


def _policy(value: object) -> bool:
    return value is None or (isinstance(value, dict | str) and bool(value))


# verb -> field -> (what holds, how it reads, the default)
_VERBS: Final[dict[str, dict[str, tuple[Callable[[object], bool], str, object]]]] = {
    "status": {},
    "save": {
        "align": (_one_of("step", "cadence"), "step or cadence", "step"),
        "then": (_one_of("go"), "go", "go"),
        "pin": (_flag, "true or false", False),
        "note": (_note, "printable text of at most 1000 characters", ""),
        "sample": (_flag, "true or false", False),
    },
    "stop": {
        "hold": (_flag, "true or false", False),
        "now": (_flag, "true or false", False),
    },
    "release": {},
    "pin": {
        "step": (_step, "a step, a whole number", None),
        "note": (_note, "printable text of at most 1000 characters", ""),
    },
    "unpin": {"step": (_step, "a step, a whole number", None)},
    "unquarantine": {"step": (_step, "a step, a whole number", None)},
    "reload": {"restart": (_flag, "true or false", False)},
    "pivot": {
        "policy": (_policy, "an object or TOML text", None),  # None: with reset, the one in force
        "when": (_one_of("boundary", "now"), "boundary or now", "boundary"),
        "reset": (_flag, "true or false", False),
    },
    "cancel-pivot": {},
}


class BadRequestError(ValueError):
    """A request that is answered with its message."""


def parse(line: bytes) -> tuple[str, dict[str, Any]]:
    """Verb and complete, checked fields of one request line. Raises BadRequestError."""
    try:
        record = json.loads(line, object_pairs_hook=_once, parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise BadRequestError("cannot read the request: it is not strict JSON") from None
    if not isinstance(record, dict) or not isinstance(record.get("verb"), str):
        raise BadRequestError("cannot read the request: an object with a verb is expected")
    verb = record.pop("verb")
    if verb not in _VERBS:
        raise BadRequestError(f"cannot do {verb[:40]!r}: the verbs are {', '.join(_VERBS)}")
    allowed = _VERBS[verb]
    unknown = sorted(set(record) - set(allowed))
    if unknown:
        raise BadRequestError(
            f"cannot {verb}: unknown field {unknown[0][:40]!r}; "
            f"it takes {', '.join(allowed) or 'none'}"
        )
    fields: dict[str, Any] = {}
    for key, (holds, expected, default) in allowed.items():
        fields[key] = record.get(key, default)
        if not holds(fields[key]):
            raise BadRequestError(f"cannot {verb}: {key} must be {expected}")
    if verb == "pivot" and fields["policy"] is None and not fields["reset"]:
        raise BadRequestError("cannot pivot: give a policy, or reset for the one in force")
    return verb, fields


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) != len(pairs):
        raise ValueError("a key stands twice")
    return record


def _refuse(word: str) -> None:
    raise ValueError(f"{word} is not JSON")


def address(folder: int) -> str:
    """The socket's address through a descriptor of the run directory."""
    return f"/proc/self/fd/{folder}/{NAME}"
