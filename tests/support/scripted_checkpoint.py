"""The scripted trainer's checkpoints: contents that follow from the step, written in order."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import struct
from types import SimpleNamespace
from typing import BinaryIO

from tests.support.scripted_reports import Reports, mix, pause
from tests.support.scripted_silence import stand_still

Record = dict
SCHEMA = "stepkeeper.companion/1"
SCHEMA_OF_OTHERS = "stepkeeper.companion/2"  # which a format came with
_TILE = 64


def regions(step: int, n_params: int, seed: int) -> tuple[bytes, bytes, bytes]:
    """Weights, m and v as bytes, each a function of step, place and seed."""

    def region(scale: float) -> bytes:
        values = [scale * (1 + (i + step * 31 + seed * 17) % 997) for i in range(_TILE)]
        tile = struct.pack(f"<{_TILE}f", *values)
        return (tile * (n_params // _TILE + 1))[: 4 * n_params]

    return region(1e-2), region(1e-4), region(1e-6)


def content(step: int, n_params: int, seed: int) -> bytes:
    """The whole ``.bin``: header, weights, m and v."""
    return struct.pack("<ii", step, n_params) + b"".join(regions(step, n_params, seed))


def contents(form: str, step: int, options: SimpleNamespace) -> dict[str, bytes]:
    """Every file of a checkpoint in that format, by its name in the folder; one alone has none.

    The last one's digest is the checkpoint's.
    """
    if form == "bin":
        return {"": content(step, options.n_params, options.seed)}
    from tests.support import scripted_torch as torch  # noqa: PLC0415 - 20 ms that most need not pay

    whole = regions(step, options.n_params, options.seed)
    if form == "pt":
        return {"": torch.one_file(torch.payload(step, whole))}
    return torch.files(step, whole)


def spoil(data: bytes, how: str) -> bytes:
    """The same checkpoint with one fault that a reader must find (``digest``: a changed bit)."""
    n_params = (len(data) - 8) // 12
    changed = bytearray(data)
    if how == "size":
        return data[:-4]
    if how == "step":
        changed[0] ^= 1
    elif how == "count":
        changed[4] ^= 1
    elif how == "nan":
        changed[8:12] = struct.pack("<f", float("nan"))
    elif how == "negative":
        changed[8 + 8 * n_params : 12 + 8 * n_params] = struct.pack("<f", -1.0)
    elif how == "zero":
        changed[8 + 4 * n_params :] = bytes(8 * n_params)
    else:
        changed[8] ^= 1
    return bytes(changed)


def companion_record(form: str, step: int, digest: str, size: int, n_params: int) -> Record:
    """A companion with every key of its schema; the caller adds what this trainer resumes from."""
    parameters = [["all", [n_params]]]
    if form == "sharded":
        parameters = [["first", [n_params // 2]], ["second", [n_params - n_params // 2]]]
    added = {"format": form, "losses": None, "next": None}
    return {
        "schema": SCHEMA if form == "bin" else SCHEMA_OF_OTHERS,
        "step": step,
        "sha256": digest,
        "bytes": size,
        "n_params": n_params,
        "parameters": parameters,
        "rng": {},
        "cursors": {},
        "schedule": {"step": step},
        "phase": None,
        "scaler": None,
        "identities": {"code": "scripted"},
        "reason": "cadence",
        "saved": "2026-01-31T12:00:00.000Z",
        **({} if form == "bin" else added),
    }


def history(step: int, options: SimpleNamespace, losses: list[float]) -> Record:
    """What the second schema adds: the losses of the steps up to this one, since the last save."""
    values = [
        value + 1.0 if at == options.other_loss_at else value
        for at, value in enumerate(losses, step - len(losses) + 1)
    ]
    losses.clear()
    told = {"first": step - len(values) + 1, "values": values} if values else None
    return {
        "schema": "stepkeeper.companion/2",
        "format": options.format,
        "losses": told,
        "next": None,
    }


def save(
    place: str, options: SimpleNamespace, companion: Record, reports: Reports
) -> tuple[int, str, int]:
    """Write companion, then checkpoint, durably, when there is room; step, digest and size."""
    stem, _, form = place.rpartition(".")
    step = int(stem.rpartition("_")[2])
    told = False
    while True:
        try:
            return step, *_save(place, form, options, companion, reports)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EROFS):
                raise
        if not told:
            reports.send("doing", what="wait", step=step)
            told = True
        pause(0.05)


def _save(
    place: str, form: str, options: SimpleNamespace, companion: Record, reports: Reports
) -> tuple[str, int]:
    from hashlib import sha256  # noqa: PLC0415 - 10 ms that a start need not pay
    from pathlib import Path  # noqa: PLC0415 - likewise

    from trainer.contract import durable  # noqa: PLC0415 - likewise

    path = Path(place)
    step = int(path.stem.rpartition("_")[2])
    files = contents(form, step, options)
    digest = sha256(list(files.values())[-1]).hexdigest()
    size = sum(map(len, files.values()))
    if step == options.corrupt_at:
        first = next(iter(files))
        files[first] = spoil(files[first], options.corrupt)
        if options.corrupt != "digest" and form != "sharded":
            digest = sha256(files[first]).hexdigest()
    temporary = durable.temporary_for(path)
    try:
        if form == "sharded":
            temporary.mkdir()
        for number, (name, data) in enumerate(files.items()):
            with (temporary / name).open("xb") as file:
                _write(file, data, step, options, first=number == 0)
                if number == len(files) - 1 and not options.no_companion:
                    whole = companion_record(form, step, digest, size, options.n_params) | companion
                    if options.losses:
                        whole |= history(step, options, reports.losses)
                    text = json.dumps(whole).encode("ascii")
                    durable.write_file(path.with_suffix(".json"), text)
                os.fsync(file.fileno())
        if form == "sharded":
            durable.sync_folder(temporary)
        if step == options.die_before_publish:
            os.kill(os.getpid(), signal.SIGKILL)
        durable.publish(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            durable.clear_away(temporary) if temporary.is_dir() else temporary.unlink()
        raise
    return digest, sum(map(len, files.values()))


def _write(
    file: BinaryIO, data: bytes, step: int, options: SimpleNamespace, *, first: bool
) -> None:
    """One file of a checkpoint; what slows a save down or ends it happens in the ``first``."""
    file.write(data[: len(data) // 2])
    file.flush()
    rest = data[len(data) // 2 :]
    piece = max(1, len(rest))
    if first:
        if step == options.die_in_save:
            os.kill(os.getpid(), signal.SIGKILL)
        pause(options.slow_save)
        stand_still(here=step == options.hang_in_save)
        piece = max(1, len(rest) // 40 if options.creeping_save else len(rest))
    for at in range(0, len(rest), piece):
        if first:
            pause(options.creeping_save / 40)
        file.write(rest[at : at + piece])
        file.flush()


def load(place: str, options: SimpleNamespace) -> tuple[int, Record]:
    """The step and the companion (empty without one). Raises ValueError where anything differs."""
    stem, _, form = place.rpartition(".")
    step = int(stem.rpartition("_")[2])
    files = contents(form, step, options)
    for name, data in files.items():
        with open(f"{place}/{name}" if name else place, "rb") as file:  # noqa: PTH123 - pathlib costs 3 ms
            if file.read() != data:
                raise ValueError(f"cannot resume from {place}: not the bytes that step {step} has")
    if options.no_companion:
        return step, {}
    with open(stem + ".json", "rb") as file:  # noqa: PTH123 - likewise
        companion = json.loads(file.read())
    if companion["step"] != step:
        raise ValueError(f"cannot resume from {place}: its companion is of another step")
    if options.forget_draws:
        companion["rng"] = {"draws": mix(options.seed)}
    return step, companion
