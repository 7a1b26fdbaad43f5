"""The only reader of the environment: what concerns us, what the trainer is given."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

# What the service manager meant for us alone.
_OURS = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "MAINPID", "LISTEN_FDS", "LISTEN_PID")

# What most programs need and no secret is kept in.
_PLAIN = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR")

_PACKAGES = Path(__file__).resolve().parents[1]

# Given by a supervisor to the one that takes its place in the same process.
_HANDOVER = "STEPKEEPER_HANDOVER"


def take_handover() -> str:
    """What an earlier life in this process left us, or nothing; whoever we start never sees it."""
    return os.environ.pop(_HANDOVER, "")


def with_handover(text: str) -> dict[str, str]:
    """The environment for the next life in this process."""
    return {**os.environ, _HANDOVER: text}


def own() -> dict[str, str]:
    """Everything, as it was given to us."""
    return dict(os.environ)


def for_own_programs() -> dict[str, str]:
    """Ours; from a checkout that is not installed, with the way to its packages."""
    env = own()
    if (_PACKAGES / "pyproject.toml").exists():
        paths = [str(_PACKAGES), *filter(None, [env.get("PYTHONPATH")])]
        env["PYTHONPATH"] = os.pathsep.join(paths)
    return env


def for_trainer() -> dict[str, str]:
    """What the trainer is given of it."""
    return {key: value for key, value in os.environ.items() if key not in (*_OURS, _HANDOVER)}


def for_hook(names: Iterable[str]) -> dict[str, str]:
    """What a hook's command is given of it: what most programs need, and what is named."""
    return {key: os.environ[key] for key in (*_PLAIN, *names) if key in os.environ}


def state_folder() -> Path:
    """Where runs live that are called by a name alone.

    STEPKEEPER_STATE, else XDG_STATE_HOME/stepkeeper, else /var/lib/stepkeeper for root and
    ~/.local/state/stepkeeper for everyone else.
    """
    if own := os.environ.get("STEPKEEPER_STATE"):
        return Path(own).absolute()
    if state := os.environ.get("XDG_STATE_HOME"):
        return Path(state).absolute() / "stepkeeper"
    if os.geteuid() == 0:
        return Path("/var/lib/stepkeeper")
    return Path.home() / ".local/state/stepkeeper"


def in_journal() -> bool:
    """Whether our output goes to a journal, which notes the time of each line."""
    return "JOURNAL_STREAM" in os.environ


def traceback_wanted() -> bool:
    """Whether a fault of ours shall show its traceback, for whoever is to mend it."""
    return bool(os.environ.get("STEPKEEPER_TRACEBACK"))


def user_units() -> Path:
    """Where a user manager looks for units of its user."""
    configuration = os.environ.get("XDG_CONFIG_HOME")
    folder = Path(configuration) if configuration else Path.home() / ".config"
    return folder.absolute() / "systemd/user"


def service_result() -> str:
    """How the service ended whose ExecStopPost= we are; empty where we are none."""
    return os.environ.get("SERVICE_RESULT", "")


def is_main_of_unit() -> bool:
    """Whether a service manager started this very process, so that its cgroup is its own."""
    return os.environ.get("SYSTEMD_EXEC_PID") == str(os.getpid())
