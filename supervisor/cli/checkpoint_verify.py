"""Read every sealed checkpoint back for a person: ``checkpoints --verify``."""

from __future__ import annotations

import contextlib
import os
import select
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from supervisor.cli import standing
from supervisor.core.loss_history import difference, steps_of
from supervisor.core.messages import LossHistory, Verdict
from supervisor.sidecars.checkpoints import SealRecord
from supervisor.sidecars.checkpoints.catalogue import UNLIKE_SEAL
from supervisor.sidecars.checkpoints.seals import read as seal_at
from supervisor.sidecars.checkpoints.verifying import Sealed, Verifier
from supervisor.sidecars.ledger import written_losses
from trainer.contract.checkpoint_format import seal_of

_LOOK_SECONDS = 0.2
_DOUBT = "cannot tell"


def verify(
    run: Path, seals: tuple[SealRecord, ...], rows: list[dict[str, Any]], *, full: bool
) -> None:
    """Hold each against its seal; the verdict goes into its row. Raises OSError, UnknownError.

    ``verified`` is true, false, or None where it cannot be told. ``full``: every number is looked
    at too, and the losses that each holds are held against the ledger; ``losses`` is then true,
    false, or None where it holds none. What retention deletes meanwhile was good to the end.
    """
    histories: dict[int, tuple[LossHistory, ...]] = {}
    read = partial(_read, run / "checkpoints", Verifier(standing.shard_roots(run)), full=full)
    of_step = {row["step"]: row for row in rows if row["state"] == "sealed"}
    total = sum(seal.bin.bytes for seal in seals)
    with _bar(total) as tell:
        done = 0
        for seal in seals:
            verdict = read(seal, partial(tell, seal, done))
            if verdict.problem and not os.path.lexists(run / "checkpoints" / seal.bin.name):
                of_step.pop(seal.step)["state"] = "deleted"
                continue
            histories[seal.step] = verdict.losses
            done += seal.bin.bytes
            tell(seal, done, 0)
            row = of_step[seal.step]
            doubt = verdict.problem.startswith(_DOUBT)
            row["verified"] = None if doubt else not verdict.problem
            if verdict.problem:
                row |= {"state": "unknown" if doubt else "BAD", "note": verdict.problem}
    for row in rows:
        if row["state"] == "refused" and row["note"].startswith(UNLIKE_SEAL):
            # That it is bad is known already; a folder's shard is named by reading it.
            verdict = read(seal_at(run / "checkpoints" / seal_of(row["step"])), lambda _done: None)
            row |= {"state": "BAD", "verified": False, "note": verdict.problem or row["note"]}
    if full:
        _compare_losses(standing.ledger_path(run), histories, of_step)


def _compare_losses(
    ledger: Path, histories: dict[int, tuple[LossHistory, ...]], rows: dict[int, dict[str, Any]]
) -> None:
    """Hold the losses of each checkpoint against the ledger, in one pass over it."""
    told = written_losses(ledger, map(steps_of, histories.values()))
    for step, history in histories.items():
        row = rows[step]
        differs = difference(history, told)
        row["losses"] = differs is None if history else None
        if differs is not None and row["state"] == "sealed":
            row["note"] = f"another loss than the ledger, which stands: {differs.text}"


def _read(
    folder: Path,
    verifier: Verifier,
    seal: SealRecord,
    tell: Callable[[int], None],
    *,
    full: bool,
) -> Verdict:
    name, sealed = seal.bin.name, Sealed(seal.bin.sha256, seal.companion)
    try:
        descriptor = verifier.start_again(folder, name, sealed, full=full)
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
