"""The checkpoints of a run that retention judges, and how one of them is deleted."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

from supervisor.core.retention import Held
from supervisor.sidecars.checkpoints import marks, seals, shards_elsewhere
from supervisor.sidecars.checkpoints.presence import FOLDERS, measure, names_by_step
from supervisor.sidecars.checkpoints.shards_elsewhere import Roots
from supervisor.sidecars.checkpoints.superseding import SUPERSEDED
from trainer.contract import durable
from trainer.contract.checkpoint_format import FORMATS, companion_of, form_of, seal_of, step_of

DELETED: Final = "deleted."
_LEFT: Final = re.compile(r"attempt-(\d{6,})")
_NUMBERED: Final = re.compile(rf"(step_\d+\.(?:{'|'.join(FORMATS)}))(\.\d+)?")


def holdings(folder: Path) -> tuple[Held, ...]:
    """Every checkpoint of the lineage and every superseded one. Raises OSError, RefusedError.

    One of the lineage's form that has neither seal nor companion is nobody's we know of, and left
    out; so is one of another format than the sealed one of its step.
    """
    return (*_lineage(folder), *_superseded(folder))


def delete(folder: Path, held: Held, roots: Roots) -> Callable[[], None] | None:
    """Delete the checkpoint alone, durably; its companion and its seal stay. Raises OSError.

    ``roots`` are the folders, by name, that its shards may lie in.

    Returns what gives its blocks back, for whoever chooses when: to free a gigabyte takes a third
    of a second. None where it was gone. A folder has a temporary name in ``folder`` until then,
    for ``finish_deletions`` after a crash; no part of it is ever missing under its own name.
    """
    path = folder / held.name
    if _form(held.name) in FOLDERS:
        shards = shards_elsewhere.find(path, roots)
        aside = durable.set_aside(path, folder, DELETED)
        return partial(shards_elsewhere.remove, aside, shards) if aside else None
    try:
        blocks = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        blocks = -1
    try:
        durable.remove(path)
    except BaseException:
        if blocks >= 0:
            os.close(blocks)
        raise
    return partial(os.close, blocks) if blocks >= 0 else None


def finish_deletions(folder: Path, roots: Roots) -> list[Callable[[], None]]:
    """What completes each deletion of a folder that a crash cut short. Raises OSError.

    One whose shards cannot be told now is left for another start.
    """
    names = os.listdir(folder)  # noqa: PTH208 - names only, beside thousands of seals
    left = [n for n in names if n.startswith(f".{DELETED}") and n.endswith(durable.TEMPORARY)]
    found: list[Callable[[], None]] = []
    for path in (folder / name for name in left):
        with contextlib.suppress(OSError):
            found.append(partial(shards_elsewhere.remove, path, shards_elsewhere.find(path, roots)))
    return found


def _form(name: str) -> str:
    """The format of a checkpoint by its path, superseded and numbered ones too."""
    named = _NUMBERED.fullmatch(name.rpartition("/")[2])
    return form_of(named[1]) if named else ""


def _lineage(folder: Path) -> Iterator[Held]:
    names = frozenset(os.listdir(folder))  # noqa: PTH208 - names only, beside thousands of seals
    rejected = marks.rejections(folder)
    suspects = marks.quarantined(folder)
    for step, named in names_by_step(names).items():
        sizes = {name: size for name in named if (size := measure(folder / name)) is not None}
        beside = companion_of(step) in names
        seal = None
        if seal_of(step) in names:
            try:
                seal = seals.read(folder / seal_of(step))
            except seals.SealError:
                beside = True  # whose seal is torn is ours, and nobody can resume from it
        if seal is None:
            # Which of several is ours, nobody can tell: they stay.
            if beside and len(sizes) == 1:
                yield from (Held(step, name, size, good=False) for name, size in sizes.items())
            continue
        size = sizes.get(seal.bin.name)
        if size is None:
            continue
        whole = size == seal.bin.bytes and (beside or not seal.companion)
        yield Held(
            step,
            seal.bin.name,
            size,
            seal.digest,
            seal.attempt,
            audit=seal.reason == "signal" or seal.save is not None,
            good=whole and seal.digest not in rejected and seal.digest not in suspects,
            suspect=whole and seal.digest in suspects and seal.digest not in rejected,
        )


def _superseded(folder: Path) -> Iterator[Held]:
    for place in sorted((folder / SUPERSEDED).glob("attempt-*")):
        left = _LEFT.fullmatch(place.name)
        if left is None or not place.is_dir():
            continue
        for path in place.iterdir():
            named = _NUMBERED.fullmatch(path.name)
            step = step_of(named[1]) if named else None
            size = measure(path, form_of(named[1])) if named else None
            if named is None or step is None or size is None:
                continue
            name = f"{SUPERSEDED}/{place.name}/{path.name}"
            digest = _digest(place / f"{seal_of(step)}{named[2] or ''}")
            yield Held(step, name, size, digest, good=False, left=int(left[1]))


def _digest(path: Path) -> str:
    """The digest of a superseded seal, or empty where there is none that can be read."""
    try:
        return seals.decode(path.read_bytes()).digest
    except (OSError, seals.SealError):
        return ""
