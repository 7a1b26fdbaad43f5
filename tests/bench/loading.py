"""How long it takes to have a checkpoint's arrays in place, against a plain read of the file."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed.checkpoint as dcp
from safetensors.torch import load_file

from tests.bench.beside import Rig
from tests.bench.peers import AtOnce, dcp_save, safetensors_save, torch_save
from trainer.cadence import Due
from trainer.resume import Resumed, Terms, load

Seconds = dict[str, list[float]]


PLAIN = "plain read into ready memory"
OURS = "ours, until training can go on"


def measure(rig: Rig, rounds: int) -> tuple[Seconds, Seconds]:
    """Seconds with pages of the file dropped before, and with all of them in memory."""
    loaders, files = _prepared(rig)
    for read in loaders.values():
        read()  # what holds the disk has then seen each file once
    cold: Seconds = {name: [] for name in loaders}
    hot: Seconds = {name: [] for name in loaders}
    names = list(loaders)
    for number in range(rounds):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            for path in files[name]:
                _forget(path)
            cold[name].append(_timed(loaders[name], rig))
            hot[name].append(_timed(loaders[name], rig))
    return cold, hot


def _timed(read: Callable[[], object], rig: Rig) -> float:
    began = time.perf_counter()
    result = read()
    if rig.run.compute.device.type == "cuda":
        torch.cuda.synchronize()
    took = time.perf_counter() - began
    if isinstance(result, Resumed) and result.digest is not None:
        result.digest.check()
    return took


def _forget(path: Path) -> None:
    """Drop what memory holds of a file that is durable."""
    descriptor = os.open(path, os.O_RDONLY)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)


def _prepared(rig: Rig) -> tuple[dict[str, Callable[[], object]], dict[str, list[Path]]]:
    run = rig.run
    run.keeper.keep(run.state, Due("signal", None, ""))
    run.keeper.finish(run.state)
    [ours] = (rig.folder / "checkpoints").glob("*.bin")
    saved: dict[str, Path] = {}
    for name, save in (
        ("torch", torch_save),
        ("safetensors", safetensors_save),
        ("dcp", dcp_save),
    ):
        way = AtOnce(rig, f"loading-{name}", save)
        way.begin()
        saved[name] = way.files / "saved"
    ready = np.empty(ours.stat().st_size, np.uint8)
    ready[:] = 1
    tensors = rig.tensors()

    def resume(*, later: bool) -> Resumed:
        """As after a restart; training waits for the digest only before its first update."""
        return load(ours, run.state, run.keeper._identities, Terms(later=later))

    def plain() -> None:
        with ours.open("rb", buffering=0) as file:
            rest = memoryview(ready)
            while rest:
                rest = rest[file.readinto(rest) :]

    def fill(found: dict[str, Any]) -> None:
        for name, tensor in found.items():
            tensors[name].copy_(tensor)

    def with_torch() -> None:
        found = torch.load(  # noqa: TID251 - a peer, beside which ours is measured
            saved["torch"], weights_only=True, mmap=True, map_location="cpu"
        )
        fill(found)

    def with_safetensors() -> None:
        fill(load_file(saved["safetensors"]))

    def with_dcp() -> None:
        dcp.load(tensors, storage_reader=dcp.FileSystemReader(saved["dcp"]))

    loaders = {
        PLAIN: plain,
        OURS: lambda: resume(later=True),
        "ours, until the digest is known": lambda: resume(later=False),
        "torch.load, mapped": with_torch,
        "safetensors": with_safetensors,
        "DCP load": with_dcp,
    }
    paths = [ours, ours, ours, saved["torch"], saved["safetensors"]]
    files = {name: [path] for name, path in zip(loaders, paths, strict=False)}
    files["DCP load"] = [path for path in saved["dcp"].iterdir() if path.is_file()]
    return loaders, files
