"""Write one checkpoint as a file of torch or as a folder of shards, as durably as a ``.bin``.

Everything is written and synced under a temporary name; the companion, which holds the digest,
becomes durable under its own name; only then does the checkpoint get its name.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from trainer import clock
from trainer.checkpoint import Saved, make_way, refuse_without_room
from trainer.contract import durable
from trainer.contract.checkpoint_format import (
    companion_of,
    format_companion,
    name_of,
    room_for,
)
from trainer.full_payload import payload_of
from trainer.full_state import Announce, PathError, Written, write_one_file, write_sharded
from trainer.moment import Moment

Split = Literal["by_size", "round_robin", "by_group"]


@dataclass(frozen=True)
class FullWriter:
    """Writes ``form``, "pt" or "sharded"; the rest is about shards, ``roots`` by name."""

    form: str
    shards: int = 4
    split: Split = "by_size"
    roots: Mapping[str, Path] = field(default_factory=dict)

    def __call__(self, folder: Path, moment: Moment) -> Saved:
        """Write the checkpoint of ``moment``.

        Raises OSError, with nothing new visible, SealedError.
        """
        began = clock.seconds()
        path = folder / name_of(moment.step, self.form)
        make_way(folder, path, moment.step)
        refuse_without_room(folder, path, self.needed(moment, here=True))
        for root in self.roots.values():
            refuse_without_room(root, path, self.needed(moment, here=False))

        def announce(written: Written) -> None:
            companion = moment.companion(self.form, written.sha256, written.bytes)
            durable.write_file(folder / companion_of(moment.step), format_companion(companion))

        written = self._write(path, moment, announce)
        seconds = clock.seconds() - began
        return Saved(moment.step, path.name, written.sha256, written.bytes, seconds)

    def _write(self, path: Path, moment: Moment, announce: Announce) -> Written:
        payload = payload_of(moment)
        if self.form == "pt":
            return write_one_file(path, payload, announce=announce)
        try:
            return write_sharded(
                path,
                payload,
                split=self.split,
                shards=min(self.shards, len(moment.weights)),
                shard_roots=self.roots,
                replace=True,
                announce=announce,
            )
        except PathError as error:  # a disk that is away now may come back
            raise OSError(errno.ENOENT, str(error)) from None

    def needed(self, moment: Moment, *, here: bool) -> int:
        """Bytes that must be free in the checkpoints' folder (``here``), or in each root.

        By the contract's rule, by which the supervisor tells what a trainer waits for.
        """
        size = 12 * moment.n_params + 8 * len(moment.history)
        if not self.roots:
            return room_for(moment.n_params, size)
        return room_for(0) if here else size // len(self.roots)
