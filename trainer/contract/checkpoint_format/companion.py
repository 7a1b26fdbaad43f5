"""The companion of a checkpoint: everything a resume needs that the five regions do not hold.

JSON, so nothing is ever unpickled. What both programs must agree on is read strictly here; the
inside of ``rng``, ``cursors``, ``schedule``, ``phase``, ``scaler``, ``identities`` and ``next`` is
the trainer's own, and any JSON object will do.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from trainer.contract.checkpoint_format.layout import FORMATS, CheckpointFormatError, size_of
from trainer.contract.checkpoint_format.strict_object import strict_object

COMPANION_SCHEMA: Final = "stepkeeper.companion/2"
_FIRST_SCHEMA: Final = "stepkeeper.companion/1"
MOST_LOSSES: Final = 10_000
_ADDED: Final = {"format": "bin", "losses": None, "next": None}  # by the second schema
REASONS: Final = ("cadence", "clock", "signal", "stop")
NONFINITE: Final = ("nan", "inf", "-inf")
_DIGEST: Final = re.compile("[0-9a-f]{64}")


def _is_whole(value: object) -> bool:
    return type(value) is int and value >= 0


def _is_object(value: object) -> bool:
    return isinstance(value, dict)


def _is_object_or_null(value: object) -> bool:
    return value is None or isinstance(value, dict)


def _is_digest(value: object) -> bool:
    return isinstance(value, str) and _DIGEST.fullmatch(value) is not None


def _is_losses(value: object) -> bool:
    match value:
        case None:
            return True
        case {"first": int(first), "values": [*values], **others}:
            numbers = all(type(v) is float or v in NONFINITE for v in values)
            return first > 0 and numbers and len(values) <= MOST_LOSSES and not others
        case _:
            return False


_SHAPES: Final[dict[str, tuple[Callable[[object], bool], str]]] = {
    "step": (_is_whole, "a whole number of 0 or more"),
    "bytes": (_is_whole, "a whole number of 0 or more"),
    "n_params": (_is_whole, "a whole number of 0 or more"),
    "sha256": (_is_digest, "64 hex digits"),
    "rng": (_is_object, "an object"),
    "cursors": (_is_object, "an object"),
    "schedule": (_is_object, "an object"),
    "phase": (_is_object_or_null, "an object or null"),
    "scaler": (_is_object_or_null, "an object or null"),
    "identities": (_is_object, "an object"),
    "reason": (lambda value: value in REASONS, " or ".join(REASONS)),
    "saved": (lambda value: isinstance(value, str), "text"),
    "format": (lambda value: value in FORMATS, " or ".join(FORMATS)),
    "losses": (_is_losses, f"null, or the first step and at most {MOST_LOSSES} values"),
    "next": (_is_object_or_null, "an object or null"),
}


class Companion(NamedTuple):
    """``step_NNNNNN.json``, field by field.

    ``sha256`` and ``bytes`` are the checkpoint's; those of a folder are the digest of its index
    and the sum of its files. ``parameters`` are names and shapes in the order of the arrays.
    ``rng`` holds generator states as numbers or hex; ``cursors`` where each arm stands;
    ``schedule`` where the optimizer stands; ``phase`` the one in progress, or None; ``scaler`` the
    state of a loss scaler, or None; ``identities`` what code, settings, data and libraries made
    this. ``reason`` is one of ``REASONS``; ``saved`` is wall time, for people.
    ``format`` is one of ``FORMATS``. ``losses`` are those of the steps since the checkpoint before:
    ``first`` names the first of them, a value that is not finite is given by its word; None where
    they are not kept. ``next`` is what the first step of a resume has to find, or None.
    """

    step: int
    sha256: str
    bytes: int
    n_params: int
    parameters: tuple[tuple[str, tuple[int, ...]], ...]
    rng: dict[str, Any]
    cursors: dict[str, Any]
    schedule: dict[str, Any]
    phase: dict[str, Any] | None
    scaler: dict[str, Any] | None
    identities: dict[str, Any]
    reason: str
    saved: str
    format: str = "bin"
    losses: dict[str, Any] | None = None
    next: dict[str, Any] | None = None


def format_companion(companion: Companion) -> bytes:
    """The file's content. Raises ValueError for a number that JSON cannot say."""
    record = {"schema": COMPANION_SCHEMA, **companion._asdict()}
    record["parameters"] = [[name, list(shape)] for name, shape in companion.parameters]
    return json.dumps(record, allow_nan=False, separators=(",", ":")).encode("ascii") + b"\n"


def read_companion(data: bytes, path: str) -> Companion:
    """Parse and check a companion. Raises CheckpointFormatError with the first fault."""
    record = strict_object(data, path)
    if record.get("schema") == _FIRST_SCHEMA:
        record = migrate_v1_to_v2(record)
    schema = record.pop("schema", None)
    if schema != COMPANION_SCHEMA:
        expected = f"{_FIRST_SCHEMA} or {COMPANION_SCHEMA}"
        raise CheckpointFormatError(path, "schema", expected, schema)
    if set(record) != set(Companion._fields):
        wrong = sorted(set(record) ^ set(Companion._fields))
        raise CheckpointFormatError(path, "keys", ", ".join(Companion._fields), ", ".join(wrong))
    for key, (holds, expected) in _SHAPES.items():
        if not holds(record[key]):
            raise CheckpointFormatError(path, key, expected, record[key])
    record["parameters"] = _parameters(record["parameters"], path)
    companion = Companion(**record)
    _agrees_with_itself(companion, path)
    return companion


def migrate_v1_to_v2(record: dict[str, Any]) -> dict[str, Any]:
    """What a companion of the first schema says in the second: all it spoke of were ``.bin``.

    A key that the first schema did not have stays, and is refused as any unknown one.
    """
    renamed = {f"{key} in schema 1" if key in _ADDED else key: record[key] for key in record}
    return {**renamed, "schema": COMPANION_SCHEMA, **_ADDED}


def _agrees_with_itself(companion: Companion, path: str) -> None:
    total = sum(math.prod(shape) for _, shape in companion.parameters)
    if total != companion.n_params:
        raise CheckpointFormatError(path, "sum of the shapes", companion.n_params, total)
    if companion.format == "bin" and companion.bytes != size_of(companion.n_params):
        raise CheckpointFormatError(path, "bytes", size_of(companion.n_params), companion.bytes)


def _parameters(value: object, path: str) -> tuple[tuple[str, tuple[int, ...]], ...]:
    expected = "a list of [name, [sizes]]"
    if not isinstance(value, list):
        raise CheckpointFormatError(path, "parameters", expected, value)
    result: list[tuple[str, tuple[int, ...]]] = []
    for item in value:
        match item:
            case [str(name), [*sizes]] if all(type(size) is int and size > 0 for size in sizes):
                result.append((name, tuple(sizes)))
            case _:
                raise CheckpointFormatError(path, "parameters", expected, item)
    if len(dict(result)) != len(result):
        raise CheckpointFormatError(path, "parameters", "each name once", [n for n, _ in result])
    return tuple(result)
