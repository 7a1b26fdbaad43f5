"""Whether a descriptor survives an exec: none does, but those that are handed on."""

from __future__ import annotations

import fcntl
from collections.abc import Iterable


def hand_on(descriptors: Iterable[int]) -> None:
    """Let these be open in the program that takes our place. Raises OSError."""
    for descriptor in descriptors:
        fcntl.fcntl(descriptor, fcntl.F_SETFD, 0)


def keep(descriptor: int) -> None:
    """Let no program that we start have it. Raises OSError."""
    fcntl.fcntl(descriptor, fcntl.F_SETFD, fcntl.FD_CLOEXEC)
