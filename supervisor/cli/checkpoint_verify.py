"""Read every sealed checkpoint back for a person: ``checkpoints --verify``."""

from __future__ import annotations

import contextlib
import select
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from supervisor.core.messages import Verdict
from supervisor.sidecars.checkpoints import SealRecord
from supervisor.sidecars.checkpoints.verifying import Sealed, Verifier

_LOOK_SECONDS = 0.2
_DOUBT = "cannot tell"


def verify(folder: Path, seals: tuple[SealRecord, ...], rows: list[dict[str, Any]]) -> None:
    """Hold each against its seal; the verdict goes into its row. Raises OSError.

    ``verified`` is true, false, or None where it cannot be told.
    """
    of_step = {row["step"]: row for row in rows if row["state"] == "sealed"}
    total = sum(seal.bin.bytes for seal in seals)
    with _bar(total) as tell:
        done = 0
        for seal in seals:
            verdict = _read(folder, seal, partial(tell, seal, done))
            done += seal.bin.bytes
            tell(seal, done, 0)
            row = of_step[seal.step]
            doubt = verdict.problem.startswith(_DOUBT)
            row["verified"] = None if doubt else not verdict.problem
            if verdict.problem:
                row |= {"state": "unknown" if doubt else "BAD", "note": verdict.problem}


def _read(folder: Path, seal: SealRecord, tell: Callable[[int], None]) -> Verdict:
    verifier = Verifier()
    try:
        descriptor = verifier.start_again(
            folder, seal.bin.name, Sealed(seal.bin.sha256, seal.companion)
        )
        while (verdict := verifier.result()) is None:
            select.select([descriptor], [], [], _LOOK_SECONDS)
            tell(verifier.done)
    finally:
        verifier.close()  # an interrupt ends the reader too
    return verdict


@contextlib.contextmanager
def _bar(total: int) -> Iterator[Callable[[SealRecord, int, int], None]]:
    """A bar on stderr where that is a terminal: what is read, bytes, bytes a second, time left."""
    if not sys.stderr.isatty():
        yield lambda _seal, _before, _now: None
        return
    # Imported here: a bar is the only thing of it that a listing needs, and only on a terminal.
    from rich.console import Console  # noqa: PLC0415 - see above
    from rich.progress import (  # noqa: PLC0415 - see above
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("reading back", total=total)

        def tell(seal: SealRecord, before: int, now: int) -> None:
            progress.update(task, description=seal.bin.name, completed=before + now)

        yield tell
