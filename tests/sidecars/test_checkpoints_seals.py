"""A seal: one form of its bytes, read strictly, never written over."""

from __future__ import annotations

import contextlib
import json
import os
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.messages import (
    LedgerPosition,
    ReportsPosition,
    SampleVerdict,
    Seal,
    Verdict,
)
from supervisor.errors import RefusedError
from supervisor.sidecars.checkpoints import SealError, SealRecord, write_seal
from supervisor.sidecars.checkpoints.seals import decode, read
from tests.sidecars.sealing import record

GOLDEN_1 = (
    b'{"schema": "stepkeeper.seal/1", "step": 112700, "attempt": 7, '
    b'"bin": {"name": "step_112700.bin", "sha256": "' + b"ab" * 32 + b'", "bytes": 153363464}, '
    b'"companion": "' + b"cd" * 32 + b'", "previous": "' + b"ef" * 32 + b'", '
    b'"ledger": {"entries": 112700, "bytes": 23100000, "chain": "' + b"12" * 16 + b'", '
    b'"step": 112700}, "reports": {"attempt": 7, "seq": 93, "bytes": 14000}, '
    b'"events": {"entries": 40, "bytes": 9000, "chain": "' + b"34" * 16 + b'"}, "policy": 3, '
    b'"bandit": {"arms": {"chat": {"mean": 0.1}}}, "sample": 112700, "reason": "order", '
    b'"save": 4, "replay": {"proved": 81, "consistent": 0}, "time": "2026-01-31T12:00:00.000Z"}\n'
)


KNOWN = "stepkeeper.seal/3 or an older"
GOLDEN_2 = GOLDEN_1.replace(b"seal/1", b"seal/2")  # the format stands in the name
GOLDEN = GOLDEN_1.replace(b"seal/1", b"seal/3").replace(
    b'"}\n',
    b'", "verdict": {"step": 112700, "score": 81.5, "verdict": "pass"}, "suspect": ""}\n',
)


def golden(name: str = "step_112700.bin") -> SealRecord:
    effect = Seal(
        attempt=7,
        policy=3,
        verdict=Verdict(112700, name, "ab" * 32, 153363464, "cd" * 32, ""),
        ledger=LedgerPosition(112700, 23100000, "12" * 16, 112700),
        reports=ReportsPosition(7, 93, 14000),
        bandit=None,
        sample=112700,
        reason="order",
        save=4,
        replay=(81, 0),
        sample_verdict=SampleVerdict(112700, 81.5, "pass"),
    )
    return SealRecord.of(
        effect,
        previous="ef" * 32,
        events=(40, 9000, "34" * 16),
        bandit={"arms": {"chat": {"mean": 0.1}}},
        time="2026-01-31T12:00:00.000Z",
    )


def test_the_format_is_what_it_was() -> None:
    assert golden().encode() == GOLDEN
    assert decode(GOLDEN) == golden()
    assert golden().digest == sha256(GOLDEN).hexdigest()


@pytest.mark.parametrize("form", ["pt", "sharded"])
def test_a_seal_of_every_format_is_of_one_schema(form: str) -> None:
    name = f"step_112700.{form}"
    data = GOLDEN.replace(b"step_112700.bin", name.encode())
    assert golden(name).encode() == data
    assert decode(data) == golden(name)


@pytest.mark.parametrize(
    ("data", "name"), [(GOLDEN_1, "step_112700.bin"), (GOLDEN_2, "step_112700.pt")]
)
def test_the_older_schemas_are_read_for_ever_and_keep_their_digests(data: bytes, name: str) -> None:
    data = data.replace(b"step_112700.bin", name.encode())
    seal = decode(data)
    assert seal.digest == sha256(data).hexdigest()
    assert seal == golden(name)._replace(verdict=None, schema=seal.schema)
    for key, value in (("verdict", None), ("suspect", "")):
        with pytest.raises(SealError, match="missing or extra"):
            decode(change(data, **{key: value}))
    other = {b"seal/1": b"seal/2", b"seal/2": b"seal/1"}[seal.schema[-6:].encode()]
    with pytest.raises(SealError, match="is not of checkpoints like"):
        decode(data.replace(seal.schema[-6:].encode(), other))


def test_a_seal_without_a_sample_says_nothing_of_one_and_says_why_it_is_suspect() -> None:
    seal = golden()._replace(verdict=None, suspect="the loss of step 112690 is not finite")
    assert decode(seal.encode()) == seal
    assert b'"verdict": null, "suspect": "the loss of' in seal.encode()


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(
    step=st.integers(0, 2**31 - 1),
    bandit=st.dictionaries(st.text(), JSON, max_size=4),
    sample=st.none() | st.integers(0, 2**40),
    previous=st.sampled_from(["", "a" * 64]),
)
def test_what_is_sealed_reads_back_equal(
    step: int, bandit: dict[str, Any], sample: int | None, previous: str
) -> None:
    seal = record(step, previous, bandit=bandit, sample=sample)
    assert decode(seal.encode()) == seal


def test_every_byte_that_is_changed_or_missing_is_found() -> None:
    """Only a character of a free text may become another one; the next seal's digest sees that."""
    for at in range(len(GOLDEN)):
        with pytest.raises(SealError):
            decode(GOLDEN[:at])
        for other in (b" ", b"\0", b"}"):
            changed = GOLDEN[:at] + other + GOLDEN[at + 1 :]
            with contextlib.suppress(SealError):
                assert changed == GOLDEN or decode(changed).digest != golden().digest


def change(data: bytes, **fields: object) -> bytes:
    changed = json.loads(data) | fields
    kept = {key: value for key, value in changed.items() if value != "drop"}
    return json.dumps(kept).encode() + b"\n"


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (change(GOLDEN, schema="stepkeeper.seal/4"), "schema stepkeeper.seal/4 is newer than"),
        (change(GOLDEN, schema="stepkeeper.seal/2"), "missing or extra: suspect, verdict"),
        (change(GOLDEN, verdict="drop"), "missing or extra: verdict"),
        (change(GOLDEN, verdict="pass"), "verdict: expected an object or null, found 'pass'"),
        (change(GOLDEN, verdict={"step": 1}), "cannot use verdict: expected step, score, verdict"),
        (change(GOLDEN, suspect=None), "suspect: expected text, found None"),
        (change(GOLDEN, schema="stepkeeper.pins/1"), f"expected schema {KNOWN}, found 'step"),
        (change(GOLDEN, schema="drop"), f"expected schema {KNOWN}, found None"),
        (change(GOLDEN, extra=1), "missing or extra: extra"),
        (change(GOLDEN, policy="drop"), "missing or extra: policy"),
        (change(GOLDEN, step="112700"), "step: expected a whole number of 0 or more"),
        (change(GOLDEN, step=True), "step: expected a whole number of 0 or more, found True"),
        (change(GOLDEN, step=-1), "step: expected a whole number of 0 or more, found -1"),
        (change(GOLDEN, step=112800), "step: expected 112800 throughout, found step_112700.bin"),
        (change(GOLDEN, companion="AB" * 32), "companion: expected 64 hex digits or nothing"),
        (change(GOLDEN, previous="ab"), "previous: expected 64 hex digits or nothing"),
        (change(GOLDEN, bandit=[]), "bandit: expected an object, found []"),
        (change(GOLDEN, replay={"proved": 1}), "cannot use replay: expected proved, consistent"),
        (GOLDEN.replace(b"0.1", b"NaN"), "expected finite numbers, found NaN"),
        (GOLDEN.replace(b'"policy": 3', b'"policy": 3, "policy": 3'), "a key stands twice"),
        (GOLDEN.replace(b'": ', b'":'), "expected the form it was written in"),
        (GOLDEN + b"\n", "expected the form it was written in"),
        (b"[" * 100_000, "expected a JSON object"),
        (b"[]", "expected a JSON object, found list"),
        (b"\xff", "expected a JSON object"),
        (b"", "expected a JSON object"),
    ],
    ids=range(26),
)
def test_what_is_not_exactly_a_seal_is_refused_by_name(data: bytes, problem: str) -> None:
    with pytest.raises(SealError) as refusal:
        decode(data)
    assert str(refusal.value).startswith("cannot use ")
    assert problem in str(refusal.value)


def test_a_seal_is_durable_for_auditors_and_named_after_its_step(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        digest = write_seal(tmp_path, golden())
    finally:
        os.umask(before)
    (path,) = tmp_path.iterdir()
    assert path.name == "step_112700.seal.json"
    assert path.stat().st_mode & 0o777 == 0o640
    assert sha256(path.read_bytes()).hexdigest() == digest == golden().digest
    assert read(path) == golden()


def test_a_step_that_has_a_seal_keeps_it(tmp_path: Path) -> None:
    digest = write_seal(tmp_path, golden())
    assert write_seal(tmp_path, golden()) == digest
    with pytest.raises(RefusedError, match=r"^cannot seal step 112700: .* says otherwise"):
        write_seal(tmp_path, golden()._replace(reason="another"))
    assert (tmp_path / "step_112700.seal.json").read_bytes() == GOLDEN
    (tmp_path / "step_112700.seal.json").write_bytes(b"")
    with pytest.raises(RefusedError):
        write_seal(tmp_path, golden())


@pytest.mark.parametrize(
    "other",
    [
        {"bandit": {"mean": float("nan")}},
        {"bandit": {"arms": ("a", "b")}},
        {"bandit": {1: 2}},
        {"bandit": {"path": Path()}},
        {"companion": "abc"},
        {"reason": None},
    ],
    ids=["nan", "tuple", "key", "object", "digest", "text"],
)
def test_what_would_not_read_back_is_never_written(tmp_path: Path, other: dict[str, Any]) -> None:
    with pytest.raises(SealError):
        write_seal(tmp_path, golden()._replace(**other))
    assert list(tmp_path.iterdir()) == []


def test_a_seal_under_another_name_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "step_112800.seal.json"
    path.write_bytes(GOLDEN)
    with pytest.raises(SealError, match=r"expected step_112700\.seal\.json, found step_112800"):
        read(path)
