"""From where to where a run is proved, and what that will take."""

from __future__ import annotations

import json
import shutil
import tomllib
from pathlib import Path
from typing import Any, Final, NamedTuple

from supervisor.cli import standing
from supervisor.config import Config, load
from supervisor.core.resume_verdict import CONTROLS
from supervisor.errors import UnknownError, UsageError
from supervisor.perform.scratch_runs import Sealed
from supervisor.sidecars.checkpoints import SealRecord, scan

_AFFORDABLE: Final = 600.0  # seconds of training, all lives together
_LEAST: Final = 2  # steps on either side of the cut
_UNMEASURED: Final = 4  # steps, where nobody knows how long one takes
_PHASE_MOST: Final = 42  # as a policy that says nothing has it
_LOOKED_AT: Final = 1 << 18  # bytes of reports
_COPIES: Final = 6  # of a checkpoint at once: two in each of three copies of the run
_BESIDE: Final = 1 << 26  # bytes


class Plan(NamedTuple):
    """All lives begin at ``start``, or from nothing; ``half`` steps or more lie behind the cut.

    ``seconds`` is what a step takes, 0 where nobody knows.
    """

    start: Sealed | None
    half: int
    seconds: float

    @property
    def began(self) -> int:
        """The last step before all lives."""
        return self.start.seal.step if self.start is not None else 0

    @property
    def last(self) -> int:
        """The step whose checkpoints are compared: a multiple of twice the half."""
        span = 2 * self.half
        return -(-(self.began + self.half + 1) // span) * span

    @property
    def cut(self) -> int:
        """The step of the checkpoint that is resumed: the first multiple of the half."""
        return (self.began // self.half + 1) * self.half

    @property
    def training(self) -> float:
        """Seconds that the steps of all lives will take, starts left out."""
        whole = (self.last - self.began) + (self.cut - self.began)
        return self.seconds * (whole + self.half * (1 + len(CONTROLS)))

    def in_words(self) -> str:
        """What is about to be done."""
        origin = f"the seal of step {self.began}" if self.start is not None else "nothing"
        return (
            f"from {origin}: uninterrupted to step {self.last}; cut at step {self.cut} and resumed "
            f"from there, whole, then without {', '.join(CONTROLS)}"
        )


def plan(run: Path, steps: int | None, at: int | None) -> Plan:
    """Choose. Raises UsageError where the run cannot be trained that far."""
    config = load(run)
    seconds = _seconds(run)
    half = max(1, (steps + 1) // 2) if steps is not None else _half(run, config, seconds)
    sealed = scan(run / "checkpoints").sealed
    if at is not None:
        below = [seal for seal in sealed if seal.step <= at]
        return Plan(_of(run, below), half, seconds)
    for number in range(len(sealed)):
        found = Plan(_of(run, sealed[number:]), half, seconds)
        if found.last <= config.steps:
            return found
    found = Plan(None, half, seconds)
    if found.last > config.steps:
        raise UsageError(
            f"cannot prove {run}: it ends at step {config.steps}, and {found.last} steps from "
            "nothing are needed; give fewer with --steps"
        )
    return found


def _of(run: Path, seals: tuple[SealRecord, ...] | list[SealRecord]) -> Sealed | None:
    return Sealed(run, seals[0]) if seals else None


def _half(run: Path, config: Config, seconds: float) -> int:
    """As many steps as the longest phase has, where that is affordable; a border lies in those."""
    wanted = _phase_max(run)
    lives = 4 + len(CONTROLS)
    if not seconds and standing.last_attempt(run) is None:
        wanted = min(wanted, _UNMEASURED)
    elif seconds * wanted * lives > _AFFORDABLE:
        wanted = max(_LEAST, int(_AFFORDABLE / lives / seconds))
    return max(1, min(wanted, config.steps // 4))


def _phase_max(run: Path) -> int:
    number = standing.policy_in_force(run)
    path = run / "policies" / f"{number:04d}.toml" if number else run / "policy.toml"
    try:
        found = tomllib.loads(path.read_text("utf-8")).get("phase_max", _PHASE_MOST)
    except (OSError, ValueError):
        return _PHASE_MOST
    return found if type(found) is int and found > 0 else _PHASE_MOST


def _seconds(run: Path) -> float:
    """What a step took lately, by the trainer's own clock; 0 where that cannot be told."""
    attempt = standing.last_attempt(run)
    path = standing.reports_path(run, attempt["attempt"]) if attempt is not None else None
    if path is None or not path.exists():
        return 0.0
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _LOOKED_AT))
        lines = [line for line in file.read().split(b"\n")[1:-1] if b'"report":"step"' in line]
    try:
        steps: list[dict[str, Any]] = [json.loads(lines[at]) for at in (0, -1)] if lines else []
    except ValueError:
        return 0.0
    apart = steps[-1]["step"] - steps[0]["step"] if steps else 0
    return (steps[-1]["at"] - steps[0]["at"]) / apart if apart > 0 else 0.0


def refuse_without_room(folder: Path, start: Sealed | None) -> None:
    """Raise UnknownError where the copies do not fit. Raises OSError."""
    size = start.seal.bin.bytes if start is not None else 0
    needed, free = _COPIES * size + _BESIDE, shutil.disk_usage(folder).free
    if free < needed:
        raise UnknownError(
            f"cannot prove it in {folder}: {needed} bytes are needed for copies of a checkpoint and"
            f" {free} are free; make room, or name a folder on another disk with --output"
        )
