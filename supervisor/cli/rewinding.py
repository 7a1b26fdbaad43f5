"""The command ``rewind``: go on from an earlier sealed checkpoint, and keep all that was."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from supervisor.cli import printing, standing
from supervisor.cli.parameters import Json, Run, existing
from supervisor.config import load
from supervisor.daemon.gate import enter
from supervisor.errors import StepkeeperError, UsageError
from supervisor.perform import rewinding, unattended
from supervisor.sidecars.checkpoints import SealRecord, pins
from supervisor.sidecars.checkpoints.verifying import read_back


def rewind(
    run: Run,
    *,
    step: Annotated[
        int, typer.Option("--step", metavar="N", help="The step of a sealed checkpoint.")
    ],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: Json = False,
) -> int:
    """Let a run that is at rest go on from the sealed checkpoint of a step.

    Later checkpoints move to checkpoints/superseded; the ledger keeps every line, and each step
    that runs again takes the place of its older line. The policy in force stays: a checkpoint of
    an earlier one gives weights and moments, and the bandit starts empty.
    """
    path = existing(run)
    config = load(path)
    unattended.refuse_a_stranger(path, "rewind")
    if not yes and (as_json or not sys.stdin.isatty()):
        raise UsageError(f"cannot rewind {path} without being sure: add --yes")
    lock = enter(config)
    try:
        if standing.trained(path):
            raise StepkeeperError(
                f"cannot rewind {path}: its trainer runs; stop it first with stepkeeper stop "
                f"{shlex.quote(str(path))}"
            )
        rewinding.complete(path)
        rewinding.refuse_unless_at_rest(path)
        target, newest = rewinding.find_target(path, step)
        facts = _facts(path, target, newest)
        if target == newest:
            return _tell(path, {**facts, "rewound": False}, as_json=as_json)
        _refuse_if_bad(path / "checkpoints", target)
        if not yes and not _is_sure(facts):
            printing.say("nothing was changed")
            return 1
        done = rewinding.rewind(config, target, newest)
    finally:
        os.close(lock)
    facts["from"] = done.ledger.step
    return _tell(path, {**facts, "rewound": True}, as_json=as_json)


def _refuse_if_bad(folder: Path, seal: SealRecord) -> None:
    """Read the target back: what cannot be resumed must not become the newest."""
    digest, companion = seal.bin.sha256, bool(seal.companion)
    roots = standing.shard_roots(folder.parent)
    verdict = read_back(folder, seal.bin.name, digest, companion=companion, roots=roots)
    if verdict.problem:
        raise StepkeeperError(f"cannot go to step {seal.step}: {verdict.problem}")


def _facts(run: Path, target: SealRecord, newest: SealRecord) -> dict[str, Any]:
    """What a rewind changes."""
    line = standing.last_line(run) or {}
    known = pins(run / "checkpoints")
    behind = [seal for seal in standing.seals(run, sys.maxsize) if seal.step > target.step]
    return {
        "run": str(run),
        "from": int(line.get("step", newest.step)),
        "to": target.step,
        "superseded": [seal.step for seal in behind],
        "pinned": [seal.step for seal in behind if seal.step in known],
        "policy": standing.policy_in_force(run),
        "sealed_under": target.policy,
        "head": standing.head_of(newest),
    }


def _is_sure(facts: dict[str, Any]) -> bool:
    for line in _plan(facts):
        printing.say(line)
    sys.stdout.write("rewind? [y/N] ")
    sys.stdout.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _plan(facts: dict[str, Any]) -> list[str]:
    count = len(facts["superseded"])
    behind = f"{count} sealed checkpoint{'s' * (count != 1)} above it"
    found = [f"from step {facts['from']} back to step {facts['to']}; superseded: {behind}"]
    if facts["pinned"]:
        found.append(f"pinned among them: {', '.join(map(str, facts['pinned']))}")
    if facts["policy"] != facts["sealed_under"]:
        found.append(
            f"policy {facts['policy']} stays in force; the checkpoint is of policy "
            f"{facts['sealed_under']}, so the bandit starts empty"
        )
    return found


def _tell(run: Path, facts: dict[str, Any], *, as_json: bool) -> int:
    if as_json:
        printing.emit(facts)
    elif facts["rewound"]:
        for line in _plan(facts):
            printing.say(line)
        typed = shlex.quote(str(run))
        printing.say(f"rewound; the next step is {facts['to'] + 1}: stepkeeper run {typed}")
    else:
        printing.say(f"step {facts['to']} is the newest sealed checkpoint: the run goes on from it")
    return 0
