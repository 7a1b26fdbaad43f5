"""The ``.bin`` files of a run that retention judges, and how one of them is deleted."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from supervisor.core.retention import Held
from supervisor.sidecars.checkpoints import marks, seals
from supervisor.sidecars.checkpoints.superseding import SUPERSEDED
from trainer.contract import durable
from trainer.contract.checkpoint_format import companion_of, seal_of, step_of

_LEFT: Final = re.compile(r"attempt-(\d{6,})")
_NUMBERED: Final = re.compile(r"(step_\d+\.bin)(\.\d+)?")


def holdings(folder: Path) -> tuple[Held, ...]:
    """Every ``.bin`` of the lineage and every superseded one. Raises OSError, RefusedError.

    A file of the lineage's form that has neither seal nor companion is nobody's we know of, and
    left out.
    """
    return (*_lineage(folder), *_superseded(folder))


def delete(folder: Path, held: Held) -> int:
    """Delete the ``.bin`` alone, durably; its companion and its seal stay. Raises OSError.

    Returns a descriptor that still holds the file's blocks: to free a gigabyte takes a third of a
    second, and whoever closes it chooses when. -1 where the file was gone.
    """
    path = folder / held.name
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
    return blocks


def _lineage(folder: Path) -> Iterator[Held]:
    names = frozenset(os.listdir(folder))  # noqa: PTH208 - names only, beside thousands of seals
    rejected = marks.rejections(folder)
    for name in names:
        step = step_of(name)
        size = _size(folder / name) if step is not None else None
        if step is None or size is None:
            continue
        beside = companion_of(step) in names
        if seal_of(step) not in names:
            if beside:
                yield Held(step, name, size, good=False)
            continue
        try:
            seal = seals.read(folder / seal_of(step))
        except seals.SealError:
            yield Held(step, name, size, good=False)
            continue
        whole = size == seal.bin.bytes and (beside or not seal.companion)
        yield Held(
            step,
            name,
            size,
            seal.digest,
            seal.attempt,
            audit=seal.reason == "signal" or seal.save is not None,
            good=whole and seal.digest not in rejected,
        )


def _superseded(folder: Path) -> Iterator[Held]:
    for place in sorted((folder / SUPERSEDED).glob("attempt-*")):
        left = _LEFT.fullmatch(place.name)
        if left is None or not place.is_dir():
            continue
        for path in place.iterdir():
            named = _NUMBERED.fullmatch(path.name)
            step = step_of(named[1]) if named else None
            size = _size(path) if named else None
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


def _size(path: Path) -> int | None:
    try:
        facts = path.lstat()
    except OSError:
        return None
    return facts.st_size if stat.S_ISREG(facts.st_mode) else None
