"""The command ``unquarantine``: an operator vouches for a checkpoint that the guards suspect."""

from __future__ import annotations

import shlex
from pathlib import Path

from supervisor.cli import asking, printing
from supervisor.cli.parameters import Json, Run, existing
from supervisor.cli.pinning import Step
from supervisor.errors import StepkeeperError
from supervisor.sidecars.checkpoints.catalogue import Refused, scan


def unquarantine(run: Run, step: Step, *, as_json: Json = False) -> int:
    """Trust a quarantined checkpoint again: the run may resume from it.

    It was saved after a loss that was not finite or spiked; guards lift that by themselves once
    the run has gone on well past it. Exits 1 where the step is not quarantined.
    """
    path = existing(run)
    why = _why(path, step)
    if not why:
        raise StepkeeperError(
            f"cannot trust step {step} of {path} again: it is not quarantined; see stepkeeper "
            f"checkpoints {shlex.quote(str(path))}"
        )
    with asking.interruptible("see stepkeeper checkpoints for what is quarantined"):
        answered = asking.ask(path, "unquarantine", {"step": step})
    if answered is None:
        # Imported here: it is not needed where a supervisor answers.
        from supervisor.perform import unattended  # noqa: PLC0415 - see above

        unattended.refuse_a_stranger(path, "unquarantine")
        unattended.unquarantine(path, step)
    if as_json:
        printing.emit({"step": step, "quarantined": False, "why": why})
    else:
        printing.say(f"step {step} may be resumed from again; it was {why}")
    return 0


def _why(run: Path, step: int) -> str:
    """Why the checkpoint of the step is quarantined; empty where it is not."""
    found = (one for one in scan(run / "checkpoints").refused if _is_of(one, step))
    return next((one.reason for one in found), "")


def _is_of(refused: Refused, step: int) -> bool:
    return refused.step == step and refused.seal is not None
