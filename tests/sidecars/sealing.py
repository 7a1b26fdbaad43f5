"""Checkpoints and seals made by hand, as a run would leave them."""

from __future__ import annotations

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


def checkpoint(folder: Path, step: int, *, beside: bool = False) -> str:
    """Write a checkpoint; its digest."""
    data = content(step)
    (folder / name_of(step)).write_bytes(data)
    if beside:
        (folder / companion_of(step)).write_bytes(companion(step, data))
    return sha256(data).hexdigest()


def record(step: int, previous: str = "", **other: Any) -> SealRecord:  # noqa: ANN401 - any field
    """A seal as the shell would write it."""
    seal = SealRecord(
        step=step,
        attempt=1,
        bin=Bin(name_of(step), sha256(content(step)).hexdigest(), len(content(step))),
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


def lineage(folder: Path, *steps: int, previous: str = "") -> dict[int, str]:
    """Sealed checkpoints, each following the one before; the seals' digests."""
    digests = {}
    for step in steps:
        checkpoint(folder, step)
        previous = digests[step] = write_seal(folder, record(step, previous))
    return digests
