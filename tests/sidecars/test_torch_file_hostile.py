"""Nothing in a torch.save file can do harm: it is read, or refused by name, in bounded time."""

from __future__ import annotations

import os
import random
import struct
import warnings
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from supervisor.sidecars.checkpoints import torch_file
from supervisor.sidecars.checkpoints.torch_file import tensors
from tests.sidecars.test_torch_file import read
from trainer.contract.checkpoint_format import CheckpointFormatError

pytestmark = pytest.mark.torch

TREES = {
    "state": {
        "model": torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2)).state_dict(),
        "words": ["a", "b", {"c": (1.5, None, True)}],
        "bytes": b"\0\xff",
    },
}


def pickled(path: Path, data: bytes, **entries: bytes) -> Path:
    """A container as torch.save makes it, of these opcodes."""
    with zipfile.ZipFile(path, "w") as file:
        for name, content in {"data.pkl": data, "byteorder": b"little", **entries}.items():
            file.writestr(f"x/{name.replace('__', '/')}", content)
    return path


def problem(path: Path) -> str:
    with pytest.raises(CheckpointFormatError) as caught:
        read(path)
    return str(caught.value)


BATCH = b"\x80\x02"
DOUBLED = b"]q\x00" + b"".join(b"h%b\x86q%b" % (bytes([i]) * 2, bytes([i + 1])) for i in range(9))


@pytest.mark.parametrize(
    ("opcodes", "found"),
    [
        (b"cos\nsystem\nX\x02\0\0\0ls\x85R.", "the name os.system, which would need unpickling"),
        (b"c__builtin__\neval\nX\x01\0\0\0x\x85R.", "the name __builtin__.eval, which would need"),
        (b"c__builtin__\nbytes\n)R.", "the name __builtin__.bytes"),  # nor does torch load it
        (b"(cposix\nsystem\no.", "the name posix.system"),
        (b"i__main__\nx\n.", "the opcode INST, which would need unpickling"),
        (b"\x8c\x01xq\0\x93.", "the opcode SHORT_BINUNICODE, which would need"),
        (b"ctorch\nTensor\n)\x81.", "the opcode NEWOBJ, which would need unpickling"),
        (b"ctorch\nTensor\n)R.", "a call of something else, which would need unpickling"),
        (b"X\x01\0\0\0x)R.", "a call of something else"),
        (b"}}b.", "attributes of an object, which would need unpickling"),
        (b"ccollections\nOrderedDict\n(K\x01K\x02tR.", "collections.OrderedDict with arguments"),
        (b"c_codecs\nencode\n(X\x01\0\0\0xX\x03\0\0\0rottR.", "_codecs.encode with arguments"),
        (b"c_codecs\nencode\n(X\x03\0\0\0\xe2\x82\xacX\x06\0\0\0latin1tR.", "_codecs.encode with"),
        (b"K\x01", "expected a pickle, found"),
        (b"K\x01.K", "expected its end, found"),
        (b"K\x01K\x02.", "an end with more or less than one value"),
        (b".", "an end with more or less than one value"),
        (b"(K\x01.", "an end with more or less than one value"),
        (b"h\x07.", "the opcode BINGET (number 1) without what it needs"),
        (b"t.", "the opcode TUPLE (number 1) without what it needs"),
        (b"\x86.", "the opcode TUPLE2 (number 1) without what it needs"),
        (b"K\x01K\x02a.", "values added to what is no list"),
        (b"]K\x01K\x02s.", "keys set in what is no dictionary"),
        (b"}(K\x01u.", "keys set in what is no dictionary"),
        (b"}]K\x01s.", "a key that is list"),
        (b"}" + b"G\0\0\0\0\0\0\0\0K\x01s" * 10_001 + b".", "a key that is float"),
        (b"}\x8a\x08\0\0\0\0\1\0\0\0K\x01s.", "a key that is int"),
        (b"}(K\x01]tK\x01s.", "a key that is list"),
        (b"}(" + b"K\x01" * 17 + b"tK\x01s.", "a key of 17 parts"),
        (b"c__builtin__\nset\n]]a\x85R.", "a key that is list"),
        (b"K\x01Q.", "a storage that is not described"),
        (b"(K\x01tQ.", "a storage: expected its description"),
        (
            b"ctorch._utils\n_rebuild_tensor_v2\n(K\x01K\0))\x89ccollections\nOrderedDict\n)RtR.",
            "a t",
        ),
    ],
    ids=range(33),
)
def test_what_is_no_plain_value_is_refused_by_name(
    tmp_path: Path, opcodes: bytes, found: str
) -> None:
    assert found in problem(pickled(tmp_path / "x.pt", BATCH + opcodes))


def persistent(kind: bytes = b"FloatStorage", key: bytes = b"0", count: bytes = b"K\x03") -> bytes:
    text = b"".join(b"X" + struct.pack("<I", len(word)) + word for word in (b"storage",))
    words = b"X" + struct.pack("<I", len(key)) + key + b"X\x03\0\0\0cpu"
    return b"(" + text + b"ctorch\n" + kind + b"\n" + words + count + b"tQ"


def rebuilt(storage: bytes, first: bytes, shape: bytes, stride: bytes) -> bytes:
    tail = b"\x89ccollections\nOrderedDict\n)RtR."
    return b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + first + shape + stride + tail


@pytest.mark.parametrize(
    ("opcodes", "found"),
    [
        (rebuilt(persistent(), b"K\0", b"K\x03\x85", b"K\x01\x85"), ""),
        (
            rebuilt(persistent(), b"K\0", b"\x8a\x07\0\0\0\0\0\0\x01\x85", b"K\0\x85"),
            "",
        ),  # expanded
        (rebuilt(persistent(), b"K\x01", b"K\x03\x85", b"K\x01\x85"), "expected inside of its"),
        (rebuilt(persistent(), b"K\0", b"K\x02\x85", b"K\x03\x85"), "expected inside of its"),
        (rebuilt(persistent(), b"J\xff\xff\xff\xff", b"K\x03\x85", b"K\x01\x85"), "found none"),
        (rebuilt(persistent(), b"K\0", b"J\xff\xff\xff\xff\x85", b"K\x01\x85"), "found none"),
        (rebuilt(persistent(), b"K\0", b"K\x03\x85", b"J\xff\xff\xff\xff\x85"), "found none"),
        (rebuilt(persistent(), b"K\0", b"K\x03\x85", b")"), "found another number"),
        (rebuilt(persistent(count=b"K\x04"), b"K\0", b")", b")"), "expected 16 bytes, found 12"),
        (rebuilt(persistent(kind=b"DoubleStorage"), b"K\0", b")", b")"), "expected 24 bytes"),
        (rebuilt(persistent(kind=b"Tensor"), b"K\0", b")", b")"), "expected a known class"),
        (rebuilt(persistent(key=b"1"), b"K\0", b")", b")"), "expected an entry data/1, found none"),
        (rebuilt(persistent(key=b"../data.pkl"), b"K\0", b")", b")"), "found none"),
        (rebuilt(persistent(count=b"\x88"), b"K\0", b")", b")"), "expected its description"),
    ],
    ids=range(14),
)
def test_a_tensor_that_leaves_its_storage_is_refused(
    tmp_path: Path, opcodes: bytes, found: str
) -> None:
    path = pickled(tmp_path / "x.pt", BATCH + opcodes, data__0=bytes(12))
    if found:
        assert found in problem(path)
    else:
        assert read(path).tree.entry == "data/0"


def test_a_container_that_is_no_plain_one_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("x/data.pkl", b"\0" * 1_000_000)
    assert "expected stored as it is, found compressed" in problem(path)
    for content in (b"", b"PK\5\6", b"x" * 1000, b"PK\5\6" + b"\xff" * 18):
        path.write_bytes(content)
        assert "expected a torch.save file" in problem(path)
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("x/other", b"")
    assert "a zip without data.pkl" in problem(path)
    pickled(path, BATCH + b"N.", byteorder=b"big")
    assert "byteorder: expected little, found big" in problem(path)
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("x/data.pkl", b"N.")
        file.writestr("y/data.pkl", b"N.")
    assert "entries: expected each once, all in x/, found y/data.pkl" in problem(path)
    with zipfile.ZipFile(path, "w") as file, warnings.catch_warnings(action="ignore"):
        file.writestr("x/data.pkl", b"N.")
        file.writestr("x/data.pkl", b"N.")
    assert "found x/data.pkl" in problem(path)


def test_entries_that_share_bytes_are_refused(tmp_path: Path) -> None:
    path = pickled(tmp_path / "x.pt", BATCH + b"N.", data__0=bytes(100), data__1=bytes(100))
    data = bytearray(path.read_bytes())
    first = data.index(b"PK\1\2")
    listed = [i for i in range(first, len(data)) if data[i : i + 4] == b"PK\1\2"]
    spoilt = data[:]  # the last one begins where the one before begins
    spoilt[listed[3] + 42 : listed[3] + 46] = data[listed[2] + 42 : listed[2] + 46]
    path.write_bytes(spoilt)
    assert "one behind the other" in problem(path)
    spoilt = data[:]  # one that reaches into the next
    spoilt[listed[2] + 20 : listed[2] + 28] = struct.pack("<II", 101, 101)
    path.write_bytes(spoilt)
    assert "one behind the other" in problem(path)
    spoilt = data[:]  # and one that reaches into the list
    spoilt[listed[3] + 20 : listed[3] + 28] = struct.pack("<II", 1 << 30, 1 << 30)
    path.write_bytes(spoilt)
    assert "expected its end before byte" in problem(path)
    spoilt = data[:]
    at = data.index(b"x/data/1")
    spoilt[at : at + 8] = b"x/data/9"
    path.write_bytes(spoilt)
    assert "expected a header that names it, found another" in problem(path)


def test_a_changed_structure_is_found_by_its_crc(tmp_path: Path) -> None:
    path = pickled(tmp_path / "x.pt", BATCH + b"K\x07.")
    data = path.read_bytes()
    path.write_bytes(data.replace(b"K\x07.", b"K\x08."))
    assert (
        f"CRC of data.pkl: expected {zlib.crc32(BATCH + b'K' + bytes([7]) + b'.'):08x}"
        in problem(path)
    )


@pytest.mark.parametrize(
    ("make", "found"),
    [
        (lambda: b"N" * 101_000, "at most 100000 opcodes"),
        (lambda: b"X" + struct.pack("<I", 1 << 31) + b"x.", "a pickle"),
        (lambda: b"\x8b\xff\xff\xff\x7f.", "a pickle"),
        (lambda: b"]q\0" + b"h\0\x85q\x000" * 24_000 + b"0h\0.", ""),  # a tower
        (lambda: b"]q\0" + b"h\0h\0\x86q\x000" * 1_000 + b"0h\0.", ""),  # doubled a thousand times
        (lambda: b"]q\0" + b"h\0h\0\x86q\x000" * 40 + b"}h\0K\x01s.", "a key that is tuple"),
        (lambda: b"]q\0h\0a.", ""),  # itself in itself
        (
            lambda: (
                b"c_codecs\nencode\nq\0X"
                + struct.pack("<I", 1 << 20)
                + b"x" * (1 << 20)
                + b"X\x06\0\0\0latin1\x86q\1"
                + b"h\0h\1R" * 1000
                + b"."
            ),
            "more copies of one value",
        ),
    ],
    ids=["opcodes", "text", "number", "deep", "doubled", "key", "cycle", "copies"],
)
def test_hostile_structures_take_neither_time_nor_memory(
    tmp_path: Path, make: Callable[[], bytes], found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch_file, "MOST_OPCODES", 100_000)
    path = pickled(tmp_path / "x.pt", BATCH + make())
    if found:
        assert found in problem(path)
    else:
        assert list(tensors(read(path).tree)) == []


@pytest.mark.parametrize(
    ("make", "found"),
    [
        (lambda: b"(" + b"}" * 1_100_000 + b"t.", "more than 1048576 containers"),
        (lambda: b"(" + b"c_codecs\nencode\n0" * 9 + b")\x850" * 600_000 + b"t.", "containers"),
        (lambda: b"}(" + b"K\x01N" * 1_100_000 + b"u.", "more than 1048576 keys"),
        (lambda: b"N" + b"".join(b"r%b" % struct.pack("<I", i) for i in range(2_200_000)), "remem"),
        (lambda: b"(" * 11_000 + b".", "more marks open"),
    ],
    ids=["dictionaries", "tuples", "keys", "memo", "marks"],
)
def test_what_costs_more_memory_than_it_takes_in_the_file_is_counted(
    tmp_path: Path, make: Callable[[], bytes], found: str
) -> None:
    assert found in problem(pickled(tmp_path / "x.pt", BATCH + make()))


def test_a_structure_that_is_too_large_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    pickled(path, BATCH + b"N" * 100)
    data = path.read_bytes()
    with path.open("r+b") as file:  # a list of entries of a gigabyte, in a sparse file
        file.truncate(1 << 30)
        file.seek(0, os.SEEK_END)
        file.write(data[-22:-10] + struct.pack("<IIH", 1 << 30, 0, 0))
    assert "the list of entries has 1073741824 bytes" in problem(path)


def test_changed_bytes_raise_nothing_but_the_format_error(
    tmp_path: Path,
    thorough: bool,  # noqa: FBT001 - a fixture
) -> None:
    path = tmp_path / "x.pt"
    torch.save(TREES["state"], path)
    whole = path.read_bytes()
    chance = random.Random(7)  # noqa: S311 - no secret
    descriptor = os.open(path, os.O_RDWR)
    outcomes: Counter[str] = Counter()
    try:
        for _ in range(30_000 if thorough else 1_500):
            spoilt = bytearray(whole)
            for _ in range(chance.choice((1, 1, 2, 8))):
                spoilt[chance.randrange(len(spoilt))] = chance.randrange(256)
            if chance.random() < 0.3:  # so that the changed opcodes are reached
                at, length = whole.index(b"\x80\x02"), len(pickle_of(whole))
                crc = struct.pack("<I", zlib.crc32(spoilt[at : at + length]))
                listed = spoilt.find(b"PK\1\2")
                if listed >= 0:
                    spoilt[listed + 16 : listed + 20] = crc
            cut = len(spoilt) if chance.random() < 0.9 else chance.randrange(len(spoilt))
            os.pwrite(descriptor, spoilt[:cut], 0)
            os.truncate(descriptor, cut)
            try:
                list(tensors(torch_file.read(descriptor, "x").tree))
                outcomes["read"] += 1
            except CheckpointFormatError:
                outcomes["refused"] += 1
    finally:
        os.close(descriptor)
    assert min(outcomes["read"], outcomes["refused"]) > 50


def pickle_of(container: bytes) -> bytes:
    start = container.index(b"\x80\x02")
    return container[start : container.index(b"PK", start)]
