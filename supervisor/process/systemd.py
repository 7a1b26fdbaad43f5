"""Ask systemd about the unit that we run in: its limits, and whether a stop of it was asked for."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

from supervisor import clock

PROPERTIES = ("Id", "NotifyAccess", "KillMode", "TimeoutStopUSec", "PrivateTmp")
_PATIENCE = 10.0
_SECONDS = {
    "us": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "min": 60.0,
    "h": 3600.0,
    "d": 86400.0,
    "w": 604800.0,
    "month": 2629800.0,
    "y": 31557600.0,
}


class Unit(NamedTuple):
    """A service by its name, of the system's manager or of a user's."""

    name: str
    user: bool


def own_unit() -> Unit | None:
    """The service that we are a process of; None where we are of none."""
    try:
        lines = Path("/proc/self/cgroup").read_text("utf-8").splitlines()
    except OSError:
        return None
    for line in lines:
        number, controllers, path = line.split(":", 2)
        name = path.rpartition("/")[2]
        if name.endswith(".service") and (number == "0" or controllers == "name=systemd"):
            return Unit(name, user="/user@" in path.removesuffix(name))
    return None


def seconds(span: str) -> float | None:
    """A span of time as systemd prints it (``1min 30s``); None where there is no limit."""
    total = 0.0
    for number, unit in re.findall(r"([\d.]+)([a-z]+)", span):
        if unit not in _SECONDS:
            return None
        total += float(number) * _SECONDS[unit]
    return total or None


class Question:
    """``systemctl`` asked without waiting; it costs nothing where there is no unit."""

    def __init__(self, *words: str, user: bool = False) -> None:
        self._process: subprocess.Popen[str] | None = None
        program = shutil.which("systemctl")
        if program is not None:
            self._until = clock.monotonic() + _PATIENCE
            self._process = subprocess.Popen(
                [program, *(["--user"] if user else []), "--no-pager", *words],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )

    def answer(self) -> str | None:
        """What it printed, once; None before, and ever after where it does not answer."""
        process = self._process
        if process is None:
            return None
        if process.poll() is None:
            if clock.monotonic() > self._until:
                self.close()
            return None
        text = process.communicate()[0] if process.returncode == 0 else None
        self._process = None
        return text

    def wait(self) -> str:
        """The answer, waited for; empty where there is none."""
        if self._process is None:
            return ""
        try:
            self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self.close()
        return self.answer() or ""

    def close(self) -> None:
        """End it, if it still asks."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


def limits_of(unit: Unit) -> Question:
    """Ask for PROPERTIES of a unit, one ``Name=value`` a line."""
    names = ",".join(PROPERTIES)
    return Question("show", f"--property={names}", "--", unit.name, user=unit.user)


def stop_wanted() -> bool:
    """Whether someone asked the manager to stop or restart our unit, and waits for that."""
    unit = own_unit()
    if unit is None:
        return False
    question = Question("list-jobs", "--no-legend", "--plain", "--", unit.name, user=unit.user)
    jobs = [line.split() for line in question.wait().splitlines()]
    return any(words[2] in ("stop", "restart") for words in jobs if words[2:])
