"""The command ``export``: take a model out of a run, for inference or to be resumed elsewhere."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from supervisor.cli import printing, standing
from supervisor.cli.interrupts import ends_are_interrupts
from supervisor.cli.parameters import Json, Run, existing
from supervisor.cli.reading_progress import Progress
from supervisor.errors import StepkeeperError, UsageError
from supervisor.perform import exporting_evidence, exporting_weights, rewinding
from supervisor.perform.exporting import refuse_place
from supervisor.perform.exporting_evidence import Made
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
    bundle: Annotated[
        bool,
        typer.Option("--bundle/--weights", help="All that a resume needs, or the weights alone."),
    ] = False,
    no_load: Annotated[
        bool, typer.Option("--no-load", help="Do not have the trainer load the bundle once.")
    ] = False,
    as_json: Json = False,
) -> int:
    """Take a model out of RUN, which is only read and may go on training meanwhile.

    The weights come as safetensors, with config.json and a README that says how to load them. A
    bundle is verified on its disk and loaded once by the run's own trainer, which
    RESUME-EVIDENCE.json says; fork makes a run of it. DEST appears whole or not at all.
    """
    path, target = existing(run), dest.expanduser().absolute()
    if no_load and not bundle:
        raise UsageError("cannot use --no-load without --bundle: weights alone load no trainer")
    refuse_place(path, target)
    seal = _seal(path, step)
    kind = "bundle" if bundle else "weights"
    words = ("stepkeeper", "export", str(path), str(target), "--step", str(seal.step), "--bundle")
    with ends_are_interrupts(), Progress() as progress:
        if bundle:
            asked = None if no_load else words
            made = exporting_evidence.export(path, seal, target, asked, progress.show)
            facts = _bundle_facts(made)
        else:
            weights = exporting_weights.export(path, seal, target, progress.show)
            facts = {"numbers": weights.numbers, "tensors": weights.tensors}
            facts["files"] = [file._asdict() for file in weights.files]
    facts = {"run": str(path), "dest": str(target), "kind": kind, "step": seal.step, **facts}
    facts |= {"sha256": seal.bin.sha256, "seal": seal.digest}
    if as_json:
        printing.emit(facts)
    else:
        printing.say("\n".join(_bundle_lines(facts) if bundle else _weights_lines(facts)))
    return 0


def _bundle_facts(made: Made) -> dict[str, Any]:
    evidence = made.evidence
    return {
        "n_params": made.n_params,
        "loaded": evidence is not None,
        "restored": None if evidence is None else evidence.restored.model_dump(),
        "files": [file._asdict() for file in made.files],
    }


def _size(facts: dict[str, Any]) -> str:
    return printing.bytes_text(sum(file["bytes"] for file in facts["files"]))


def _weights_lines(facts: dict[str, Any]) -> list[str]:
    dest = facts["dest"]
    return [
        f"exported the weights of step {facts['step']} to {dest}, {_size(facts)}",
        f"{facts['numbers']:,} numbers in {facts['tensors']} tensors, read back bit for bit",
        f"how to load them: {dest}/README.md; training cannot be resumed from it",
    ]


def _bundle_lines(facts: dict[str, Any]) -> list[str]:
    loaded = (
        f"loaded once there: the trainer was ready after step {facts['step']}, as "
        "RESUME-EVIDENCE.json says"
    )
    return [
        f"exported step {facts['step']} to {facts['dest']}, {_size(facts)}",
        "verified there: sizes, digests, seal, and the history up to it",
        loaded if facts["loaded"] else "not loaded, so there is no RESUME-EVIDENCE.json",
        f"go on from it: stepkeeper fork {shlex.quote(facts['dest'])} NEW",
    ]


def _seal(run: Path, step: int | None) -> SealRecord:
    if step is not None:
        return rewinding.find_target(run, step, "export")[0]
    seals = standing.seals(run)
    if not seals:
        raise StepkeeperError(f"cannot export {run}: no checkpoint of it is sealed")
    return seals[0]
