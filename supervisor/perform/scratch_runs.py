"""Copies of a run in which a proof trains: from a sealed checkpoint, whole or without one state."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path
from typing import Any, Final, NamedTuple

from supervisor.config.scratch_settings import scratch_settings
from supervisor.errors import StepkeeperError
from supervisor.perform import building, forking
from supervisor.sidecars import archive, resume_proof
from supervisor.sidecars.checkpoints import SealRecord
from supervisor.sidecars.resume_proof import ProofModel
from trainer.contract.checkpoint_format import (
    HEADER_BYTES,
    Companion,
    companion_of,
    form_of,
    format_companion,
    n_params_of,
    read_companion,
)
from trainer.contract.durable import write_file

_BLOCK: Final = 1 << 24
_KEYS: Final = {"rng": "rng", "scheduler": "schedule", "cursor": "cursors", "phase": "phase"}
_REGIONS: Final = {"m": 1, "v": 2}


class Origin(NamedTuple):
    """What is proved: the run, the name of its sidecars, and the text of its settings."""

    run: Path
    name: str
    settings: str


class Sealed(NamedTuple):
    """A sealed checkpoint, in the run that has it."""

    run: Path
    seal: SealRecord

    @property
    def checkpoint(self) -> Path:
        """Its file or folder."""
        return self.run / "checkpoints" / self.seal.bin.name

    def companion(self) -> Companion | None:
        """Its companion, or None where it was sealed without. Raises CheckpointFormatError."""
        if not self.seal.companion:
            return None
        path = self.run / "checkpoints" / companion_of(self.seal.step)
        return read_companion(path.read_bytes(), str(path))


def begin(origin: Origin, start: Sealed | None, target: Path, every: int, omit: str = "") -> None:
    """Make a copy in ``target`` that goes on from ``start``, or begins from nothing.

    It saves each ``every`` steps, and asks its trainer to ``omit`` a state. Raises
    StepkeeperError, OSError.
    """
    settings = scratch_settings(origin.run, origin.name, origin.settings, every, omit)
    if start is not None:
        forking.fork(_parent(origin, start, settings), target, None)
        return
    with building.building(target) as place:
        write_file(place / "run.toml", settings.encode("utf-8"))
        numbers = archive.policies(origin.run)
        path = origin.run / "policy.toml"
        if numbers:
            path = archive.policy_path(origin.run, numbers[-1])
        write_file(place / "policy.toml", path.read_bytes())


def begin_without(
    origin: Origin, start: Sealed, target: Path, every: int, state: str, donor: Sealed
) -> None:
    """The same from a checkpoint whose ``state`` is that of ``donor``, another one of this run.

    A state of another step is one that the trainer can read, and not the one to resume from.
    Raises StepkeeperError, OSError.
    """

    def alter(folder: Path, seal: SealRecord) -> SealRecord:
        return _altered(folder, seal, state, donor)

    settings = scratch_settings(origin.run, origin.name, origin.settings, every)
    forking.fork(_parent(origin, start, settings), target, None, alter)


def uncontrollable(start: Sealed, state: str, donor: Sealed) -> str:
    """Why no checkpoint without ``state`` can be made from ``start``, or empty. Raises OSError."""
    same = f"it is the same at step {start.seal.step} and at step {donor.seal.step}"
    if form_of(start.seal.bin.name) != "bin":
        return "it stands in a file that only the trainer writes"
    if state in _REGIONS:
        equal = _region(start.checkpoint, state) == _region(donor.checkpoint, state)
        return same if equal else ""
    mine, other = start.companion(), donor.companion()
    if mine is None or other is None:
        return "its checkpoints have no companion"
    kept = getattr(mine, _KEYS[state])
    if not kept:
        return "its companion keeps none"
    return same if state != "phase" and kept == getattr(other, _KEYS[state]) else ""


def store(run: Path, record: ProofModel) -> None:
    """Keep a verdict in the run that it is of: all that a proof ever writes there.

    Raises OSError.
    """
    resume_proof.write(run, record)


def remove(place: Path) -> None:
    """Remove a copy, or a folder of them, that nothing uses any more."""
    shutil.rmtree(place, ignore_errors=True)


def _parent(origin: Origin, start: Sealed, settings: str) -> forking.Parent:
    parent = forking.read_parent(start.run, origin.name, start.seal)
    return parent._replace(settings=settings)


def _altered(folder: Path, seal: SealRecord, state: str, donor: Sealed) -> SealRecord:
    """Change the copy and the digests that speak of it; the seal for that."""
    path = folder / seal.bin.name
    sha256 = seal.bin.sha256
    if state in _REGIONS:
        sha256 = _transplant(path, donor.checkpoint, state)
    if not seal.companion:
        return seal._replace(bin=seal.bin._replace(sha256=sha256))
    beside = folder / companion_of(seal.step)
    companion = read_companion(beside.read_bytes(), str(beside))._replace(sha256=sha256)
    if state in _KEYS:
        other = donor.companion()
        if other is None:
            raise StepkeeperError(f"cannot take {state} from {donor.checkpoint}: no companion")
        taken = None if state == "phase" else getattr(other, _KEYS[state])
        # What it says of the next step would have the trainer refuse what is to be tried.
        changed: dict[str, Any] = {_KEYS[state]: taken, "next": None}
        companion = companion._replace(**changed)
    data = format_companion(companion)
    write_file(beside, data)
    return seal._replace(
        bin=seal.bin._replace(sha256=sha256), companion=hashlib.sha256(data).hexdigest()
    )


def _transplant(path: Path, donor: Path, state: str) -> str:
    """Write the donor's region into the ``.bin`` at ``path``; the digest of the whole."""
    start, size = _span(path, state)
    with path.open("r+b") as file, donor.open("rb") as source:
        file.seek(start)
        source.seek(start)
        left = size
        while left and (block := source.read(min(_BLOCK, left))):
            file.write(block)
            left -= len(block)
        file.flush()
        file.seek(0)
        return hashlib.file_digest(file, "sha256").hexdigest()


def _region(path: Path, state: str) -> str:
    """The digest of one region of a ``.bin``."""
    start, size = _span(path, state)
    digest = hashlib.sha256()
    with path.open("rb") as file:
        file.seek(start)
        while size and (block := file.read(min(_BLOCK, size))):
            digest.update(block)
            size -= len(block)
    return digest.hexdigest()


def _span(path: Path, state: str) -> tuple[int, int]:
    count = n_params_of(path.stat().st_size)
    return HEADER_BYTES + 4 * count * _REGIONS[state], 4 * count
