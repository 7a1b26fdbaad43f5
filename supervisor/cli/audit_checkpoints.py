"""Whether each checkpoint that is there is the one that its seal speaks of."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from supervisor.cli import standing
from supervisor.cli.audit_findings import Findings
from supervisor.cli.audit_journal import NAME as JOURNAL
from supervisor.cli.audit_seals import SealFile, Seals
from supervisor.cli.audit_shards import ahead, shard_faults
from supervisor.sidecars.checkpoints import scan
from supervisor.sidecars.checkpoints.presence import INDEX, kind_of, measure
from supervisor.sidecars.events import EventLine, read
from trainer.contract.checkpoint_format import companion_of, form_of

MOST_UNASKED = 1_000_000_000  # bytes whose digests are computed without being asked for
_BLOCK = 1 << 20
Progress = Callable[[str, int, int], None]


class Checkpoints(NamedTuple):
    """How many are there, were deleted, have no seal; bytes, and whether digests ran.

    ``untold`` are those that are gone without a line of the journal: not retention took them.
    """

    present: int
    gone: int
    unsealed: int
    bytes: int
    digests: bool
    untold: tuple[str, ...]


class _Found(NamedTuple):
    """A sealed checkpoint of the right size; more than one path where a crash left two names."""

    file: SealFile
    paths: tuple[Path, ...]


def check_checkpoints(
    seals: Seals, findings: Findings, progress: Progress, *, force: bool
) -> Checkpoints:
    """Hold sizes, companions and digests against the seals. Raises OSError."""
    found: list[_Found] = []
    gone: list[SealFile] = []
    for file in sorted(seals.files.values(), key=lambda file: file.record.step):
        sizes = _sizes(file)
        right = tuple(path for path, size in sizes.items() if size == file.record.bin.bytes)
        if right:
            found.append(_Found(file, right))
        elif sizes:
            path, size = next(iter(sizes.items()))
            wrong = f"it holds {size} bytes, its seal says {file.record.bin.bytes}"
            inside = list(_in_folder(path, standing.shard_roots(findings.run), _in_silence))
            for at, what in inside or [(path, wrong)]:
                findings.fault(at, what)
        elif other := _of_another_kind(file):
            findings.fault(other, f"it is not {kind_of(form_of(other.name))}")
        else:
            gone.append(file)
        if _lacks_companion(file, findings.run):
            seals.refresh()  # a new attempt may have moved both meanwhile
            moved = seals.files.get(file.digest, file)
            if what := _lacks_companion(moved, findings.run):
                findings.fault(moved.path.with_name(companion_of(file.record.step)), what)
    total = sum(here.file.record.bin.bytes * len(here.paths) for here in found)
    digests = force or total < MOST_UNASKED
    if digests:
        _check_digests(found, findings, lambda done: progress("checkpoints", done, total))
    unsealed = scan(findings.run / "checkpoints").unsealed
    untold = _untold(gone, findings)
    return Checkpoints(len(found), len(gone), len(unsealed), total, digests, untold)


def _untold(gone: list[SealFile], findings: Findings) -> tuple[str, ...]:
    """Retention writes its lines before it deletes, so the journal is read behind the looking."""
    if not gone:
        return ()
    try:
        lines = [line for line in read(findings.run / JOURNAL) if isinstance(line, EventLine)]
    except FileNotFoundError:
        return ()  # a fault already
    told = {line.facts.get("name") for line in lines if line.event == "checkpoint-deleted"}
    folder = findings.run / "checkpoints"
    paths = [file.path.with_name(file.record.bin.name) for file in gone]
    names = {path: {path.name, str(path.relative_to(folder))} for path in paths}
    return tuple(findings.name(path) for path in paths if told.isdisjoint(names[path]))


def _sizes(file: SealFile) -> dict[Path, int]:
    """What may be the seal's checkpoint, in its own folder."""
    name = file.record.bin.name
    found = {path: measure(path, form_of(name)) for path in _places(file, name)}
    return {path: size for path, size in found.items() if size is not None}


def _of_another_kind(file: SealFile) -> Path | None:
    """What has the checkpoint's name beside its seal and is none, such as a link."""
    path = file.path.parent / file.record.bin.name
    return path if os.path.lexists(path) and measure(path) is None else None


def _in_silence(_done: int) -> None:
    """What is read of a checkpoint that is wrong already was not announced."""


def _places(file: SealFile, name: str) -> tuple[Path, ...]:
    """A file beside the seal; among superseded ones a name in use got a number."""
    folder = file.path.parent
    numbered = sorted(folder.glob(f"{name}.[0-9]*")) if file.superseded else ()
    return (folder / name, *numbered)


def _check_digests(
    found: list[_Found], findings: Findings, progress: Callable[[int], None]
) -> None:
    roots = standing.shard_roots(findings.run)
    done = 0
    for file, paths in found:
        digests: list[str | None] = []
        for path in paths:
            digests.append(_digest(path, progress, done))
            for at, wrong in _in_folder(path, roots, partial(ahead, progress, done)):
                findings.fault(at, wrong)
            done += file.record.bin.bytes
        # None was deleted meanwhile, as retention does.
        if file.record.bin.sha256 not in digests and None not in digests:
            said = file.record.bin.sha256[:32]
            findings.fault(paths[0], f"its digest is {str(digests[0])[:32]}, its seal says {said}")


def _in_folder(
    path: Path, roots: dict[str, Path], tell: Callable[[int], None]
) -> Iterator[tuple[Path, str]]:
    return shard_faults(path, roots, tell) if path.is_dir() else iter(())


def _lacks_companion(file: SealFile, run: Path) -> str:
    """What is wrong with the companion, which stays for ever; empty if nothing is.

    A crash in mid-move may have left it in ``checkpoints/``.
    """
    if not file.record.companion:
        return ""
    name = companion_of(file.record.step)
    own = _places(file, name)
    other = False
    for path in (*own, run / "checkpoints" / name):
        with contextlib.suppress(FileNotFoundError):
            if sha256(path.read_bytes()).hexdigest() == file.record.companion:
                return ""
            other = other or path in own
    return "it is not the companion that was sealed" if other else "it is missing"


def _digest(path: Path, tell: Callable[[int], None], done: int) -> str | None:
    """The SHA-256 of a file or of a folder's index, or None where it was deleted meanwhile."""
    seen = sha256()
    try:
        if path.is_dir():
            path = path / INDEX
        with path.open("rb", buffering=0) as file:
            while block := file.read(_BLOCK):
                seen.update(block)
                done += len(block)
                tell(done)
    except FileNotFoundError:
        return None
    return seen.hexdigest()
