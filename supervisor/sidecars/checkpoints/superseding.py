"""Move checkpoints that a new attempt leaves behind out of its way, seals first."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from supervisor.sidecars.checkpoints.presence import names_by_step
from trainer.contract import durable
from trainer.contract.checkpoint_format import companion_of, seal_of, step_of

SUPERSEDED: Final = "superseded"


def supersede(folder: Path, attempt: int, above: int) -> tuple[int, ...]:
    """Move every checkpoint above step ``above`` to ``superseded/attempt-NNNNNN``.

    Returns the steps, newest first. All seals go before any checkpoint, newest first, so that
    whatever a crash leaves is a shorter lineage and unsealed ones above the resume point, which
    the same call moves the next time. Nothing is ever replaced, and nothing is created where
    there is nothing to move. Raises OSError.
    """
    names = os.listdir(folder)  # noqa: PTH208 - names only
    found = {_step(name) for name in names}
    steps = sorted((step for step in found if step is not None and step > above), reverse=True)
    if not steps:
        return ()
    target = folder / SUPERSEDED / f"attempt-{attempt:06d}"
    for new in (target.parent, target):
        if not new.is_dir():
            new.mkdir(exist_ok=True)
            durable.sync_folder(new.parent)
    visible = names_by_step(names)
    going = [seal_of(step) for step in steps]
    going += [name for step in steps for name in sorted(visible.get(step, ()))]
    going += [companion_of(step) for step in steps]
    for name in going:
        _move(folder / name, target / name)
    return tuple(steps)


def _step(name: str) -> int | None:
    """The step of a seal, checkpoint or companion by its name, or None."""
    for suffix in (".seal.json", ".json"):
        if name.endswith(suffix):
            return step_of(name.removesuffix(suffix) + ".bin")
    return step_of(name)


def _move(source: Path, target: Path) -> None:
    """Move a file or folder, going on where a crash left both names; one in use gets a number."""
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
