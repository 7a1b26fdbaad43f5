"""The command ``export``: take a model out of a run, for inference or to be resumed elsewhere."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from supervisor.cli import printing, standing
from supervisor.cli.parameters import Json, Run, existing
from supervisor.cli.reading_progress import Progress
from supervisor.errors import StepkeeperError
from supervisor.perform import exporting_weights, rewinding
from supervisor.perform.exporting import refuse_place
from supervisor.sidecars.checkpoints import SealRecord


def export(
    run: Run,
    dest: Annotated[
        Path, typer.Argument(metavar="DEST", help="The folder to make; it must not be there yet.")
    ],
    *,
    step: Annotated[
        int | None, typer.Option("--step", metavar="N", help="A sealed step; else the newest one.")
    ] = None,
    as_json: Json = False,
) -> int:
    """Write a model out of RUN, which is only read and may go on training meanwhile.

    DEST gets the weights of a sealed checkpoint as safetensors, with config.json and a README that
    says how to load them. It appears whole, verified on its disk, or not at all.
    """
    path, target = existing(run), dest.expanduser().absolute()
    refuse_place(path, target)
    seal = _seal(path, step)
    with _ends_are_interrupts(), Progress() as progress:
        weights = exporting_weights.export(path, seal, target, progress.show)
    facts: dict[str, Any] = {
        "run": str(path),
        "dest": str(target),
        "kind": "weights",
        "step": seal.step,
        "sha256": seal.bin.sha256,
        "seal": seal.digest,
        "n_params": weights.n_params,
        "tensors": weights.tensors,
        "files": [file._asdict() for file in weights.files],
    }
    if as_json:
        printing.emit(facts)
    else:
        size = printing.bytes_text(sum(file.bytes for file in weights.files))
        printing.say(f"exported the weights of step {seal.step} to {target}, {size}")
        printing.say(f"{weights.n_params:,} parameters, each read back bit for bit")
        printing.say(f"how to load them: {target / 'README.md'}; training cannot resume from it")
    return 0


def _seal(run: Path, step: int | None) -> SealRecord:
    if step is not None:
        return rewinding.find_target(run, step, "export")[0]
    seals = standing.seals(run)
    if not seals:
        raise StepkeeperError(f"cannot export {run}: no checkpoint of it is sealed")
    return seals[0]


@contextlib.contextmanager
def _ends_are_interrupts() -> Iterator[None]:
    """SIGTERM and a vanished terminal leave nothing behind either, as Ctrl-C does."""
    before = {
        number: signal.signal(number, signal.default_int_handler)
        for number in (signal.SIGTERM, signal.SIGHUP)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
