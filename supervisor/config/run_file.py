"""``run.toml``: its tables, their defaults and bounds."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import AwareDatetime, BeforeValidator, Field, StringConstraints

from supervisor.config.gate_settings import GateSettings
from supervisor.config.guard_settings import GuardSettings
from supervisor.config.hook_settings import HookName, HookSettings
from supervisor.config.parsing import Section
from trainer.contract.settings import TrainerSections

RUN_SCHEMA = "stepkeeper.run/1"
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]


class TrainerCommand(Section):
    """``[trainer]``: what is started. ``{python}`` and ``{run}`` in it are replaced."""

    command: tuple[str, ...] = Field(
        default=("{python}", "-m", "trainer"), min_length=1, strict=False
    )
    env: dict[str, str] = Field(default_factory=dict)


class RestartSettings(Section):
    """``[restart]``: seconds between attempts without progress, and when to give up."""

    first: float = Field(default=0.5, gt=0)
    most: float = Field(default=30.0, gt=0)
    fall_back_after: int = Field(default=3, ge=1)
    give_up_after: float = Field(default=7200.0, ge=0)


class StopSettings(Section):
    """``[stop]``: seconds without a report that a stopping trainer is given, at least."""

    grace: float = Field(default=60.0, gt=0)


Seconds = Annotated[float, Field(ge=0)]


class HangSettings(Section):
    """``[hang]``: seconds without a report, per kind of work; 0 is without limit."""

    enabled: bool = True
    factor: float = Field(default=10.0, ge=1.5)
    least: float = Field(default=300.0, gt=0)
    first_step: Seconds = 1800.0
    import_: Seconds = Field(default=900.0, alias="import")
    load: Seconds = 1800.0
    compile: Seconds = 3600.0
    save: Seconds = 900.0
    eval: Seconds = 1800.0
    sample: Seconds = 900.0
    wait: Seconds = 0.0
    exit: Seconds = 120.0


class LockSettings(Section):
    """``[lock]``: whether locks are believed on a file system that other machines may reach."""

    trust: bool = False


def _moment(value: object) -> object:
    """A date and time as TOML has them, or the same as text."""
    return datetime.fromisoformat(value) if isinstance(value, str) else value


class LimitSettings(Section):
    """``[limits]``: when the run must have stopped, sealed, because the machine goes away."""

    stop_at: Annotated[AwareDatetime, BeforeValidator(_moment)] | None = None
    max_hours: float | None = Field(default=None, gt=0)
    margin: float = Field(default=30.0, ge=0)
    assumed_save: float = Field(default=60.0, ge=0)


class DiskSettings(Section):
    """``[disk]``: room that is kept free, in MiB of 1,048,576 bytes.

    ``hold_below`` of None is 16 MiB; it and ``reserve`` are at most a fiftieth of the file system.
    """

    reserve: float = Field(default=64.0, ge=0)
    hold_below: float | None = Field(default=None, ge=0)
    output_log: float = Field(default=64.0, ge=0)


class ProofSettings(Section):
    """``[proof]``: whether a run is started only where a proof of its resume holds."""

    require_proof: bool = False


class RunFile(TrainerSections):
    """``run.toml``."""

    schema_: Literal["stepkeeper.run/1"] = Field(alias="schema")
    name: Name | None = None
    trainer: TrainerCommand = TrainerCommand()
    restart: RestartSettings = RestartSettings()
    stop: StopSettings = StopSettings()
    hang: HangSettings = HangSettings()
    lock: LockSettings = LockSettings()
    limits: LimitSettings = LimitSettings()
    disk: DiskSettings = DiskSettings()
    proof: ProofSettings = ProofSettings()
    guards: GuardSettings = GuardSettings()
    hooks: dict[HookName, HookSettings] = Field(default_factory=dict)
    gate: GateSettings = GateSettings()
