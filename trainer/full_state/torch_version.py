"""Refuse a torch whose weights-only loading is none."""

from __future__ import annotations

import re

from trainer.full_state.errors import OldTorchError

LEAST = (2, 6)


def refuse_old_torch(version: str) -> None:
    """Raise OldTorchError for a ``torch.__version__`` below 2.6, or one that cannot be read.

    Before 2.6 a crafted file could run code through ``weights_only=True`` (CVE-2025-32434).
    """
    found = re.match(r"(\d+)\.(\d+)", version)
    if found is None or (int(found[1]), int(found[2])) < LEAST:
        raise OldTorchError(
            f"cannot load checkpoints with torch {version}: before 2.6 a file could run code "
            'while it was loaded; pip install "torch>=2.6"'
        )
