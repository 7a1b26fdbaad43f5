"""From bytes to values: what is not exactly as agreed is refused with a reason."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any

from pydantic_core import from_json

from trainer.contract.wire.words import (
    ACTIVITIES,
    ARM_FIELD,
    MAX_LINE,
    ArmResult,
    Checkpoint,
    Doing,
    Evaluation,
    Finished,
    Orders,
    Phase,
    PhaseOrder,
    Ready,
    Report,
    Sample,
    SaveOrder,
    Step,
    WireError,
    nonfinite,
)


def read_orders(data: bytes) -> Orders:
    """Parse an orders file. Raises WireError."""
    record = _object(data)
    phases = tuple(
        PhaseOrder(_int(p, "phase"), _int(p, "steps"), _weights(p)) for p in _list(record, "phases")
    )
    save = record.get("save")
    order = None
    if save is not None:
        if not isinstance(save, dict):
            raise WireError(f"cannot use save={save!r}: an object or null is expected")
        align, then = save.get("align"), save.get("then")
        if align not in ("step", "cadence") or then not in ("go", "exit"):
            raise WireError(f"cannot use save order {save!r}: align step|cadence, then go|exit")
        order = SaveOrder(
            _int(save, "serial"), align, then, _bool({"sample": False, **save}, "sample")
        )
    hold = record.get("hold")
    if hold is not None and not isinstance(hold, str):
        raise WireError("cannot use orders: hold is neither text nor null")
    return Orders(_int(record, "serial"), phases, order, hold)


_NONFINITE = re.compile(rb"(:\s*)(-?)(nan|inf|infinity)(?=\s*[,}\]])", re.IGNORECASE)
_WORDS = {b"nan": b"NaN", b"inf": b"Infinity", b"infinity": b"Infinity"}


def read_report(line: bytes) -> Report:
    """Parse one line (without newline). Raises WireError with the reason."""
    if len(line) > MAX_LINE:
        raise WireError(f"cannot read a report of {len(line)} bytes: at most {MAX_LINE}")
    try:
        record = from_json(line)
    except ValueError:
        record = None
    # As many colons after quotes as fields means that no key stands twice; else look closely.
    if not isinstance(record, dict) or line.count(b'":') != len(record):
        record = _object(line)
    name = record.get("report")
    reader = _READERS.get(name) if isinstance(name, str) else None
    if reader is None:
        raise WireError(f"cannot read a report named {name!r}")
    return reader(record)


def _object(line: bytes) -> dict[str, Any]:
    """Parse with duplicate keys refused and C's spellings of non-finite numbers understood."""
    try:
        try:
            record = json.loads(line, object_pairs_hook=_once)
        except ValueError as first:
            if isinstance(first, WireError):
                raise
            plain = _NONFINITE.sub(
                lambda m: m[1] + (b"" if m[3].lower() == b"nan" else m[2]) + _WORDS[m[3].lower()],
                line,
            )
            record = json.loads(plain, object_pairs_hook=_once)
    except WireError:
        raise
    except (ValueError, RecursionError) as error:
        raise WireError(f"cannot read {line[:80]!r}: {error}") from None
    if not isinstance(record, dict):
        raise WireError(f"cannot read {line[:80]!r}: not a JSON object")
    return record


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) != len(pairs):
        raise WireError(f"cannot read an object that names a key twice: {[k for k, _ in pairs]}")
    return record


_MOST = (1 << 63) - 1


def _int(record: dict[str, Any], key: str) -> int:
    value = record.get(key)
    if type(value) is not int or not 0 <= value <= _MOST:
        raise WireError(f"cannot use {key}={value!r}: a whole number of 0 or more is expected")
    return value


def _float(record: dict[str, Any], key: str) -> float | None:
    """None where the number is null or not finite."""
    value = record.get(key)
    if value is None:
        return None
    if type(value) is not float and (type(value) is not int or abs(value) > _MOST):
        raise WireError(f"cannot use {key}={value!r}: a number is expected")
    return float(value) if math.isfinite(value) else None


def _finite(record: dict[str, Any], key: str) -> float:
    value = _float(record, key)
    if value is None:
        raise WireError(f"cannot use {key}={record.get(key)!r}: a finite number is expected")
    return value


def _text(record: dict[str, Any], key: str) -> str:
    value = record.get(key)
    if not isinstance(value, str):
        raise WireError(f"cannot use {key}={value!r}: text is expected")
    # Half of a surrogate pair, as a text cut in its middle ends, is no character to any writer.
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _bool(record: dict[str, Any], key: str) -> bool:
    value = record.get(key)
    if not isinstance(value, bool):
        raise WireError(f"cannot use {key}={value!r}: true or false is expected")
    return value


def _list(record: dict[str, Any], key: str) -> list[Any]:
    value = record.get(key)
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise WireError(f"cannot use {key}={value!r}: a list of objects is expected")
    return value


def _weights(record: dict[str, Any]) -> tuple[tuple[str, float], ...]:
    value = record.get("weights")
    if not isinstance(value, dict):
        raise WireError(f"cannot use weights={value!r}: an object is expected")
    return tuple((name, _finite(value, name)) for name in value)


_STEP_FIELDS = frozenset(
    {"seq", "report", "at", "step", "loss", "nonfinite", "arm", "lr", "data", "phase"}
)


def _step(record: dict[str, Any]) -> Step:
    arm = record.get("arm", "")
    if not isinstance(arm, str) or (arm and not ARM_FIELD.fullmatch(arm)):
        raise WireError(f"cannot use arm={arm!r}: names of letters, digits, dot, dash, underscore")
    data = record.get("data", "")
    if not isinstance(data, str) or (data and not re.fullmatch("[0-9a-f]{16}", data)):
        raise WireError(f"cannot use data={data!r}: 16 hex digits are expected")
    loss, word = record.get("loss"), record.get("nonfinite", "")
    if type(loss) is float or (type(loss) is int and abs(loss) <= _MOST):
        word = nonfinite(loss)
        loss = None if word else float(loss)
    if (loss is None) != (word in ("nan", "inf", "-inf")) or type(loss) not in (type(None), float):
        raise WireError(f"cannot use loss={loss!r} with nonfinite={word!r}")
    extras = (
        ()
        if _STEP_FIELDS.issuperset(record)
        else tuple((key, _float(record, key)) for key in record if key not in _STEP_FIELDS)
    )
    return Step(
        _int(record, "seq"),
        _finite(record, "at"),
        _int(record, "step"),
        loss,
        word,
        arm,
        _finite(record, "lr"),
        data,
        _int(record, "phase") if "phase" in record else 0,
        extras,
    )


def _head(record: dict[str, Any]) -> tuple[int, float]:
    return _int(record, "seq"), _finite(record, "at")


def _ready(record: dict[str, Any]) -> Ready:
    return Ready(
        *_head(record),
        _int(record, "pid"),
        _int(record, "n_params"),
        _int(record, "step"),
        _bool(record, "companion"),
    )


def _doing(record: dict[str, Any]) -> Doing:
    what = _text(record, "what")
    if what not in ACTIVITIES:
        raise WireError(f"cannot use what={what!r}: one of {', '.join(ACTIVITIES)}")
    return Doing(*_head(record), what, _int(record, "step"))


def _phase(record: dict[str, Any]) -> Phase:
    arms = tuple(
        ArmResult(
            _text(a, "arm"),
            _int(a, "pulls"),
            _int(a, "failed"),
            _float(a, "loss"),
            _float(a, "epochs"),
        )
        for a in _list(record, "arms")
    )
    first, last = _int(record, "first"), _int(record, "last")
    if last < first:
        raise WireError(f"cannot use a phase of the steps {first} to {last}")
    return Phase(
        *_head(record),
        _int(record, "phase"),
        first,
        last,
        _bool(record, "repeated"),
        _weights(record),
        arms,
    )


def _checkpoint(record: dict[str, Any]) -> Checkpoint:
    name = _text(record, "name")
    if "/" in name or name.startswith(".") or "\0" in name:
        raise WireError(f"cannot use name={name!r}: a plain file name is expected")
    return Checkpoint(
        *_head(record),
        _int(record, "step"),
        name,
        _text(record, "sha256"),
        _int(record, "bytes"),
        _text(record, "reason"),
        _finite(record, "seconds"),
        None if record.get("save") is None else _int(record, "save"),
    )


def _sample(record: dict[str, Any]) -> Sample:
    return Sample(
        *_head(record),
        _int(record, "step"),
        _text(record, "prompt"),
        _text(record, "text"),
        _finite(record, "temperature"),
    )


def _evaluation(record: dict[str, Any]) -> Evaluation:
    losses = record.get("losses")
    if not isinstance(losses, dict):
        raise WireError(f"cannot use losses={losses!r}: an object is expected")
    return Evaluation(
        *_head(record),
        _int(record, "step"),
        tuple((name, _float(losses, name)) for name in losses),
    )


def _finished(record: dict[str, Any]) -> Finished:
    return Finished(*_head(record), _text(record, "reason"), _int(record, "step"))


_READERS: dict[str, Callable[[dict[str, Any]], Report]] = {
    "ready": _ready,
    "doing": _doing,
    "step": _step,
    "phase": _phase,
    "checkpoint": _checkpoint,
    "sample": _sample,
    "evaluation": _evaluation,
    "finished": _finished,
}
