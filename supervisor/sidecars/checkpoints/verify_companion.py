"""Holds the companion beside a checkpoint against what was read of the checkpoint itself."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from trainer.contract.checkpoint_format import (
    CheckpointFormatError,
    Companion,
    companion_of,
    form_of,
    read_companion,
)


class Expected(NamedTuple):
    """What the checkpoint is held against; empty and 0 hold nothing against it.

    ``roots`` are the folders that shards may lie in, by name.
    """

    sha256: str = ""
    n_params: int = 0
    companion: bool = False
    companion_sha256: str = ""
    roots: tuple[tuple[str, str], ...] = ()


def read_beside(
    path: Path, found: dict[str, Any], expected: Expected, n_params: int | None = None
) -> Companion | None:
    """The companion of the checkpoint at ``path``, or None where there is none and none is needed.

    ``found`` is the verdict so far, with step, digest and size; it receives the companion's
    digest. ``n_params`` is None where it is not known. Raises CheckpointFormatError, OSError.
    """
    beside = path.with_name(companion_of(found["step"]))
    try:
        data = beside.read_bytes()
    except FileNotFoundError:
        if expected.companion or expected.companion_sha256:
            raise CheckpointFormatError(str(path), "companion", beside.name, "none") from None
        return None
    companion = read_companion(data, str(beside))
    for key, wanted in (
        ("step", found["step"]),
        ("format", form_of(path.name)),
        ("n_params", companion.n_params if n_params is None else n_params),
        ("sha256", found["sha256"]),
        ("bytes", found["bytes"]),
    ):
        if getattr(companion, key) != wanted:
            raise CheckpointFormatError(str(beside), key, wanted, getattr(companion, key))
    found["companion"] = sha256(data).hexdigest()
    if expected.companion_sha256 not in ("", found["companion"]):
        raise CheckpointFormatError(
            str(beside), "sha256", expected.companion_sha256, found["companion"]
        )
    return companion


def check_digest(path: Path, found: str, expected: Expected) -> None:
    """Raise CheckpointFormatError for another digest than the one expected."""
    if expected.sha256 not in ("", found):
        raise CheckpointFormatError(str(path), "sha256", expected.sha256, found)
