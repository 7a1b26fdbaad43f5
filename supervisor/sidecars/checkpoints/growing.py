"""What a trainer has written of its checkpoints so far, as marks that change while bytes move."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from supervisor.sidecars.checkpoints.presence import FOLDERS
from supervisor.sidecars.checkpoints.shards_elsewhere import stem_in_roots
from trainer.contract.checkpoint_format import form_of

Mark = tuple[str, int, int]
_SKIPPED: Final = ".json"  # small, or ours


def marks(folder: Path, roots: Mapping[str, Path]) -> frozenset[Mark]:
    """Name, size and time of all that stands in ``folder``, and of shards that are being written.

    ``roots`` are looked at only for shards of a checkpoint that is begun in ``folder``: another
    run's may grow beside them.
    """
    return frozenset(_marks(folder, roots))


def _marks(folder: Path, roots: Mapping[str, Path]) -> Iterator[Mark]:
    for entry in _entries(folder):
        try:
            if entry.is_file(follow_symlinks=False):
                if not entry.name.endswith(_SKIPPED):
                    yield _mark(entry)
            elif entry.is_dir(follow_symlinks=False):
                stem = stem_in_roots(entry.name)
                if stem:
                    yield from _files(Path(entry.path), "")
                    for root in roots.values():
                        yield from _files(root, stem)
                elif form_of(entry.name) in FOLDERS:
                    yield entry.name, 0, 0
        except OSError:  # renamed under our eyes: the next look sees it
            continue


def _files(folder: Path, stem: str) -> Iterator[Mark]:
    for entry in _entries(folder):
        if entry.name.removeprefix(".").startswith(stem):
            yield _mark(entry)


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return list(found)
    except OSError:
        return []


def _mark(entry: os.DirEntry[str]) -> Mark:
    facts = entry.stat(follow_symlinks=False)
    return entry.path, facts.st_size, facts.st_mtime_ns
