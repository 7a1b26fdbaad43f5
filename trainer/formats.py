"""Choose how checkpoints are written, and refuse at the start what could not be.

What a format needs of the library is imported only where it is chosen: that takes time.
"""

from __future__ import annotations

import math
from pathlib import Path

from trainer.checkpoint import Writer, write
from trainer.contract.checkpoint_format import size_of
from trainer.contract.settings import CheckpointSettings, Shape
from trainer.errors import SettingsError

Shapes = tuple[tuple[str, tuple[int, ...]], ...]


def check(shape: Shape, settings: CheckpointSettings) -> None:
    """Raise CheckpointFormatError for a model too large for its format, before it is built."""
    if settings.format == "bin":
        size_of(shape.n_params)


def roots_of(settings: CheckpointSettings, run: Path) -> dict[str, Path]:
    """The folders for shards outside the checkpoint's own, by name."""
    return {name: run / folder for name, folder in settings.shard_roots.items()}


def writer(settings: CheckpointSettings, run: Path, shapes: Shapes) -> Writer:
    """What writes a checkpoint in the format that is set, for parameters of those shapes.

    Raises SettingsError for shards that cannot be.
    """
    if settings.format == "bin":
        return write
    from trainer.full_checkpoint import FullWriter  # noqa: PLC0415 - as said above
    from trainer.full_state import StructureError, split_keys  # noqa: PLC0415 - likewise

    roots = roots_of(settings, run) if settings.format == "sharded" else {}
    missing = [f"{name} = {path}" for name, path in roots.items() if not path.is_dir()]
    if missing:
        raise SettingsError(
            f"cannot use checkpoint.shard_roots: no folder: {', '.join(missing)}; mount or make it"
        )
    if settings.format == "sharded":
        sizes = {name: math.prod(shape) for name, shape in shapes}
        try:
            split_keys(sizes, settings.split, min(settings.shards, len(sizes)))
        except StructureError as error:
            raise SettingsError(f"cannot use checkpoint.shards: {error}") from None
    return FullWriter(settings.format, settings.shards, settings.split, roots)
