"""What ``check`` warns of in hooks: they hold as settings, and would not do what is meant."""

from __future__ import annotations

import shutil
from pathlib import Path
from urllib.parse import urlsplit

from supervisor.cli.events_words import KINDS
from supervisor.config import Config
from supervisor.config.hook_settings import ALARM, ALL, Hook
from supervisor.errors import StepkeeperError
from supervisor.perform.hook_delivery import read_secret

_HERE = ("localhost", "127.0.0.1", "::1")


def hook_warnings(config: Config) -> list[str]:
    """A line for each; none of them keeps a run from being trained."""
    return [
        f"run.toml: hooks.{hook.name}.{text}"
        for hook in config.hooks
        for text in _odd(hook, config.run)
    ]


def _odd(hook: Hook, run: Path) -> list[str]:
    found = [
        f"events: no event is called {event}; see stepkeeper events"
        for event in sorted(hook.events - KINDS - {ALL, ALARM})
    ]
    if hook.command:
        word, path = hook.command[0], (hook.env or {}).get("PATH")
        if shutil.which(str(run / word) if "/" in word else word, path=path) is None:
            found.append(f"command: {hook.command[0]} is not a program that is found here")
    if hook.secret_file is not None:
        try:
            read_secret(hook.secret_file)
        except StepkeeperError as error:
            found.append(f"secret_file: {error}")
    parts = urlsplit(hook.url)
    if parts.scheme == "http" and parts.hostname not in _HERE:
        found.append("url: http is not encrypted: everyone on the way reads it; use https")
    return found
