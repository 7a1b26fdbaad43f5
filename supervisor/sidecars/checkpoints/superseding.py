"""Move checkpoints that a new attempt leaves behind out of its way, seals first."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from trainer.contract import durable
from trainer.contract.checkpoint_format import companion_of, name_of, seal_of, step_of

SUPERSEDED: Final = "superseded"


def supersede(folder: Path, attempt: int, above: int) -> tuple[int, ...]:
    """Move every checkpoint above step ``above`` to ``superseded/attempt-NNNNNN``.

    Returns the steps, newest first. All seals go before any ``.bin``, newest first, so that
    whatever a crash leaves is a shorter lineage and unsealed files above the resume point, which
    the same call moves the next time. Nothing is ever replaced, and nothing is created where
    there is nothing to move. Raises OSError.
    """
    found = {_step(name) for name in os.listdir(folder)}  # noqa: PTH208 - names only
    steps = sorted((step for step in found if step is not None and step > above), reverse=True)
    if not steps:
        return ()
    target = folder / SUPERSEDED / f"attempt-{attempt:06d}"
    for new in (target.parent, target):
        if not new.is_dir():
            new.mkdir(exist_ok=True)
            durable.sync_folder(new.parent)
    for naming in (seal_of, name_of, companion_of):
        for step in steps:
            _move(folder / naming(step), target / naming(step))
    return tuple(steps)


def _step(name: str) -> int | None:
    """The step of a seal, ``.bin`` or companion by its name, or None."""
    for suffix in (".seal.json", ".json", ".bin"):
        if name.endswith(suffix):
            return step_of(name.removesuffix(suffix) + ".bin")
    return None


def _move(source: Path, target: Path) -> None:
    """Move one file, going on where a crash left both names; a name in use gets a number."""
    if not os.path.lexists(source):
        return
    free, number = target, 1
    while os.path.lexists(free):
        if os.path.samestat(source.lstat(), free.lstat()):
            source.unlink()
            durable.sync_folder(source.parent)
            return
        number += 1
        free = target.with_name(f"{target.name}.{number}")
    durable.move(source, free)
