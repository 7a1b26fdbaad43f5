"""The commands ``pin`` and ``unpin``: which checkpoints retention may never delete."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from supervisor.cli import asking, printing
from supervisor.cli.parameters import Json, Run, existing
from supervisor.errors import StepkeeperError, UnknownError
from supervisor.sidecars.checkpoints.marks import pins
from supervisor.sidecars.checkpoints.presence import measure, sealed_path

MOST = (1 << 31) - 1  # a checkpoint's step is an int32

Step = Annotated[
    int, typer.Argument(metavar="STEP", min=0, max=MOST, help="The checkpoint's step.")
]


def pin(
    run: Run,
    step: Step,
    *,
    note: Annotated[str, typer.Option("--note", metavar="TEXT", help="Kept with the pin.")] = "",
    as_json: Json = False,
) -> int:
    """Keep a sealed checkpoint for ever; a second pin replaces the note.

    Exits 1 where the step has no sealed checkpoint, or it was deleted.
    """
    path = existing(run)
    _do(path, "pin", {"step": step, "note": note})
    folder = path / "checkpoints"
    sealed = sealed_path(folder, step)
    # The supervisor answers once it has tried; what the files say is what is so.
    if step not in pins(folder) or sealed is None or measure(sealed) is None:
        raise StepkeeperError(
            f"cannot pin step {step} of {path}: the supervisor could not; see stepkeeper logs "
            f"{shlex.quote(str(path))} --supervisor"
        )
    if as_json:
        printing.emit({"step": step, "pinned": True, "path": str(sealed)})
    else:
        printing.say(f"pinned {sealed}")
    return 0


def unpin(run: Run, step: Step, *, as_json: Json = False) -> int:
    """Leave a pinned checkpoint to retention again, and say what that will do to it next."""
    path = existing(run)
    _do(path, "unpin", {"step": step})
    if step in pins(path / "checkpoints"):
        raise UnknownError(f"cannot tell whether step {step} of {path} is unpinned: see its log")
    goes, why = _fate(path, step)
    if as_json:
        printing.emit({"step": step, "pinned": False, "goes": goes, "why": why})
    else:
        next_seal = "goes with the next seal" if goes else "stays"
        printing.say(f"unpinned step {step}: it {next_seal}: {why}")
    return 0


def _do(run: Path, verb: str, fields: dict[str, Any]) -> None:
    with asking.interruptible("see stepkeeper checkpoints for what is pinned"):
        if asking.ask(run, verb, fields) is not None:
            return
    # Imported here: it is not needed where a supervisor answers.
    from supervisor.perform import unattended  # noqa: PLC0415 - see above

    unattended.refuse_a_stranger(run, verb)
    if verb == "pin":
        unattended.pin(run, fields["step"], fields["note"])
    else:
        unattended.unpin(run, fields["step"])


def _fate(run: Path, step: int) -> tuple[bool, str]:
    """What the next seal will do to the checkpoint of a step."""
    from supervisor.cli.retention import forecast  # noqa: PLC0415 - with it comes the whole config

    for fate in forecast(run):
        if fate.held.step == step and not fate.held.left:
            return fate.goes, fate.why
    return False, "it is gone already"
