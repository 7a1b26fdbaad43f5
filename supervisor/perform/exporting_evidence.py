"""Make a resume bundle: written, verified where it lies, loaded once there, and only then named."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import NamedTuple

from supervisor import __version__, clock
from supervisor.perform import exporting_bundle
from supervisor.perform.exporting import FOLDER, Kept, Origin, Tell, exporting, keep_sums, origin
from supervisor.perform.exporting_load import Loaded, load_once, refuse_foreign_command
from supervisor.process.machine import host
from supervisor.sidecars.bundle import (
    MANIFEST,
    CheckModel,
    CommandsModel,
    EvidenceModel,
    FileModel,
    RestoredModel,
    write_evidence,
)
from supervisor.sidecars.checkpoints import SealRecord


class Made(NamedTuple):
    """A bundle's files, its model's parameters, and the evidence, None where it was not loaded."""

    files: tuple[Kept, ...]
    n_params: int
    evidence: EvidenceModel | None


def export(
    run: Path, seal: SealRecord, target: Path, words: tuple[str, ...] | None, tell: Tell
) -> Made:
    """Make the folder ``target``; ``words`` is the command that asks for it, None: load nothing.

    Raises StepkeeperError where the copy or its load does not hold, OSError; then nothing is left.
    """
    if words is not None:
        refuse_foreign_command(run)
    with origin(run, seal) as source, exporting(target) as place:
        bundle = exporting_bundle.fill(source, place, tell)
        sums = keep_sums(place, bundle.files)
        files = (*bundle.files, sums)
        checks = exporting_bundle.verify(seal, place, bundle._replace(files=files), tell)
        evidence = None
        if words is not None:
            loaded = load_once(source, place, bundle.n_params, tell)
            evidence = _evidence(source, files, words, loaded, checks)
            write_evidence(place, evidence)
    return Made(files, bundle.n_params, evidence)


def _evidence(
    source: Origin,
    files: tuple[Kept, ...],
    words: tuple[str, ...],
    loaded: Loaded,
    checks: tuple[CheckModel, ...],
) -> EvidenceModel:
    seal, ready = source.seal, loaded.ready
    by_name = {file.name: file for file in files}
    more = {
        "ready": f"ready after step {ready.step} with {ready.n_params} parameters, as sealed",
        "unchanged": "the load wrote into no file of the bundle",
    }
    return EvidenceModel(
        run=source.run_id,
        step=seal.step,
        seal=seal.digest,
        manifest=by_name[MANIFEST].sha256,
        commands=CommandsModel(export=words, trainer=loaded.command),
        resumed=FileModel(
            name=f"{FOLDER}/{seal.bin.name}", bytes=seal.bin.bytes, sha256=seal.bin.sha256
        ),
        restored=RestoredModel(step=ready.step, n_params=ready.n_params, companion=ready.companion),
        checks=(*checks, *(CheckModel(check=name, what=what) for name, what in more.items())),
        versions=_versions(source),
        host=host(),
        seconds=round(loaded.seconds, 3),
        time=clock.wall(),
    )


def _versions(source: Origin) -> dict[str, str]:
    """Of what exported, and of what the companion says that the checkpoint was made by."""
    found = {
        "stepkeeper": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()}",
    }
    made_by = source.made_by.identities.get("versions") if source.made_by is not None else None
    of = made_by if isinstance(made_by, dict) else {}
    return found | {f"checkpoint's {name}": str(version) for name, version in of.items()}
