"""Write the unit with this machine's program and state directory, and what it needs beside it."""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path

from supervisor.errors import StepkeeperError, UsageError
from trainer.contract.durable import write_file

UNIT = "stepkeeper@.service"
STATE = "/var/lib/stepkeeper"
_PROGRAM = "/opt/stepkeeper/venv/bin/stepkeeper"
_SYSTEM_ONLY = re.compile(r"^# --- From here.*?(?=^\[Install\])", re.DOTALL | re.MULTILINE)
_PLAIN = re.compile(r"/[\w./+@-]*", re.ASCII)  # what a unit takes as it stands
_NOT_OF_A_USER = ("After=network.target",)


def files(program: str, state: Path, *, user_folder: Path | None) -> dict[Path, str]:
    """Text by path: the unit, and for the system's manager the user and the state directory.

    ``program`` is the command line of stepkeeper, its path through links as it was called. Raises
    UsageError where a path cannot stand in a unit.
    """
    for word in (*program.split(" "), str(state)):
        if word.startswith("/") and not _PLAIN.fullmatch(word):
            raise UsageError(
                f"cannot name {word} in a unit: use a path of letters, digits and ./+@-_ alone"
            )
    unit = _text(UNIT).replace(_PROGRAM, program)
    if user_folder is not None:
        return {user_folder / UNIT: _for_a_user(unit, state)}
    if not state.is_relative_to("/var/lib"):
        # systemd makes folders of its own accord only there; the trainer's /tmp becomes one.
        unit = unit.replace("StateDirectory=stepkeeper/%i/tmp", "StateDirectory=stepkeeper-tmp/%i")
        unit = unit.replace(f"BindPaths={STATE}/%i/tmp:", "BindPaths=/var/lib/stepkeeper-tmp/%i:")
    else:
        below = state.relative_to("/var/lib")
        unit = unit.replace("StateDirectory=stepkeeper/", f"StateDirectory={below}/")
    etc = Path("/etc")
    return {
        etc / "systemd/system" / UNIT: _moved(unit, state),
        etc / "sysusers.d/stepkeeper.conf": _moved(_text("stepkeeper.sysusers.conf"), state),
        etc / "tmpfiles.d/stepkeeper.conf": _moved(_text("stepkeeper.tmpfiles.conf"), state),
    }


def install(texts: dict[Path, str], *, force: bool) -> dict[Path, bool]:
    """Write what is not there yet; whether each was written.

    Raises StepkeeperError, before anything is written, where a file differs and ``force`` is not
    given; OSError.
    """
    for path, text in texts.items():
        if not force and path.exists() and path.read_bytes() != text.encode("utf-8"):
            raise StepkeeperError(
                f"cannot write {path}: it is there and differs; give --force to replace it, and "
                "keep changes of your own in a drop-in (systemctl edit)"
            )
    written = {}
    for path, text in texts.items():
        written[path] = not path.exists() or path.read_bytes() != text.encode("utf-8")
        if written[path]:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_file(path, text.encode("utf-8"))
            path.chmod(0o644)
    return written


def _text(name: str) -> str:
    return (resources.files("supervisor") / "systemd" / name).read_text("utf-8")


def _moved(text: str, state: Path) -> str:
    """With another state directory; the folder of /tmp beside it stays where it is."""
    return re.sub(re.escape(STATE) + r"(?!-)", str(state), text)


def _for_a_user(unit: str, state: Path) -> str:
    """Without what only the system's manager can do: users, devices, a /tmp of its own."""
    kept = _SYSTEM_ONLY.sub("", unit).replace("WantedBy=multi-user", "WantedBy=default")
    lines = [line for line in kept.splitlines() if not line.startswith(_NOT_OF_A_USER)]
    return _moved("\n".join(lines) + "\n", state)
