"""The command ``fork``: a run of its own from a sealed checkpoint of another one."""

from __future__ import annotations

import shlex
import tomllib
from pathlib import Path
from typing import Annotated, Any

import typer

from supervisor.cli import printing, standing
from supervisor.cli.parameters import Json, Run, existing, place
from supervisor.config import load, read_text
from supervisor.config.toml_text import found_in
from supervisor.errors import StepkeeperError
from supervisor.perform import forking, rewinding
from supervisor.perform.building import refuse_if_there
from supervisor.sidecars.checkpoints import SealRecord


def fork(
    run: Run,
    new: Annotated[
        str, typer.Argument(metavar="NEW", help="The new run: a path, or a name as for RUN.")
    ],
    *,
    step: Annotated[
        int | None, typer.Option("--step", metavar="N", help="A sealed step; else the newest one.")
    ] = None,
    policy: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The fork's own policy.toml.")
    ] = None,
    sources: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where RUN's sources are now, by their last names."),
    ] = None,
    as_json: Json = False,
) -> int:
    """Make a new run that goes on from a sealed checkpoint of RUN, which is only read.

    It has an identity, a ledger, a journal and a policy of its own; the first line of its ledger
    names RUN and the head of RUN at that checkpoint. RUN may be running meanwhile, or be a bundle
    that ``export --bundle`` made.
    """
    path, target = existing(run), place(new)
    refuse_if_there(target)
    settings = read_text(path / "run.toml").decode("utf-8")
    if sources is not None:
        settings = found_in(settings, path, sources.expanduser().absolute())
    config = load(path, settings.encode("utf-8"))
    text = read_text(policy) if policy is not None else None
    seal = _seal(path, step)
    try:
        parent = forking.read_parent(path, config.name, seal)._replace(settings=settings)
        run_id = forking.fork(parent, target, text)
    except FileNotFoundError as error:
        raise StepkeeperError(
            f"cannot fork {path} at step {seal.step}: {error.filename} is gone; was it deleted or "
            "superseded meanwhile? try again, or choose another step"
        ) from None
    facts = {
        "run": str(target),
        "id": run_id,
        "parent": parent.run_id,
        "step": seal.step,
        "head": parent.head,
        "policy": standing.policy_in_force(target),
        "inside_parent": sorted(
            arm for arm, source in config.sources.items() if _inside(source, path)
        ),
        "names_run": "{run}" in _command(parent.settings),
    }
    _tell(path, facts, as_json=as_json)
    return 0


def _seal(run: Path, step: int | None) -> SealRecord:
    if step is not None:
        return rewinding.find_target(run, step)[0]
    seals = standing.seals(run)
    if not seals:
        raise StepkeeperError(f"cannot fork {run}: no checkpoint of it is sealed")
    return seals[0]


def _inside(source: Path, run: Path) -> bool:
    return source.resolve().is_relative_to(run.resolve())


def _command(settings: str) -> str:
    """The trainer's command as it is written."""
    return str(tomllib.loads(settings).get("trainer", {}).get("command", ""))


def _tell(run: Path, facts: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        printing.emit(facts)
        return
    typed = shlex.quote(facts["run"])
    printing.say(f"made {facts['run']} from step {facts['step']} of {run}, run {facts['id']}")
    printing.say(f"the parent's head there: {facts['head']}")
    if facts["inside_parent"]:
        arms = ", ".join(facts["inside_parent"])
        printing.say(f"its sources lie in the parent's directory and are read there: {arms}")
    if facts["names_run"]:
        printing.say("its trainer.command names {run}: files meant by that were not copied")
    printing.say(f"policy {facts['policy']} is in force; next: stepkeeper run {typed}")
