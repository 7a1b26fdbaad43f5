"""Which settings a supervisor begins with: ``run.toml``, or those in force where it cannot be."""

from __future__ import annotations

import contextlib
from pathlib import Path

from supervisor.config.parsing import parse
from supervisor.config.policy_file import read_policy
from supervisor.config.reach import Change, Reach, changes
from supervisor.config.run_file import RunFile
from supervisor.config.settings import Config, load
from supervisor.errors import SettingsError
from supervisor.sidecars import archive, kept_settings
from supervisor.sidecars.checkpoints import scan


def begin_with(run: Path, *, keep: bool) -> tuple[Config, str]:
    """The settings, and why they are not those of ``run.toml``: empty where they are.

    With ``keep`` (a trainer lives, or a supervisor does) settings that do not hold are passed
    over for those in force. Raises SettingsError.
    """
    try:
        config = load(run)
        found = problems(config, trained=keep)
        if found:
            raise SettingsError(f"cannot use {run / 'run.toml'}:", tuple(found))  # noqa: TRY301 - one way to fall back
    except SettingsError as error:
        text = None
        with contextlib.suppress(OSError):
            text = kept_settings.newest(run)
        if text is None or not keep:
            raise
        return load(run, text), " ".join(str(error).split())
    return config, ""


def changed(config: Config) -> tuple[Change, ...]:
    """What these settings change in those in force. Raises OSError."""
    return compare(config.run, kept_settings.newest(config.run), config.text)


def compare(run: Path, before: bytes | None, after: bytes | None) -> tuple[Change, ...]:
    """What differs between two texts of settings; nothing where one is absent or unreadable."""
    if before is None or after is None or before == after:
        return ()
    try:
        old, new = (parse(RunFile, text, "the settings") for text in (before, after))
    except SettingsError:  # of another version perhaps
        return ()
    return changes(old, new, run.name)


def problems(config: Config, *, trained: bool) -> list[str]:
    """What these settings would do to a run that has begun, a line for each.

    ``trained`` says that a trainer runs, which fixes the model before the first seal does.
    """
    where = config.run / "run.toml"
    fixed = trained or bool(scan(config.run / "checkpoints").newest(1))
    found = [
        f"{where}: {change.setting}: {_told(change.new)}: it is {_told(change.old)} for the life of"
        " this run; undo that"
        for change in changed(config)
        if change.reach is Reach.NEVER and (fixed or not change.setting.startswith("model."))
    ]
    return found + _needed(config)


def _told(value: object) -> str:
    return "not set" if value is None else repr(value)


def _needed(config: Config) -> list[str]:
    """What the policy in force, or the one that a pivot is bringing, does not find in these."""
    texts: list[tuple[bytes, int, str]] = []
    numbers = archive.policies(config.run)
    if numbers:
        path = archive.policy_path(config.run, numbers[-1])
        texts.append((path.read_bytes(), numbers[-1], f"policy {numbers[-1]} in force"))
    journal = archive.read_pivot(config.run)
    if journal is not None:
        texts.append((journal.text.encode("utf-8"), journal.policy, "the pivot under way"))
    found: list[str] = []
    for text, number, where in texts:
        try:
            read_policy(text, number, where, config)
        except SettingsError as error:
            found += error.problems or [str(error)]
    return found
