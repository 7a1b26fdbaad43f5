"""Make a run directory: commented settings to start from, and nothing that is there replaced."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from supervisor.errors import UsageError
from trainer.contract.durable import write_file
from trainer.contract.wire import ARM_NAME

EXAMPLE = "example"

_RUN = """\
# The settings of this run. `stepkeeper check RUN` names everything that is wrong with them.
schema = "stepkeeper.run/1"
name = {name}                 # of the sidecars: NAME.loss.json, NAME.samples.json, NAME.state.json

[trainer]
command = ["{{python}}", "-m", "trainer"]   # {{python}} and {{run}} are replaced

[model]
preset = {preset}               # demo (0.87 M parameters), andrea-12m or andrea-120m

[train]
steps = {steps}                  # where the run is finished
batch = 16                    # sequences in one forward pass
lr = 0.001
warmup_steps = 100
seed = 0
device = "auto"               # auto, cpu or cuda

[data]
mix = "step"                  # one arm feeds a whole step, or "sequence": each draws its own

[checkpoint]
every_steps = 100             # the cadence; a pivot waits for its next multiple
# every_seconds = 900         # and, if this comes first, by the clock
sigusr1 = "now"               # a checkpoint on request: now, or at the next "boundary"
keep_last = 5                 # so many stay on the disk, the newest ones; at least 2
keep_every = 10000            # and one for every so many steps; 0 for none
keep_audit = 10               # and so many of those made on a signal or a request

[samples]
every = 0                     # steps between samples, a multiple of the cadence; 0 for none: then
                              # nobody notices a model that only repeats itself, see [gate]
prompts = ["The "]

[restart]
first = 0.5                   # seconds before an attempt after one without progress, doubling
most = 30.0                   # and at most so long
give_up_after = 7200.0        # seconds without progress until it gives up (exit 10)

[hang]
least = 300.0                 # seconds without a report that a step is allowed, at least

[disk]
reserve = 64.0                # MiB of ballast, given back first when the disk is full; 0 for none
output_log = 64.0             # MiB of an attempt's output.log: beyond, its middle goes; 0: no bound

# The arms: text files, JSONL with a text field, or .bin token shards, in a folder or one file.
{sources}"""

_POLICY = """\
# The data policy: what share each arm may have. Edit it and run:
#   stepkeeper pivot RUN --policy RUN/policy.toml
schema = "stepkeeper.policy/2"
algorithm = "thompson"        # or ucb1, exp3s, ducb; "static": in proportion to each arm's weight
unit = "share"                # floors and caps are shares of probability, or of "weight"
phase_min = 7                 # steps of the shortest phase
phase_max = 42                # and of the longest

{arms}"""


class Start(NamedTuple):
    """What a run begins with: the sidecars' name, the model, the last step."""

    name: str
    preset: str = "demo"
    steps: int = 2000


def found(run: Path, sources: Path | None, start: Start | None = None) -> list[str]:
    """Write ``run.toml`` and ``policy.toml`` into ``run``; the arms, one per folder of ``sources``.

    Without ``sources`` the run's own ``sources`` folder counts, and without that an example is
    named. Raises UsageError and OSError; a run that is there already is left as it is.
    """
    for name in ("run.toml", "policy.toml"):
        if (run / name).exists():
            raise UsageError(
                f"cannot make a run in {run}: it holds {name} already; give another directory"
            )
    own = run / "sources"
    given = sources if sources is not None else own if own.is_dir() else None
    arms = _arms(given) if given is not None else {EXAMPLE: own / EXAMPLE}
    run.mkdir(mode=0o750, parents=True, exist_ok=True)
    blocks = [f"[sources.{json.dumps(arm)}]\npath = {_path(run, arms[arm])}\n" for arm in arms]
    begin = start or Start(name_for(run))
    text = _RUN.format(
        name=json.dumps(begin.name),
        preset=json.dumps(begin.preset),
        steps=begin.steps,
        sources="\n".join(blocks),
    )
    bounds = [f"[arms.{json.dumps(arm)}]\nfloor = 0.0\ncap = 1.0\n" for arm in arms]
    write_file(run / "policy.toml", _POLICY.format(arms="\n".join(bounds)).encode("utf-8"))
    write_file(run / "run.toml", text.encode("utf-8"))
    return list(arms)


def _arms(folder: Path) -> dict[str, Path]:
    """One arm for each sub-folder, by name."""
    try:
        inside = sorted(path for path in folder.iterdir() if path.is_dir())
    except OSError as error:
        raise UsageError(
            f"cannot read the sources in {folder}: {error.strerror}; give a folder with one "
            "sub-folder for each arm"
        ) from None
    found = {path.name: path for path in inside if not path.name.startswith(".")}
    if not found:
        raise UsageError(f"cannot find an arm in {folder}: it has no sub-folder, one for each arm")
    for name in found:
        if not ARM_NAME.fullmatch(name):
            raise UsageError(
                f"cannot use the folder {name!r} in {folder} as an arm: letters, digits, dot, dash "
                "and underscore make a name; rename it"
            )
    return found


def _path(run: Path, source: Path) -> str:
    """The source relative to the run where it lies inside, as a TOML string."""
    absolute = source.absolute()
    inside = absolute.is_relative_to(run)
    return json.dumps(str(absolute.relative_to(run) if inside else absolute), ensure_ascii=False)


def name_for(run: Path) -> str:
    """The directory's name, as far as a name may have such letters."""
    kept = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "-" for c in run.name)
    return kept.lstrip("._-")[:64] or "run"
