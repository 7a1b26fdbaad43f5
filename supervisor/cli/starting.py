"""The commands before and around a run's life: ``init``, ``check``, ``run``."""

from __future__ import annotations

import shlex
import shutil
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

import supervisor
from supervisor import clock
from supervisor.cli import importing, printing, standing
from supervisor.cli.checking_hooks import hook_warnings
from supervisor.cli.parameters import Json, Run, existing, place
from supervisor.cli.policy_lint import policy_warnings
from supervisor.config import (
    Config,
    changed,
    load,
    parse_policy,
    read_policy,
    read_text,
)
from supervisor.config import problems as settings_problems
from supervisor.daemon.lives import keep
from supervisor.errors import SettingsError
from supervisor.perform.founding import EXAMPLE, found
from supervisor.sidecars import archive

_NO_TEXT = (
    ".arrow",
    ".bz2",
    ".gz",
    ".npy",
    ".npz",
    ".parquet",
    ".pdf",
    ".tar",
    ".xz",
    ".zip",
    ".zst",
)
_LOOKED_AT = 10_000  # files of an arm; a warning is worth no more


def init(
    run: Run,
    *,
    sources: Annotated[
        Path | None, typer.Option(metavar="DIR", help="A folder with one sub-folder for each arm.")
    ] = None,
    old: Annotated[
        Path | None,
        typer.Option("--from", metavar="OLD", help="Go on from a run of other software."),
    ] = None,
    as_json: Json = False,
) -> int:
    """Make a run directory with commented run.toml and policy.toml, to be edited.

    Each sub-folder of DIR becomes an arm with wide bounds. Without DIR the run's own folder
    sources/ counts, and without that the settings name an example. OLD is a folder with a
    NAME.loss.json and step_NNNNNN.bin files: it is only read, the newest good checkpoints are
    copied and sealed, and training goes on from them with weights and moments.
    """
    path = place(run)
    if old is not None:
        return importing.init_from(path, old.absolute(), sources, as_json=as_json)
    arms = found(path, sources)
    if as_json:
        printing.emit({"run": str(path), "arms": arms})
        return 0
    printing.say(f"made {path} with the arms {', '.join(arms)}")
    if arms == [EXAMPLE]:
        printing.say(f"put text into {path / 'sources' / EXAMPLE}, or name your own in run.toml")
    typed = shlex.quote(str(path))
    printing.say(f"next: stepkeeper check {typed}, then stepkeeper run {typed}")
    return 0


def check(run: Run, *, as_json: Json = False) -> int:
    """Check run.toml and policy.toml, and name every problem. Exits 1 where there is one."""
    path = existing(run)
    problems: list[str] = []
    config = _checked(path, problems)
    warnings = _warnings(path, config) if config is not None else []
    changes = changed(config) if config is not None else ()
    if as_json:
        facts = {"run": str(path), "problems": problems, "warnings": warnings}
        more = {"version": supervisor.__version__, "changes": [c.facts() for c in changes]}
        printing.emit({"ok": not problems, **facts, **more})
        return 1 if problems else 0
    for problem in problems:
        printing.say(problem)
    for warning in warnings:
        printing.say(f"warning: {warning}")
    for change in changes:
        printing.say(printing.change(change.facts()))
    printing.say(
        f"{len(problems)} problem{'s' * (len(problems) != 1)} in {path}"
        if problems
        else f"the settings of {path} hold"
    )
    return 1 if problems else 0


def _checked(run: Path, problems: list[str]) -> Config | None:
    """The settings where run.toml holds; whatever does not is added to ``problems``."""
    config = None
    edited = run / "policy.toml"
    try:
        config = load(run)
        problems += settings_problems(config, trained=standing.trained(run))
    except SettingsError as error:
        problems += error.problems or [str(error)]
    try:
        text = read_text(edited)
        if config is None:
            parse_policy(text, edited)
        else:
            read_policy(text, 1, edited, config)
    except SettingsError as error:
        problems += error.problems or [str(error)]
    return config


def _warnings(run: Path, config: Config) -> list[str]:
    """What holds, and will still surprise."""
    found = [config.unscored] if config.unscored else []
    found += [
        f"run.toml: sources.{arm}.path: {source} is not there; the arm is retired at the start"
        for arm, source in config.sources.items()
        if arm not in config.live
    ]
    found += [
        f"run.toml: sources.{arm}.path: {source} holds no file yet"
        for arm, source in config.sources.items()
        if source.is_dir() and not any(path.is_file() for path in source.rglob("*"))
    ]
    found += [
        f"run.toml: sources.{arm}.path: {source} holds {name}, which is no text; its bytes are "
        "trained on as they are"
        for arm, source in config.sources.items()
        for name in _odd_files(source)
    ]
    found += _limit_warnings(config)
    found += policy_warnings(run, config)
    found += hook_warnings(config)
    program = config.command[0]
    if shutil.which(program, path=config.env.get("PATH")) is None:
        found.append(f"run.toml: trainer.command: {program} is not a program that is found here")
    number = standing.policy_in_force(run)
    edited = run / "policy.toml"
    if number and edited.exists():
        kept = archive.policy_path(run, number).read_bytes()
        if kept != edited.read_bytes():
            found.append(
                f"policy.toml differs from policy {number} in force and has no effect by itself; "
                f"run stepkeeper pivot {shlex.quote(str(run))} --policy {shlex.quote(str(edited))}"
            )
    return found


def _limit_warnings(config: Config) -> list[str]:
    limits, now = config.settings.limits, clock.unix()
    if limits.stop_at is not None and limits.stop_at <= now:
        over = printing.duration(now - limits.stop_at)
        return [f"run.toml: limits.stop_at: it was {over} ago, so it cannot start"]
    left = limits.left(now, 0.0)
    needed = limits.needed(0.0, 0.0, 0)
    if left is not None and left.seconds <= needed:
        text = (
            f"run.toml: limits.{left.name}: {printing.duration(left.seconds)} are left, and "
            f"{printing.duration(needed)} are kept for a stop whose save is not measured yet "
            "(3 times assumed_save, and margin): the run stops at once"
        )
        return [text]
    return []


def _odd_files(source: Path) -> list[str]:
    """The first file of an arm that is compressed or binary by its name; none in most."""
    files = islice(source.rglob("*"), _LOOKED_AT) if source.is_dir() else iter((source,))
    return list(islice((path.name for path in files if path.suffix.lower() in _NO_TEXT), 1))


def run(
    run: Run,
    *,
    moved: Annotated[
        bool, typer.Option("--moved", help="It was kept elsewhere, and is kept only here now.")
    ] = False,
) -> int:
    """Keep a run until it is finished, stopped or given up.

    Ctrl-C stops it with a checkpoint. Exits 0 finished or stopped, 2 wrong use, 10 gave up,
    11 refused because going on would harm the run, 12 stopped by a guard.
    """
    return keep(existing(run), moved=moved)
