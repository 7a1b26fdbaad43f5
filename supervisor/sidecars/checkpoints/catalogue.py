"""Which checkpoints a run has: sealed ones of its lineage, unsealed ones, and those refused."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from supervisor.sidecars.checkpoints import marks, seals
from supervisor.sidecars.checkpoints.seals import SealRecord
from trainer.contract import durable
from trainer.contract.checkpoint_format import companion_of, name_of, seal_of, step_of

SUPERSEDED = "superseded"


class Sealed(NamedTuple):
    """A checkpoint with its seal. ``present`` tells whether the ``.bin`` is still there."""

    step: int
    seal: SealRecord
    digest: str
    present: bool
    pin: str | None


class Unsealed(NamedTuple):
    """A visible ``.bin`` that nobody has sealed."""

    step: int
    name: str
    bytes: int


class Refused(NamedTuple):
    """A checkpoint that is not to be resumed from, and why."""

    step: int
    name: str
    reason: str


class Catalogue(NamedTuple):
    """All that the folder holds, newest first; files of other names are left alone."""

    sealed: tuple[Sealed, ...]
    unsealed: tuple[Unsealed, ...]
    refused: tuple[Refused, ...]
    gaps: tuple[str, ...]

    def newest(self, n: int = 1) -> tuple[Sealed, ...]:
        """The newest ``n`` that a run can resume from."""
        return tuple(entry for entry in self.sealed if entry.present)[:n]


def scan(folder: Path) -> Catalogue:
    """Read the folder's names, sizes and seals; no ``.bin`` is opened. Raises OSError."""
    sizes = _sizes(folder)
    bins = {step: name for name in sizes if (step := step_of(name)) is not None}
    refused = [
        Refused(_step(name), name, "its name and number do not agree")
        for name in sizes
        if name.startswith("step_") and name.endswith(".bin") and step_of(name) is None
    ]
    read: list[Sealed] = []
    pins, rejections = marks.pins(folder), marks.rejections(folder)
    for name in sizes:
        step = step_of(name.removesuffix(".seal.json") + ".bin")
        if step is None or name != seal_of(step):
            continue
        try:
            seal, digest = seals.read(folder / name)
        except (OSError, seals.SealError) as error:
            refused.append(Refused(step, name, str(error)))
            bins.pop(step, None)
            continue
        read.append(Sealed(step, seal, digest, step in bins, pins.get(step)))
    lineage, strangers, gaps = _lineage(sorted(read, reverse=True))
    refused += [Refused(entry.step, seal_of(entry.step), reason) for entry, reason in strangers]
    sealed = []
    for entry in lineage:
        reason = _unusable(entry, sizes, rejections)
        if reason:
            refused.append(Refused(entry.step, name_of(entry.step), reason))
        else:
            sealed.append(entry)
    known = {entry.step for entry in read}
    unsealed = [Unsealed(s, n, sizes[n]) for s, n in bins.items() if s not in known]
    return Catalogue(
        tuple(sealed),
        tuple(sorted(unsealed, reverse=True)),
        tuple(sorted(refused, reverse=True)),
        tuple(gaps),
    )


def supersede(folder: Path, attempt: int, above: int) -> tuple[int, ...]:
    """Move every checkpoint above step ``above`` out of the way of ``attempt``; return the steps.

    Seals go first, newest first, so that whatever a crash leaves is an unsealed file above the
    resume point, which the same call moves the next time. Nothing is ever replaced, and nothing
    is created where there is nothing to move. Raises OSError.
    """
    steps = sorted(
        (
            step
            for name in os.listdir(folder)  # noqa: PTH208 -- names only
            if (step := _any_step(name)) is not None and step > above
        ),
        reverse=True,
    )
    steps = list(dict.fromkeys(steps))
    if not steps:
        return ()
    target = folder / SUPERSEDED / f"attempt-{attempt:06d}"
    _make_folders(target)
    for naming in (seal_of, name_of, companion_of):
        for step in steps:
            _move(folder / naming(step), target / naming(step))
    return tuple(steps)


def _lineage(
    newest_first: Iterable[Sealed],
) -> tuple[list[Sealed], list[tuple[Sealed, str]], list[str]]:
    """Walk from the newest seal back along ``previous``.

    A seal that the walk passes over belongs to another history. A predecessor that is not there
    at all is a gap: the walk goes on with the next lower seal and says so.
    """
    rest = list(newest_first)
    lineage: list[Sealed] = []
    strangers: list[tuple[Sealed, str]] = []
    gaps: list[str] = []
    while rest:
        entry = rest.pop(0)
        lineage.append(entry)
        previous = entry.seal.previous
        if previous in (lower.digest for lower in rest):
            while rest[0].digest != previous:
                strangers.append((rest.pop(0), f"the seal of step {entry.step} passes over it"))
        elif not previous:
            strangers += [(low, f"the history of step {entry.step} begins later") for low in rest]
            rest = []
        elif rest:
            gaps.append(f"the seal before step {entry.step}, {previous[:16]}…, is missing")
    return lineage, strangers, gaps


def _unusable(entry: Sealed, sizes: dict[str, int], rejections: dict[str, str]) -> str:
    """Why a sealed checkpoint is not to be resumed from, or empty."""
    if entry.digest in rejections:
        return f"rejected: {rejections[entry.digest]}"
    found = sizes.get(name_of(entry.step))
    if found is not None and found != entry.seal.bin.bytes:
        return f"size: expected {entry.seal.bin.bytes} bytes as sealed, found {found} bytes"
    if found is not None and entry.seal.companion and companion_of(entry.step) not in sizes:
        return f"companion {companion_of(entry.step)}: expected as sealed, found none"
    return ""


def _sizes(folder: Path) -> dict[str, int]:
    """Name and size of every regular file."""
    found = {}
    with os.scandir(folder) as entries:
        for entry in entries:
            try:
                if entry.is_file(follow_symlinks=False):
                    found[entry.name] = entry.stat(follow_symlinks=False).st_size
            except FileNotFoundError:  # gone between the listing and the look
                continue
    return found


def _any_step(name: str) -> int | None:
    """The step of a seal, ``.bin`` or companion by its name, or None."""
    for suffix in (".seal.json", ".json", ".bin"):
        if name.endswith(suffix):
            return step_of(name.removesuffix(suffix) + ".bin")
    return None


def _step(name: str) -> int:
    digits = name.removeprefix("step_").removesuffix(".bin")
    return int(digits) if digits.isascii() and digits.isdigit() else 0


def _make_folders(target: Path) -> None:
    for new in (target.parent, target):
        if not new.is_dir():
            new.mkdir(exist_ok=True)
            durable.sync_folder(new.parent)


def _move(source: Path, target: Path) -> None:
    """Move one file, going on where a crash left both names; a name in use gets a number."""
    if not os.path.lexists(source):
        return
    free, number = target, 1
    while os.path.lexists(free):
        if source.samefile(free):
            source.unlink()
            durable.sync_folder(source.parent)
            return
        number += 1
        free = target.with_name(f"{target.name}.{number}")
    durable.move(source, free)
