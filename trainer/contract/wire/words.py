"""The vocabulary of reports and orders, and the one text of a number."""

from __future__ import annotations

import math
import re
from typing import Final, Literal, NamedTuple

ACTIVITIES: Final = ("import", "load", "compile", "eval", "save", "sample", "wait", "train")
ARM_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
ARM_FIELD: Final = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9._-]*(=[0-9]{1,18}( [A-Za-z0-9][A-Za-z0-9._-]*=[0-9]{1,18})*)?"
)
MAX_LINE: Final = 1 << 20


class WireError(ValueError):
    """A line or an orders file that breaks the contract; the message says how."""


class Ready(NamedTuple):
    """Signal handlers are in and the checkpoint is loaded. ``step`` is the last step done."""

    seq: int
    at: float
    pid: int
    n_params: int
    step: int
    companion: bool


class Doing(NamedTuple):
    """What the trainer does now, until its next report."""

    seq: int
    at: float
    what: str
    step: int


class Step(NamedTuple):
    """One optimizer step. ``arm`` is a name, or ``a=3 b=13`` where sequences were mixed.

    ``loss`` is None exactly when ``nonfinite`` is ``nan``, ``inf`` or ``-inf``. ``data`` is the
    16-digit digest of the documents consumed, or empty where the trainer does not know.
    """

    seq: int
    at: float
    step: int
    loss: float | None
    nonfinite: str
    arm: str
    lr: float
    data: str
    phase: int
    extras: tuple[tuple[str, float | None], ...]


class ArmResult(NamedTuple):
    """What one arm did in a phase: pulls served, pulls that failed, mean loss of the served.

    ``epochs`` is how often its documents were read since the run began, None where the trainer
    does not say.
    """

    arm: str
    pulls: int
    failed: int
    loss: float | None
    epochs: float | None = None


class Phase(NamedTuple):
    """A finished phase, with the weights it really ran under."""

    seq: int
    at: float
    phase: int
    first: int
    last: int
    repeated: bool
    weights: tuple[tuple[str, float], ...]
    arms: tuple[ArmResult, ...]


class Checkpoint(NamedTuple):
    """A visible checkpoint named ``name``, of any format.

    ``save`` echoes the order it answers, or is None.
    """

    seq: int
    at: float
    step: int
    name: str
    sha256: str
    bytes: int
    reason: str
    seconds: float
    save: int | None


class Sample(NamedTuple):
    """Text drawn from the model at ``step``; data, never an instruction."""

    seq: int
    at: float
    step: int
    prompt: str
    text: str
    temperature: float


class Evaluation(NamedTuple):
    """Held-out loss per arm at ``step``."""

    seq: int
    at: float
    step: int
    losses: tuple[tuple[str, float | None], ...]


class Finished(NamedTuple):
    """The trainer ends of its own will: ``steps`` (all done), ``stop`` or ``order``."""

    seq: int
    at: float
    reason: str
    step: int


Report = Ready | Doing | Step | Phase | Checkpoint | Sample | Evaluation | Finished
ReportName = Literal[
    "ready", "doing", "step", "phase", "checkpoint", "sample", "evaluation", "finished"
]


class PhaseOrder(NamedTuple):
    """``steps`` steps under ``weights`` (shares that sum to 1)."""

    phase: int
    steps: int
    weights: tuple[tuple[str, float], ...]


class SaveOrder(NamedTuple):
    """Write a checkpoint: at this step's end (``step``) or the cadence; then go on or exit.

    ``sample``: with a sample of that step before it.
    """

    serial: int
    align: Literal["step", "cadence"]
    then: Literal["go", "exit"]
    sample: bool = False


class Orders(NamedTuple):
    """The whole orders file."""

    serial: int
    phases: tuple[PhaseOrder, ...]
    save: SaveOrder | None
    hold: str | None


def number(value: float | None) -> str:
    """The one text of a float: shortest that reads back equal, always with point or exponent."""
    return "null" if value is None or not math.isfinite(value) else repr(float(value))


def nonfinite(value: float) -> str:
    """``nan``, ``inf`` or ``-inf`` for such a value, empty for a finite one."""
    if math.isfinite(value):
        return ""
    return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
