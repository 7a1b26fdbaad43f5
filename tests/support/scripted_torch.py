"""What torch would write, written without it: one file, or shards with their index, of plain state.

The same numbers as a ``.bin`` has, in the payload's keys; nothing in it depends on the time.
"""

from __future__ import annotations

import io
import json
import struct
import zipfile
from hashlib import sha256
from typing import NamedTuple

SCHEMA = "stepkeeper.full-state/2"
INDEX_SCHEMA = "stepkeeper.shard-index/1"
FLOAT = 4
_DATE = (1980, 1, 1, 0, 0, 0)


class Floats(NamedTuple):
    """A tensor of one dimension by the bytes of its float32 numbers."""

    data: bytes


class _Pickler:
    """Plain values and tensors as the opcodes that torch.save gives them."""

    def __init__(self) -> None:
        self.storages: list[bytes] = []

    def value(self, value: object) -> bytes:
        """The opcodes of one value."""
        match value:
            case None:
                words = b"N"
            case int():
                words = b"J" + struct.pack("<i", value)
            case float():
                words = b"G" + struct.pack(">d", value)
            case str():
                words = b"X" + struct.pack("<I", len(value)) + value.encode("ascii")
            case Floats():
                words = self._tensor(value.data)
            case list():
                words = b"](" + b"".join(map(self.value, value)) + b"e"
            case dict():
                pairs = (self.value(key) + self.value(item) for key, item in value.items())
                words = b"}(" + b"".join(pairs) + b"u"
            case _:
                raise TypeError(f"cannot write {type(value).__name__}")
        return words

    def _tensor(self, data: bytes) -> bytes:
        key, count = str(len(self.storages)), self.value(len(data) // FLOAT)
        self.storages.append(data)
        described = b"(" + self.value("storage") + b"ctorch\nFloatStorage\n"
        described += self.value(key) + self.value("cpu") + count + b"tQ"
        inside = described + self.value(0) + b"(" + count + b"t(" + self.value(1) + b"t\x89"
        return b"ctorch._utils\n_rebuild_tensor_v2\n(" + inside + b"ccollections\nOrderedDict\n)RtR"


def one_file(tree: object) -> bytes:
    """The bytes of a torch.save file."""
    pickler, buffer = _Pickler(), io.BytesIO()
    pickled = b"\x80\x02" + pickler.value(tree) + b"."
    inside = {"data.pkl": pickled, "byteorder": b"little"}
    inside |= {f"data/{number}": data for number, data in enumerate(pickler.storages)}
    with zipfile.ZipFile(buffer, "w") as container:
        for name, data in {**inside, "version": b"3\n"}.items():
            container.writestr(zipfile.ZipInfo(f"archive/{name}", _DATE), data)
    return buffer.getvalue()


def payload(step: int, regions: tuple[bytes, bytes, bytes]) -> dict[str, object]:
    """The full state with weights, m and v in ``regions``."""
    weights, m, v = map(Floats, regions)
    return {
        "schema": SCHEMA,
        "model": {"all": weights},
        "optimizer": {"m": {"all": m}, "v": {"all": v}, "updates": step},
        "scheduler": None,
        "train_state": {"step": step, "epoch": 0, "batch_in_epoch": 0, "losses": []},
        "rng": {},
        "wall_saved_at": 0.0,
    }


def files(step: int, regions: tuple[bytes, bytes, bytes]) -> dict[str, bytes]:
    """The files of a sharded checkpoint with two shards, by name; the index is the last."""
    whole = payload(step, regions)
    parts, keys = {}, ("first", "second")
    half = len(regions[0]) // FLOAT // 2 * FLOAT
    for number, key in enumerate(keys):
        start, end = (0, half) if number == 0 else (half, len(regions[0]))
        model = {key: Floats(regions[0][start:end])}
        parts[f"model.shard-{number:03d}.pt"] = one_file(
            {"schema": SCHEMA, "shard": number, "model": model, "optimizer": {}}
        )
    meta = one_file({**whole, "model": list(keys)})
    shards = [
        {**_described(name, data), "root": None, "keys": [key]}
        for (name, data), key in zip(parts.items(), keys, strict=True)
    ]
    index = {
        "schema": INDEX_SCHEMA,
        "payload": SCHEMA,
        "step": step,
        "split": "round_robin",
        "meta": _described("meta.pt", meta),
        "shards": shards,
    }
    return {**parts, "meta.pt": meta, "index.json": json.dumps(index).encode("ascii")}


def _described(name: str, data: bytes) -> dict[str, object]:
    return {"name": name, "bytes": len(data), "sha256": sha256(data).hexdigest()}
