"""What every export shares: where it may go, what is read from the run, how it is verified.

The run is only read. What is exported stays readable whatever retention or a rewind does to its
name meanwhile: it is held open from before it is looked at until it is copied.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Final, NamedTuple

from supervisor.config import RunFile
from supervisor.config.parsing import parse
from supervisor.errors import StepkeeperError, UsageError
from supervisor.perform.building import building
from supervisor.sidecars import attempts, kept_settings
from supervisor.sidecars.checkpoints import SealRecord
from supervisor.sidecars.checkpoints.presence import FOLDERS
from supervisor.sidecars.events import created
from trainer.contract.checkpoint_format import (
    CheckpointFormatError,
    Companion,
    companion_of,
    form_of,
    read_companion,
)
from trainer.contract.checkpoint_format.shard_index import (
    INDEX_NAME,
    read_shard_index,
)
from trainer.contract.durable import remove, write_file

SUMS: Final = "SHA256SUMS"
FOLDER: Final = "checkpoints"
_LOCK: Final = "run.lock"  # of whoever builds a folder
_PIECE: Final = 1 << 20
# What a run directory holds of ours; everything else in it is the operator's.
_OURS: Final = re.compile(
    r"run\.toml|policy\.toml|policies|settings|events\.jsonl|checkpoints|attempts|archive|origin"
    r"|(orders|intent|pivot|rewind|place)\.json|control\.sock|supervisor\.log|reserve|tmp"
    r"|.+\.lock|.+\.(loss|samples|state)\.json|\..+\.tmp|\..+\.making"
)

Tell = Callable[[str, int, int], None]  # what is done, bytes behind us, bytes in all


class Kept(NamedTuple):
    """A file of an export: its name, relative to the export, its bytes and their SHA-256 in hex."""

    name: str
    bytes: int
    sha256: str


class Part(NamedTuple):
    """A file of a checkpoint. ``path`` leads to its bytes whatever becomes of its name.

    ``root`` is the one of ``shard_roots`` in which it lies, or None.
    """

    root: str | None
    name: str
    path: Path
    bytes: int
    sha256: str

    @property
    def descriptor(self) -> int:
        """The open file behind ``path``."""
        return int(self.path.name)


class Origin(NamedTuple):
    """A sealed checkpoint and what belongs to it.

    ``parts`` are its files: one, or of a folder the index and all that it names; their digests are
    the seal's and the index's, not yet compared. ``companion`` is the text of
    its companion, or None. ``settings`` is the text of those that its trainer was started with,
    ``file`` the same as values.
    """

    run: Path
    run_id: str
    seal: SealRecord
    parts: tuple[Part, ...]
    companion: bytes | None
    settings: bytes
    file: RunFile

    @property
    def made_by(self) -> Companion | None:
        """The companion's content. Raises StepkeeperError."""
        if self.companion is None:
            return None
        try:
            return read_companion(self.companion, companion_of(self.seal.step))
        except CheckpointFormatError as error:
            raise StepkeeperError(str(error)) from None

    @property
    def name(self) -> str:
        """What the run's sidecars are called."""
        return self.file.name or self.run.name


def refuse_place(run: Path, target: Path) -> None:
    """Raise UsageError unless ``target`` is a free name in a folder that is there, outside RUN."""
    if os.path.lexists(target):
        raise UsageError(f"cannot export to {target}: it is there already; give another name")
    folder = target.parent
    if not folder.is_dir():
        raise UsageError(f"cannot export to {target}: {folder} is not a folder; make it first")
    if folder.resolve().is_relative_to(run.resolve()):
        raise UsageError(
            f"cannot export to {target}: it lies in the run {run}, which holds what training goes "
            "on from and nothing else; give a place outside"
        )


@contextlib.contextmanager
def exporting(target: Path) -> Iterator[Path]:
    """A folder to fill beside ``target``, which gets that name when nothing was raised.

    Else nothing is left. Raises UsageError, LockHeldError while another one exports to it, OSError.
    """
    with building(target) as place:
        yield place
    remove(target / _LOCK)


@contextlib.contextmanager
def origin(run: Path, seal: SealRecord) -> Iterator[Origin]:
    """All that belongs to a sealed checkpoint, held against its seal.

    Raises StepkeeperError where it is not as it was sealed or not there any more, OSError.
    """
    folder = run / FOLDER
    first = created(run / "events.jsonl")
    if first is None:
        raise StepkeeperError(f"cannot export {run}: {run / 'events.jsonl'} does not name the run")
    text = _settings_of(run, seal)
    file = parse(RunFile, text, f"the settings of step {seal.step}")
    roots = {name: run / place for name, place in file.checkpoint.shard_roots.items()}
    with contextlib.ExitStack() as stack:
        try:
            parts = tuple(_parts(folder / seal.bin.name, seal, roots, stack))
            beside = (folder / companion_of(seal.step)).read_bytes() if seal.companion else None
        except FileNotFoundError as error:
            raise StepkeeperError(
                f"cannot export step {seal.step} of {run}: {error.filename} is gone; was it "
                "deleted or superseded meanwhile? choose another step"
            ) from None
        except CheckpointFormatError as error:
            raise StepkeeperError(f"cannot export step {seal.step} of {run}: {error}") from None
        if beside is not None and sha256(beside).hexdigest() != seal.companion:
            raise StepkeeperError(
                f"cannot export step {seal.step} of {run}: {companion_of(seal.step)} is not as it "
                "was sealed; see stepkeeper checkpoints --verify"
            )
        yield Origin(
            run=run,
            run_id=str(first.facts["run"]),
            seal=seal,
            parts=parts,
            companion=beside,
            settings=text,
            file=file,
        )


def _parts(
    path: Path, seal: SealRecord, roots: Mapping[str, Path], stack: contextlib.ExitStack
) -> Iterator[Part]:
    """Open every file of the checkpoint. Raises CheckpointFormatError, OSError."""

    def part(place: Path, name: str, size: int, digest: str, root: str | None = None) -> Part:
        file = stack.enter_context((place / name).open("rb", buffering=0))
        return Part(root, name, Path(f"/proc/self/fd/{file.fileno()}"), size, digest)

    sealed = seal.bin
    if form_of(sealed.name) not in FOLDERS:
        yield part(path.parent, sealed.name, sealed.bytes, sealed.sha256)
        return
    index = part(path, INDEX_NAME, 0, sealed.sha256)
    data = index.path.read_bytes()
    yield index._replace(bytes=len(data))
    if (found := sha256(data).hexdigest()) != sealed.sha256:
        raise CheckpointFormatError(
            f"{sealed.name}/{INDEX_NAME}", "sha256 as sealed", sealed.sha256, found
        )
    listed = read_shard_index(data, f"{sealed.name}/{INDEX_NAME}")
    for file in (listed.meta, *listed.shards):
        if file.root is not None and file.root not in roots:
            raise CheckpointFormatError(
                sealed.name, f"the root {file.root} of {file.name}", "one of shard_roots", "none"
            )
        place = path if file.root is None else roots[file.root]
        yield part(place, file.name, file.bytes, file.sha256, file.root)


def _settings_of(run: Path, seal: SealRecord) -> bytes:
    """The settings that the trainer of a checkpoint was started with.

    Those in force where no attempt of this run made it, or its own are not kept any more.
    """
    path = None
    if seal.attempt in attempts.numbers(run):
        path = kept_settings.find(run, attempts.read(run, seal.attempt).settings)
    return (path or kept_settings.newest_path(run) or run / "run.toml").read_bytes()


def others(run: Path) -> tuple[Path, ...]:
    """What lies in a run's directory and is not ours: the trainer's code, perhaps, or sources."""
    return tuple(sorted(p for p in run.iterdir() if not _OURS.fullmatch(p.name)))


def digest_of(path: Path, length: int) -> str:
    """SHA-256 of a file's first ``length`` bytes, in hex. Raises OSError."""
    digest = sha256()
    with path.open("rb", buffering=0) as file:
        while length and (piece := file.read(min(_PIECE, length))):
            digest.update(piece)
            length -= len(piece)
    return digest.hexdigest()


def keep(place: Path, name: str, data: bytes) -> Kept:
    """Write a file of the export durably. Raises OSError."""
    path = place / name
    path.parent.mkdir(mode=0o750, exist_ok=True)
    write_file(path, data)
    return Kept(name, len(data), sha256(data).hexdigest())


def keep_sums(place: Path, files: Iterable[Kept]) -> Kept:
    """Write the digests of all files in the form that ``sha256sum -c`` reads. Raises OSError."""
    lines = [f"{file.sha256}  {file.name}\n" for file in sorted(files)]
    return keep(place, SUMS, "".join(lines).encode("utf-8"))


def read_back(place: Path, files: Iterable[Kept]) -> None:
    """Hold every file against what it has to be, as the disk holds it.

    Raises StepkeeperError for the first one that differs, OSError.
    """
    for wanted in files:
        path = place / wanted.name
        with path.open("rb", buffering=0) as file:
            # Clean pages are dropped, so that what is read is what the disk holds.
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            size = os.fstat(file.fileno()).st_size
            found = file_digest(file, "sha256").hexdigest()
        if (size, found) != (wanted.bytes, wanted.sha256):
            raise StepkeeperError(
                f"cannot vouch for the copy of {wanted.name}: expected {wanted.bytes} bytes with "
                f"SHA-256 {wanted.sha256}, found {size} with {found}; nothing is left of it, try "
                "another disk"
            )
