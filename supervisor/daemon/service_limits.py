"""What the unit around us would cost the trainer: limits too small for its saves, said once."""

from __future__ import annotations

import json
from pathlib import Path

from supervisor.core.state import State
from supervisor.perform import say
from supervisor.process import systemd
from supervisor.sidecars import attempts

_TAIL = 1 << 18
_SAVES = 3  # a stop may have to wait for one under way, then for its own, on a disk that is busy
_KILLERS = {"control-group", "mixed"}


class ServiceLimits:
    """Compares the unit with measured saves, whenever a longer save than before was measured."""

    def __init__(self, run: Path, environ: dict[str, str]) -> None:
        unit = systemd.own_unit() if environ.get("NOTIFY_SOCKET") else None
        self._question = systemd.limits_of(unit) if unit else None
        self._longest = longest_save(run) if unit else 0.0
        self._limits: dict[str, str] = {}
        self._told = False

    def look(self, state: State) -> None:
        """Say what is wrong, at most once each."""
        if self._question is not None and (text := self._question.answer()) is not None:
            self._question = None
            self._limits = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
            for line in bound_to_the_unit(self._limits):
                say(line, alarm=True)
        if not self._limits or self._told:
            return
        if state.attempt is not None:
            self._longest = max(self._longest, state.attempt.longest_save)
        if line := too_small(self._limits, self._longest):
            self._told = True
            say(line, alarm=True)

    def close(self) -> None:
        """Ask no longer."""
        if self._question is not None:
            self._question.close()


def bound_to_the_unit(limits: dict[str, str]) -> list[str]:
    """What ends or changes the trainer when its supervisor dies."""
    unit, found = limits.get("Id", "the unit"), []
    if limits.get("KillMode") in _KILLERS:
        found.append(
            f"KillMode={limits['KillMode']} of {unit} ends the trainer with its supervisor; "
            "set KillMode=process, as in the unit that stepkeeper install-unit writes"
        )
    if limits.get("PrivateTmp") == "yes":
        found.append(
            f"PrivateTmp=yes of {unit} takes /tmp from a trainer that outlives its supervisor; "
            "bind a folder of the run's state over /tmp instead"
        )
    return found


def too_small(limits: dict[str, str], longest: float) -> str:
    """Whether the unit's time for a stop is short for saves of ``longest`` seconds; empty if not.

    The supervisor has the time extended while its loop turns, where the unit lets it.
    """
    timeout = systemd.seconds(limits.get("TimeoutStopUSec", ""))
    if timeout is None or timeout >= _SAVES * longest:
        return ""
    wanted = int(_SAVES * longest) + 1
    extended = limits.get("NotifyAccess") != "none"
    what = (
        "it is extended while this supervisor lives"
        if extended
        else "the trainer may be killed in the middle of its last save"
    )
    return (
        f"TimeoutStopSec={timeout:.0f} of {limits.get('Id', 'the unit')} is short: a save took "
        f"{longest:.1f} s; {what}; set TimeoutStopSec={wanted} or more"
    )


def longest_save(run: Path) -> float:
    """Seconds of the longest save that the newest attempt with any reported; 0 without."""
    for number in reversed(attempts.numbers(run)[-4:]):
        path = attempts.folder(run, number) / "reports.jsonl"
        if saves := _saves(path):
            return max(saves)
    return 0.0


def _saves(path: Path) -> list[float]:
    found = []
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _TAIL))
            lines = file.read().split(b"\n")
    except OSError:
        return []
    for line in lines:
        if b'"report":"checkpoint"' in line:
            try:
                found.append(float(json.loads(line)["seconds"]))
            except (ValueError, KeyError, TypeError):
                continue
    return found
