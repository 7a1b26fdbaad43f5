"""Export a sealed checkpoint with all that a resume elsewhere needs, verified where it lies.

The bundle is a run directory as far as ``fork`` looks at one, cut off at the seal: so the command
that makes a run of a run makes a run of a bundle.
"""

from __future__ import annotations

import csv
import io
import json
import select
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from supervisor import __version__, clock
from supervisor.config import RunFile
from supervisor.config.parsing import parse
from supervisor.config.toml_text import named, relocated
from supervisor.core.messages import LedgerPosition
from supervisor.errors import StepkeeperError
from supervisor.perform import building
from supervisor.perform.bundle_readme import Facts, readme
from supervisor.perform.exporting import (
    FOLDER,
    Kept,
    Origin,
    Part,
    Tell,
    digest_of,
    keep,
    others,
    read_back,
)
from supervisor.perform.forking import policy_at
from supervisor.perform.founding import name_for
from supervisor.sidecars import events, ledger
from supervisor.sidecars.bundle import MANIFEST, CheckModel, FileModel, ManifestModel, encode
from supervisor.sidecars.checkpoints.presence import FOLDERS
from supervisor.sidecars.checkpoints.seals import SealRecord
from supervisor.sidecars.checkpoints.verifying import Sealed, Verifier
from trainer.contract.checkpoint_format import companion_of, form_of, n_params_of, seal_of

DATA_SCHEMA: Final = "stepkeeper.data/1"
_SERIES: Final = ("step", "loss", "nonfinite", "arm", "lr", "policy", "attempt")
_LOOK_SECONDS: Final = 0.2


class Bundle(NamedTuple):
    """What was written: its files, and how many parameters the model has."""

    files: tuple[Kept, ...]
    n_params: int
    ledger: str


def fill(source: Origin, place: Path, tell: Tell) -> Bundle:
    """Write everything into ``place``, the manifest last. Raises StepkeeperError, OSError."""
    seal, companion = source.seal, source.made_by
    name = name_for(source.run) if source.file.name is None else source.file.name
    n_params = companion.n_params if companion is not None else n_params_of(seal.bin.bytes)
    text = named(relocated(source.settings.decode("utf-8"), source.run), name)
    policy = policy_at(source.run, seal.policy).read_bytes()
    file = parse(RunFile, text.encode("utf-8"), "run.toml")
    facts = Facts(name, source.run_id, seal, file, others(source.run))
    files = [
        *_checkpoint(source, place, tell),
        keep(place, "run.toml", text.encode("utf-8")),
        keep(place, f"{building.folder(place, 'origin').name}/run.toml", source.settings),
        keep(place, "policy.toml", policy),
        keep(place, f"policies/{seal.policy or 1:04d}.toml", policy),
        *_history(source, place, name),
        keep(place, "metrics.csv", _metrics(place / f"{name}{ledger.SUFFIX}")),
        keep(place, "data.json", _data(source)),
        keep(place, "README.md", readme(facts)),
    ]
    record = ManifestModel(
        run=source.run_id,
        name=name,
        step=seal.step,
        n_params=n_params,
        seal=seal.digest,
        head=f"{seal.ledger.entries}:{seal.ledger.chain}:{seal.digest[:32]}",
        policy=seal.policy,
        stepkeeper=__version__,
        made=clock.wall(),
        files=tuple(FileModel(**file._asdict()) for file in sorted(files)),
    )
    files.append(keep(place, MANIFEST, encode(record)))
    return Bundle(tuple(files), n_params, f"{name}{ledger.SUFFIX}")


def verify(seal: SealRecord, place: Path, bundle: Bundle, tell: Tell) -> tuple[CheckModel, ...]:
    """Hold the copy against the run's own records, as the disk on which it lies holds it.

    Raises StepkeeperError for the first thing that is not as it has to be, OSError.
    """
    large = f"{FOLDER}/{seal.bin.name}"
    read_back(place, tuple(file for file in bundle.files if not file.name.startswith(large)))
    _read_checkpoint(seal, place / FOLDER, tell)
    _check_ledger(place / bundle.ledger, LedgerPosition(*seal.ledger))
    _check_journal(place / "events.jsonl", events.Head(*seal.events))
    count, total = len(bundle.files), sum(file.bytes for file in bundle.files)
    lines = f"{seal.ledger.entries} lines, chained from the first one to {seal.ledger.chain}"
    journal = f"{seal.events.entries} lines, chained from the first one to {seal.events.chain}"
    found = {
        "sizes": f"{count} files, {total} bytes",
        "digests": f"SHA-256 of {count} files, read back from the disk",
        "seal": f"the digests of checkpoint and companion are those of seal {seal.digest}",
        "ledger": f"{lines}, which is the seal's",
        "journal": f"{journal}, which is the seal's",
    }
    return tuple(CheckModel(check=check, what=what) for check, what in found.items())


def _checkpoint(source: Origin, place: Path, tell: Tell) -> Iterator[Kept]:
    """Checkpoint, companion and seal; digests are the seal's, to be found again in the copies."""
    seal, into, done = source.seal, FOLDER, 0
    building.folder(place, FOLDER)
    if form_of(seal.bin.name) in FOLDERS:
        into = f"{FOLDER}/{seal.bin.name}"
        building.folder(place, into)
    for part in source.parts:
        _copy_part(part, place / into, seal, done, tell)
        yield Kept(f"{into}/{part.name}", part.bytes, part.sha256)
        done += part.bytes
    if source.companion is not None:
        yield keep(place, f"{FOLDER}/{companion_of(seal.step)}", source.companion)
    yield keep(place, f"{FOLDER}/{seal_of(seal.step)}", seal.encode())


def _copy_part(part: Part, folder: Path, seal: SealRecord, before: int, tell: Tell) -> None:
    if part.root is not None:
        raise StepkeeperError(
            f"cannot bundle step {seal.step}: {part.name} lies in the root {part.root} of "
            "shard_roots, which a bundle does not gather; its weights can be exported"
        )
    building.copy(
        part.path,
        folder / part.name,
        tell=lambda done: tell(f"copying {seal.bin.name}", before + done, 2 * seal.bin.bytes),
    )


def _history(source: Origin, place: Path, name: str) -> Iterator[Kept]:
    """The ledger and the journal up to the seal, and not a byte more."""
    seal, run = source.seal, source.run
    for old, new, length in (
        (run / f"{source.name}{ledger.SUFFIX}", f"{name}{ledger.SUFFIX}", seal.ledger.bytes),
        (run / "events.jsonl", "events.jsonl", seal.events.bytes),
    ):
        if old.stat().st_size < length:
            raise StepkeeperError(
                f"cannot export step {seal.step} of {run}: {old.name} ends before byte {length}, "
                "of which its seal speaks; see stepkeeper audit"
            )
        building.copy(old, place / new, length)
        yield Kept(new, length, digest_of(old, length))


def _read_checkpoint(seal: SealRecord, folder: Path, tell: Tell) -> None:
    """Its digest and its companion's, from the disk. Raises StepkeeperError, OSError."""
    verifier = Verifier()
    try:
        sealed = Sealed(seal.bin.sha256, seal.companion)
        descriptor = verifier.start_again(folder, seal.bin.name, sealed)
        while (verdict := verifier.result()) is None:
            select.select([descriptor], [], [], _LOOK_SECONDS)
            done = seal.bin.bytes + verifier.done
            tell(f"reading {seal.bin.name} back", done, 2 * seal.bin.bytes)
    finally:
        verifier.close()
    if verdict.problem:
        raise StepkeeperError(f"cannot vouch for the copy of {seal.bin.name}: {verdict.problem}")


def _check_ledger(path: Path, position: LedgerPosition) -> None:
    found = ledger.audit(path, positions=[position])
    held = (found.entries, found.bytes, found.chain) == position[:3]
    if found.fault or found.torn_tail or not held:
        why = found.fault or f"it does not end with entry {position.entries}, {position.chain}"
        raise StepkeeperError(
            f"cannot vouch for the copy of {path.name}: {why}; see stepkeeper audit"
        )


def _check_journal(path: Path, head: events.Head) -> None:
    found = events.verify(path, [head])
    if found.fault or found.torn_tail or found.head != head:
        why = found.fault or f"it does not end with entry {head.entries}, {head.chain}"
        raise StepkeeperError(
            f"cannot vouch for the copy of {path.name}: {why}; see stepkeeper audit"
        )


def _metrics(path: Path) -> bytes:
    """The canonical losses up to the seal as CSV, numbers as exactly as they stand."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_SERIES)
    for entry in ledger.canonical(path):
        writer.writerow([entry.fields.get(name) for name in _SERIES])
    return text.getvalue().encode("utf-8")


def _data(source: Origin) -> bytes:
    """What the model was trained on and how far: by the settings, and by the companion."""
    companion = source.made_by
    arms: dict[str, Any] = {
        arm: {**given.model_dump(mode="json"), "path": str((source.run / given.path).resolve())}
        for arm, given in source.file.sources.items()
    }
    record = {
        "schema": DATA_SCHEMA,
        "step": source.seal.step,
        "arms": arms,
        "identities": None if companion is None else companion.identities,
        "cursors": None if companion is None else companion.cursors,
    }
    return json.dumps(record, indent=1).encode("ascii") + b"\n"
