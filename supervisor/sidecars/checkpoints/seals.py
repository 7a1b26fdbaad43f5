"""The seal of a checkpoint: I read it back, it is good, and this is the history it belongs to."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn, Self

from supervisor.errors import RefusedError
from trainer.contract import durable
from trainer.contract.checkpoint_format import form_of, seal_of, step_of

if TYPE_CHECKING:  # reading a seal shall not cost the import of the core's vocabulary
    from supervisor.core.messages import Seal

SCHEMA: Final = "stepkeeper.seal/3"  # of every format
# Read for ever, and written no more: the first is of a ``.bin`` alone, the second of other formats.
# Neither has the keys below, so neither says anything of a sample or a suspicion.
OLDER: Final = ("stepkeeper.seal/1", "stepkeeper.seal/2")
_SINCE_3: Final = ("verdict", "suspect")
_FAMILY: Final = SCHEMA.rpartition("/")[0]


class SealError(ValueError):
    """A seal that does not hold; the message says what, expected and found."""


class Bin(NamedTuple):
    """The sealed checkpoint, whatever its format: a folder by the digest of its index."""

    name: str
    sha256: str
    bytes: int


class LedgerAt(NamedTuple):
    """The ledger's line of the sealed step: its number, the bytes up to its end, its chain."""

    entries: int
    bytes: int
    chain: str
    step: int


class ReportsAt(NamedTuple):
    """The reports up to the checkpoint's own."""

    attempt: int
    seq: int
    bytes: int


class EventsAt(NamedTuple):
    """The head of ``events.jsonl``."""

    entries: int
    bytes: int
    chain: str


class Replay(NamedTuple):
    """Steps of this attempt so far that equalled an earlier attempt's, with and without digest."""

    proved: int
    consistent: int


class SealRecord(NamedTuple):
    """``step_NNNNNN.seal.json``, field by field.

    ``companion`` and ``previous`` are SHA-256 in hex, of the companion and of the seal before
    this one in its lineage, or empty. ``bandit`` is the bandit's state of this very step, opaque
    here. ``sample`` is the step of its sample, ``save`` the serial of the order it answers.
    ``verdict`` is the gate's word on that sample, or None. ``suspect`` says why the checkpoint is
    kept apart, and is empty for one that nothing speaks against. ``schema`` is what it was
    written in, which its bytes and so its digest follow.
    """

    step: int
    attempt: int
    bin: Bin
    companion: str
    previous: str
    ledger: LedgerAt
    reports: ReportsAt
    events: EventsAt
    policy: int
    bandit: dict[str, Any]
    sample: int | None
    reason: str
    save: int | None
    replay: Replay
    time: str
    verdict: dict[str, Any] | None = None
    suspect: str = ""
    schema: str = SCHEMA

    @classmethod
    def of(
        cls,
        effect: Seal,
        *,
        previous: str,
        events: tuple[int, int, str],
        bandit: dict[str, Any],
        time: str,
    ) -> Self:
        """The seal that the core ordered, with what only the shell knows."""
        verdict = effect.verdict
        return cls(
            step=verdict.step,
            attempt=effect.attempt,
            bin=Bin(verdict.name, verdict.sha256, verdict.bytes),
            companion=verdict.companion,
            previous=previous,
            ledger=LedgerAt(*effect.ledger),
            reports=ReportsAt(*effect.reports),
            events=EventsAt(*events),
            policy=effect.policy,
            bandit=bandit,
            sample=effect.sample,
            reason=effect.reason,
            save=effect.save,
            replay=Replay(*effect.replay),
            time=time,
            verdict=effect.sample_verdict._asdict() if effect.sample_verdict else None,
            suspect=effect.suspect,
        )

    @property
    def digest(self) -> str:
        """SHA-256 of the file's bytes, in hex: what the next seal calls ``previous``."""
        return sha256(self.encode()).hexdigest()

    def encode(self) -> bytes:
        """The file's content. Raises SealError for what JSON cannot say."""
        left_out = ("schema", *(_SINCE_3 if self.schema in OLDER else ()))
        record = {
            key: getattr(self, key)._asdict() if key in _PARTS else value
            for key, value in self._asdict().items()
            if key not in left_out
        }
        try:
            text = json.dumps({"schema": self.schema, **record}, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise SealError(f"cannot seal step {self.step}: {error}") from None
        return text.encode("ascii") + b"\n"


def decode(data: bytes) -> SealRecord:
    """Read a seal strictly: as this program writes it, byte for byte. Raises SealError."""
    record = _object(data)
    schema = record.pop("schema", None)
    if schema not in (*OLDER, SCHEMA):
        _refuse_schema(schema)
    fields = _fields(record, "seal", _SEAL if schema == SCHEMA else _SEAL_BEFORE_3)
    for key, (shape, build) in _PARTS.items():
        fields[key] = build(**_fields(fields[key], key, shape))
    if fields.get("verdict") is not None:
        _fields(fields["verdict"], "verdict", _VERDICT)
    seal = SealRecord(**fields, schema=schema)
    if step_of(seal.bin.name) != seal.step or seal.ledger.step != seal.step:
        raise SealError(
            f"cannot use seal: step: expected {seal.step} throughout, found {seal.bin.name} and "
            f"ledger step {seal.ledger.step}"
        )
    if schema in OLDER and (form_of(seal.bin.name) == "bin") != (schema == OLDER[0]):
        raise SealError(f"cannot use seal: {schema} is not of checkpoints like {seal.bin.name}")
    # The bytes are what the next seal's ``previous`` stands for, so there is one form of them.
    if seal.encode() != data:
        raise SealError("cannot use seal: expected the form it was written in, found another")
    return seal


def read(path: Path) -> SealRecord:
    """The seal at ``path``. Raises SealError or OSError."""
    seal = decode(path.read_bytes())
    if path.name != seal_of(seal.step):
        raise SealError(f"cannot use seal: name: expected {seal_of(seal.step)}, found {path.name}")
    return seal


def write_seal(folder: Path, record: SealRecord) -> str:
    """Make the seal durable (0640) and return its digest.

    A step that has a seal keeps it: raises RefusedError for another one, and does nothing for
    the very same bytes. Raises SealError or OSError.
    """
    data = record.encode()
    if decode(data) != record:
        raise SealError(f"cannot seal step {record.step}: it would read back as another seal")
    path = folder / seal_of(record.step)
    try:
        before = path.read_bytes()
    except FileNotFoundError:
        durable.write_file(path, data, 0o640)
        return record.digest
    if before != data:
        raise RefusedError(f"cannot seal step {record.step}: {path} is there and says otherwise")
    return record.digest


_Shape = dict[str, tuple[Callable[[object], bool], str]]


def _is_whole(value: object) -> bool:
    return type(value) is int and value >= 0


def _is_hex(digits: int, *, or_empty: bool = False) -> Callable[[object], bool]:
    pattern = re.compile(f"[0-9a-f]{{{digits}}}")
    return lambda value: (
        isinstance(value, str) and bool(pattern.fullmatch(value) or (or_empty and not value))
    )


_WHOLE = (_is_whole, "a whole number of 0 or more")
_WHOLE_OR_NULL = (lambda v: v is None or _is_whole(v), "a whole number or null")
_TEXT = (lambda v: isinstance(v, str), "text")
_OBJECT = (lambda v: isinstance(v, dict), "an object")
_OBJECT_OR_NULL = (lambda v: v is None or isinstance(v, dict), "an object or null")
_NUMBER_OR_NULL = (lambda v: v is None or type(v) is float, "a number or null")
_DIGEST = (_is_hex(64), "64 hex digits")
_DIGEST_OR_EMPTY = (_is_hex(64, or_empty=True), "64 hex digits or nothing")
_CHAIN = (_is_hex(32), "32 hex digits")

_PARTS: Final[dict[str, tuple[_Shape, Callable[..., tuple[Any, ...]]]]] = {
    "bin": ({"name": _TEXT, "sha256": _DIGEST, "bytes": _WHOLE}, Bin),
    "ledger": (
        {"entries": _WHOLE, "bytes": _WHOLE, "chain": _CHAIN, "step": _WHOLE},
        LedgerAt,
    ),
    "reports": ({"attempt": _WHOLE, "seq": _WHOLE, "bytes": _WHOLE}, ReportsAt),
    "events": ({"entries": _WHOLE, "bytes": _WHOLE, "chain": _CHAIN}, EventsAt),
    "replay": ({"proved": _WHOLE, "consistent": _WHOLE}, Replay),
}
_SEAL_BEFORE_3: Final[_Shape] = {
    "step": _WHOLE,
    "attempt": _WHOLE,
    "companion": _DIGEST_OR_EMPTY,
    "previous": _DIGEST_OR_EMPTY,
    "policy": _WHOLE,
    "bandit": _OBJECT,
    "sample": _WHOLE_OR_NULL,
    "reason": _TEXT,
    "save": _WHOLE_OR_NULL,
    "time": _TEXT,
    **dict.fromkeys(_PARTS, _OBJECT),
}
_SEAL: Final[_Shape] = {**_SEAL_BEFORE_3, "verdict": _OBJECT_OR_NULL, "suspect": _TEXT}
_VERDICT: Final[_Shape] = {"step": _WHOLE, "score": _NUMBER_OR_NULL, "verdict": _TEXT}


def _fields(record: dict[str, Any], what: str, shape: _Shape) -> dict[str, Any]:
    if set(record) != set(shape):
        wrong = ", ".join(sorted(set(record) ^ set(shape)))
        raise SealError(
            f"cannot use {what}: expected {', '.join(shape)}; missing or extra: {wrong}"
        )
    for key, (holds, expected) in shape.items():
        if not holds(record[key]):
            raise SealError(f"cannot use {what}: {key}: expected {expected}, found {record[key]!r}")
    return dict(record)


def _refuse_schema(schema: object) -> NoReturn:
    family, _, number = str(schema).rpartition("/")
    if family == _FAMILY and number.isdigit():
        raise SealError(
            f"cannot use seal: schema {schema} is newer than {SCHEMA}; use a newer stepkeeper"
        )
    raise SealError(f"cannot use seal: expected schema {SCHEMA} or an older, found {schema!r}")


def _object(data: bytes) -> dict[str, Any]:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        record = dict(pairs)
        if len(record) != len(pairs):
            raise SealError("cannot use seal: a key stands twice")
        return record

    def refuse(word: str) -> NoReturn:
        raise SealError(f"cannot use seal: expected finite numbers, found {word}")

    try:
        record = json.loads(data, object_pairs_hook=once, parse_constant=refuse)
    except SealError:
        raise
    except (ValueError, RecursionError) as error:
        raise SealError(f"cannot use seal: expected a JSON object, found {error}") from None
    if not isinstance(record, dict):
        raise SealError(f"cannot use seal: expected a JSON object, found {type(record).__name__}")
    return record
