"""``init --from``: a run that goes on where other software stopped."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from supervisor.cli import printing
from supervisor.perform import importing
from supervisor.perform.building import refuse_if_there
from supervisor.perform.founding import Start, found
from supervisor.perform.importing import Imported, Old
from trainer.contract.settings import PRESETS, Shape

MORE_STEPS = 2000  # behind the imported one, until the operator says otherwise


def init_from(run: Path, folder: Path, sources: Path | None, *, as_json: bool) -> int:
    """Make the run and say what was taken over. Raises StepkeeperError, OSError."""
    refuse_if_there(run)
    old = importing.read_old(folder)
    arms: list[str] = []

    def settings(place: Path, step: int, n_params: int) -> None:
        preset = preset_of(n_params) or "demo"
        arms[:] = found(place, sources, Start(old.name, preset, step + MORE_STEPS))

    done = importing.bring_in(old, run, settings)
    facts = _facts(run, old, done, arms)
    if as_json:
        printing.emit(facts)
    else:
        printing.say("\n".join(_lines(facts)))
    return 0


def preset_of(n_params: int) -> str:
    """The preset with exactly so many parameters, or empty."""
    return next((name for name, shape in PRESETS.items() if _count(shape) == n_params), "")


def _count(shape: Shape) -> int:
    embeddings = 2 * shape.vocabulary + shape.context  # in, out and positions
    return shape.width * embeddings + 12 * shape.layers * shape.width**2


def _facts(run: Path, old: Old, done: Imported, arms: list[str]) -> dict[str, Any]:
    losses = old.losses
    return {
        "run": str(run),
        "id": done.run_id,
        "from": str(old.folder),
        "step": done.steps[0],
        "sealed": list(done.steps),
        "refused": [{"name": name, "why": why} for name, why in done.refused],
        "n_params": done.n_params,
        "preset": preset_of(done.n_params),
        "arms": arms,
        "losses": {
            "file": old.losses_path.name,
            "sha256": losses.sha256,
            "entries": losses.entries,
            "first": losses.first,
            "last": losses.last,
            "missing": losses.last - losses.first + 1 - losses.steps,
            "torn": losses.torn,
        },
    }


def _lines(facts: dict[str, Any]) -> list[str]:
    losses, step = facts["losses"], facts["step"]
    last = losses["last"]
    sealed = ", ".join(map(str, facts["sealed"]))
    found = [
        f"made {facts['run']} from {facts['from']}, run {facts['id']}",
        f"sealed: {sealed}; the next step is {step + 1}, exact but for data order",
        f"kept: origin/{losses['file']}, {losses['entries']} entries, {losses['first']} to {last}",
    ]
    if losses["missing"]:
        found.append(f"{losses['missing']} steps have no entry in it")
    if losses["torn"]:
        found.append("its last line breaks off and counts for nothing")
    if losses["last"] > step:
        found.append(f"steps {step + 1} to {losses['last']} run again, now on our record")
    found += [f"not used: {row['name']}: {printing.plain(row['why'])}" for row in facts["refused"]]
    if not facts["preset"]:
        found.append(
            f"no preset has {facts['n_params']} parameters: set [model], or your own "
            "trainer.command, in run.toml"
        )
    typed = shlex.quote(facts["run"])
    found.append("look at [train] too: steps, lr and warmup are not the old run's")
    return [*found, f"next: stepkeeper check {typed}, then stepkeeper run {typed}"]
