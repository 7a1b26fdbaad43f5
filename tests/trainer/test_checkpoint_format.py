"""The five regions, their names and sizes, and the companion, held against files made once."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer.contract.checkpoint_format import (
    FORMATS,
    MOST_PARAMETERS,
    CheckpointFormatError,
    companion_of,
    form_of,
    format_companion,
    name_of,
    pack_header,
    read_companion,
    read_header,
    seal_of,
    size_of,
    step_of,
)
from trainer.contract.settings import PRESETS

GOLDEN = Path(__file__).parent / "golden"
BIN = GOLDEN / "step_000007.bin"
COMPANION = GOLDEN / "step_000007.json"


@pytest.mark.parametrize(
    ("preset", "n_params", "size"),
    [
        ("demo", 868_352, 10_420_232),
        ("andrea-12m", 12_780_288, 153_363_464),
        ("andrea-120m", 98_698_752, 1_184_385_032),
    ],
)
def test_the_presets_have_the_published_counts_and_sizes(
    preset: str, n_params: int, size: int
) -> None:
    assert PRESETS[preset].n_params == n_params
    assert size_of(n_params) == size


def test_rounded_counts_give_the_sizes_that_were_published_for_them() -> None:
    assert size_of(12_800_000) == 153_600_008
    assert size_of(120_000_000) == 1_440_000_008


def test_the_golden_file_is_header_weights_m_and_v_in_little_endian() -> None:
    data = BIN.read_bytes()
    step_and_count = "07000000 03000000"
    weights = "0000803f 000000bf 00005040"  # 1, -0.5, 3.25
    m = "0000003e 000000c0 00000000"  # 0.125, -2, 0
    v = "77cc2b32 00000000 00e07f47"  # 1e-8, 0, 65504
    assert data == bytes.fromhex(step_and_count + weights + m + v)
    assert pack_header(7, 3) == data[:8]
    assert read_header(data[:8], len(data), str(BIN)) == (7, 3)


def test_the_golden_companion_reads_and_writes_back_to_the_byte() -> None:
    data = COMPANION.read_bytes()
    companion = read_companion(data, str(COMPANION))
    assert format_companion(companion) == data
    assert companion.sha256 == hashlib.sha256(BIN.read_bytes()).hexdigest()
    assert companion.parameters == (("tokens", (1, 2)), ("head", (1, 1)))
    assert companion.cursors["chat"]["offset"] == 17


def test_the_golden_companion_of_the_first_schema_is_read_as_that_of_a_bin() -> None:
    old = read_companion((GOLDEN / "step_000007.v1.json").read_bytes(), "step_000007.json")
    assert (old.format, old.losses, old.next) == ("bin", None, None)
    assert old == read_companion(COMPANION.read_bytes(), str(COMPANION))._replace(
        losses=None, next=None
    )


def test_names_of_all_formats_tell_step_and_format() -> None:
    for form in FORMATS:
        name = name_of(112_700, form)
        assert (step_of(name), form_of(name)) == (112_700, form)
    for name in ("step_000007.zip", "step_000007.json", "step_07.pt", "step_000007.pt.tmp"):
        assert (step_of(name), form_of(name)) == (None, "")
    with pytest.raises(CheckpointFormatError, match="format: expected bin or pt or sharded"):
        name_of(7, "zip")


@given(st.integers(0, MOST_PARAMETERS))
def test_every_step_has_one_name_and_every_name_one_step(step: int) -> None:
    assert step_of(name_of(step)) == step
    assert companion_of(step) == name_of(step)[:-4] + ".json"
    assert seal_of(step) == name_of(step)[:-4] + ".seal.json"


@pytest.mark.parametrize(
    ("step", "name"),
    [(0, "step_000000.bin"), (112_700, "step_112700.bin"), (1_234_567, "step_1234567.bin")],
)
def test_names_have_six_digits_and_more_when_needed(step: int, name: str) -> None:
    assert name_of(step) == name


@pytest.mark.parametrize(
    "name",
    [
        "step_100.bin",
        "step_0001000.bin",
        "step_9999999999.bin",
        "step_000100.bin.tmp",
        ".step_000100.bin.0a1b2c.tmp",
        "step_000100.json",
        "Step_000100.bin",
        "step_00010x.bin",
        "step_\u0661\u0660\u0660\u0660\u0660\u0660.bin",
        "",
    ],
)
def test_other_names_are_no_checkpoints(name: str) -> None:
    assert step_of(name) is None


@pytest.mark.parametrize("step", [-1, 2**31])
def test_a_step_that_an_int32_does_not_hold_has_no_name(step: int) -> None:
    with pytest.raises(CheckpointFormatError, match=f"expected 0 to 2147483647, found {step}"):
        name_of(step)


@pytest.mark.parametrize("n_params", [MOST_PARAMETERS + 1, 3_000_000_000])
def test_too_many_parameters_are_refused_with_the_format_that_takes_them(n_params: int) -> None:
    with pytest.raises(CheckpointFormatError, match="sharded format") as caught:
        pack_header(7, n_params)
    assert caught.value.found == n_params
    assert size_of(MOST_PARAMETERS) == 8 + 12 * MOST_PARAMETERS


def bad_header(head: bytes, size: int, name: str = "runs/x/step_000007.bin") -> tuple[str, str]:
    """Expected and found, as text, of the refusal."""
    with pytest.raises(CheckpointFormatError, match=r"^cannot use ") as caught:
        read_header(head, size, name)
    assert caught.value.path == name
    assert str(caught.value.expected) in str(caught.value)
    assert str(caught.value.found) in str(caught.value)
    return str(caught.value.expected), str(caught.value.found)


@pytest.mark.parametrize("size", [43, 45, 32, 56, 8])
def test_a_wrong_size_is_refused(size: int) -> None:
    found = bad_header(struct.pack("<ii", 7, 3), size)
    assert found == ("44 bytes", f"{size} bytes")


@pytest.mark.parametrize("size", [0, 7])
def test_a_file_without_a_whole_header_is_refused(size: int) -> None:
    found = bad_header(struct.pack("<ii", 7, 3)[:size], size)
    assert found == ("at least 8 bytes", f"{size} bytes")


def test_a_header_of_another_step_than_the_name_is_refused() -> None:
    assert bad_header(struct.pack("<ii", 8, 3), 44) == ("7 as in the name", "8")


@pytest.mark.parametrize("n_params", [0, -1, -(2**31)])
def test_a_count_below_one_is_refused(n_params: int) -> None:
    assert bad_header(struct.pack("<ii", 7, n_params), 44) == ("1 or more", str(n_params))


def test_a_big_endian_header_is_refused() -> None:
    assert bad_header(struct.pack(">ii", 7, 3), 44)[1] == str(7 << 24)


def test_another_name_is_refused() -> None:
    found = bad_header(struct.pack("<ii", 7, 3), 44, "runs/x/latest.bin")
    assert found == ("step_NNNNNN.bin", "latest.bin")


def changed(**fields: object) -> Callable[[dict[str, Any]], bytes]:
    """The golden companion with some fields replaced."""
    return lambda record: json.dumps({**record, **fields}).encode()


def without(key: str) -> Callable[[dict[str, Any]], bytes]:
    """The golden companion without a key."""
    return lambda record: json.dumps({k: v for k, v in record.items() if k != key}).encode()


BAD_COMPANIONS: dict[str, tuple[Callable[[dict[str, Any]], bytes], str]] = {
    "no JSON": (lambda _: b"{", "expected a JSON object"),
    "empty": (lambda _: b"", "expected a JSON object"),
    "torn": (lambda record: json.dumps(record).encode()[:-9], "expected a JSON object"),
    "no UTF-8": (lambda _: b'{"schema":"\xff"}', "expected a JSON object"),
    "a list": (lambda _: b"[]", "expected a JSON object, found list"),
    "deep": (lambda _: b"[" * 100_000, "expected a JSON object"),
    "a key twice": (lambda _: b'{"step":1,"step":2}', "expected each once"),
    "NaN": (
        lambda record: json.dumps(record).replace("6.5", "NaN").encode(),
        "expected finite ones, found NaN",
    ),
    "another schema": (changed(schema="stepkeeper.companion/3"), "found stepkeeper.companion/3"),
    "no schema": (
        without("schema"),
        "expected stepkeeper.companion/1 or stepkeeper.companion/2, found None",
    ),
    "a new key in an old schema": (
        changed(schema="stepkeeper.companion/1"),
        "found format in schema 1, losses in schema 1, next in schema 1",
    ),
    "losses without end": (
        changed(losses={"first": 1, "values": [0.5] * 10_001}),
        "losses: expected null, or the first step and at most 10000 values",
    ),
    "a loss that is a word": (changed(losses={"first": 1, "values": ["low"]}), "losses: expected"),
    "a format of others": (changed(format="zip"), "format: expected bin or pt or sharded"),
    "an unknown key": (changed(extra=1), "found extra"),
    "a missing key": (without("cursors"), "found cursors"),
    "step as text": (changed(step="7"), "step: expected a whole number of 0 or more, found 7"),
    "step as truth": (changed(step=True), "step: expected a whole number of 0 or more, found True"),
    "a short digest": (changed(sha256="ab"), "sha256: expected 64 hex digits, found ab"),
    "another reason": (changed(reason="mood"), "reason: expected cadence or clock"),
    "a list of rng": (changed(rng=[]), r"rng: expected an object, found \[\]"),
    "phase as text": (changed(phase="2"), "phase: expected an object or null, found 2"),
    "a wrong sum": (changed(n_params=4), "sum of the shapes: expected 4, found 3"),
    "a wrong size": (changed(bytes=45), "bytes: expected 44, found 45"),
    "a name twice": (changed(parameters=[["a", [1]], ["a", [2]]]), "expected each name once"),
    "an empty shape": (changed(parameters=[["a", [0]]]), "expected a list of"),
    "time as number": (changed(saved=1.5), "saved: expected text, found 1.5"),
}


@pytest.mark.parametrize("name", BAD_COMPANIONS)
def test_a_bad_companion_is_refused(name: str) -> None:
    spoil, message = BAD_COMPANIONS[name]
    data = spoil(json.loads(COMPANION.read_bytes()))
    with pytest.raises(CheckpointFormatError, match=message) as caught:
        read_companion(data, "step_000007.json")
    assert str(caught.value).startswith("cannot use step_000007.json: ")


def test_a_companion_never_holds_a_number_that_json_cannot_say() -> None:
    companion = read_companion(COMPANION.read_bytes(), "x")
    with pytest.raises(ValueError, match="not JSON compliant"):
        format_companion(companion._replace(schedule={"lr": float("nan")}))
