"""Checkpoints and seals made by hand, as a run would leave them."""

from __future__ import annotations

import json
import struct
from hashlib import sha256
from pathlib import Path
from typing import Any

from supervisor.sidecars.checkpoints import SealRecord, write_seal
from supervisor.sidecars.checkpoints.seals import Bin, EventsAt, LedgerAt, Replay, ReportsAt
from trainer.contract.checkpoint_format import (
    Companion,
    companion_of,
    format_companion,
    name_of,
    pack_header,
    size_of,
)


def content(step: int, n: int = 4, **arrays: list[float]) -> bytes:
    """A good ``.bin`` of ``n`` parameters; ``weights``, ``m`` and ``v`` may be given."""
    data = pack_header(step, n)
    for name in ("weights", "m", "v"):
        data += struct.pack(f"<{n}f", *arrays.get(name, [0.5] * n))
    return data


def companion(step: int, data: bytes, n: int = 4, **other: Any) -> bytes:  # noqa: ANN401 - any field
    """The companion of that content."""
    record = Companion(
        step=step,
        sha256=sha256(data).hexdigest(),
        bytes=size_of(n),
        n_params=n,
        parameters=(("weight", (n,)),),
        rng={},
        cursors={},
        schedule={},
        phase=None,
        scaler=None,
        identities={},
        reason="cadence",
        saved="2026-01-31T12:00:00.000Z",
    )
    return format_companion(record._replace(**other))


def files(step: int, form: str) -> dict[str, bytes]:
    """What a checkpoint of another format than ``.bin`` holds, by file name: only the shape."""
    if form == "pt":
        return {"": f"one file of step {step}".encode()}
    parts = {f"model.shard-{n:03d}.pt": f"shard {n} of step {step}".encode() for n in (0, 1)}
    parts["meta.pt"] = f"meta of step {step}".encode()
    digests = {name: sha256(data).hexdigest() for name, data in parts.items()}
    return {**parts, "index.json": json.dumps(digests).encode()}


def checkpoint(folder: Path, step: int, *, beside: bool = False, form: str = "bin") -> str:
    """Write a checkpoint; its digest."""
    path, data = folder / name_of(step, form), content(step)
    if form == "bin":
        path.write_bytes(data)
    elif form == "pt":
        data = files(step, form)[""]
        path.write_bytes(data)
    else:
        path.mkdir()
        for name, part in files(step, form).items():
            (path / name).write_bytes(part)
        data = files(step, form)["index.json"]
    if beside:
        size = bytes_in(step, form)
        text = companion(step, data, format=form, bytes=size)
        (folder / companion_of(step)).write_bytes(text)
    return sha256(data).hexdigest()


def bytes_in(step: int, form: str = "bin") -> int:
    """Bytes of what ``checkpoint`` writes."""
    return sum(map(len, [content(step)] if form == "bin" else files(step, form).values()))


def digest_of(step: int, form: str = "bin") -> str:
    """The digest of what ``checkpoint`` writes."""
    if form == "bin":
        return sha256(content(step)).hexdigest()
    return sha256(files(step, form)["" if form == "pt" else "index.json"]).hexdigest()


def record(step: int, previous: str = "", form: str = "bin", **other: Any) -> SealRecord:  # noqa: ANN401 - any field
    """A seal as the shell would write it."""
    seal = SealRecord(
        step=step,
        attempt=1,
        bin=Bin(name_of(step, form), digest_of(step, form), bytes_in(step, form)),
        companion="",
        previous=previous,
        ledger=LedgerAt(step, 100 * step, "0" * 32, step),
        reports=ReportsAt(1, step + 2, 90 * step),
        events=EventsAt(3, 400, "1" * 32),
        policy=1,
        bandit={"arms": {"chat": {"served": 3, "mean": 0.1}}},
        sample=None,
        reason="cadence",
        save=None,
        replay=Replay(0, 0),
        time="2026-01-31T12:00:00.000Z",
    )
    return seal._replace(**other)


def lineage(folder: Path, *steps: int, previous: str = "", form: str = "bin") -> dict[int, str]:
    """Sealed checkpoints, each following the one before; the seals' digests."""
    digests = {}
    for step in steps:
        checkpoint(folder, step, form=form)
        previous = digests[step] = write_seal(folder, record(step, previous, form))
    return digests


def snapshot(folder: Path) -> dict[str, bytes]:
    """Every regular file by its path below ``folder``."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }
