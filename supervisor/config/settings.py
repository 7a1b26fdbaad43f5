"""The checked settings of a run, as one value, and how they are read."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from supervisor import environment
from supervisor.config.gate_settings import rules
from supervisor.config.hook_settings import Hook, hooks_of
from supervisor.config.parsing import parse, read_text
from supervisor.config.run_file import DiskSettings, LimitSettings, RunFile
from supervisor.core.hang import HangPolicy
from supervisor.core.limits import Limits
from supervisor.core.restarting import RestartPolicy
from supervisor.core.retention import Retention
from supervisor.core.state import Settings
from supervisor.errors import SettingsError
from supervisor.sidecars.kept_settings import digest_of

_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class DiskLimits:
    """Bytes of ``[disk]``. ``hold_below`` is None where it follows from the file system's size."""

    reserve: int = 0
    hold_below: int | None = None
    output_log: int = 0


@dataclass(frozen=True, slots=True)
class Config:
    """Checked settings of a run, with their text. ``sources`` maps arms to absolute paths.

    ``unscored`` says why the gate has no word list though one is named.
    """

    run: Path
    name: str
    command: tuple[str, ...]
    env: dict[str, str]
    settings: Settings
    sources: dict[str, Path]
    seed: int
    steps: int
    text: bytes
    file: RunFile
    trust_locks: bool = False
    disk: DiskLimits = DiskLimits()
    hooks: tuple[Hook, ...] = ()
    unscored: str = ""

    @property
    def digest(self) -> str:
        """The 32 hex digits by which records name these settings."""
        return digest_of(self.text)

    @property
    def live(self) -> frozenset[str]:
        """Arms whose source is there now."""
        return frozenset(name for name, path in self.sources.items() if _is_there(path))

    @property
    def shard_roots(self) -> dict[str, Path]:
        """The folders that shards may lie in beside a checkpoint's own, by name."""
        roots = self.file.checkpoint.shard_roots
        return {name: self.run / folder for name, folder in roots.items()}

    @property
    def ledger(self) -> Path:
        """The ledger's path."""
        return self.run / f"{self.name}.loss.json"

    @property
    def samples(self) -> Path:
        """The samples' path."""
        return self.run / f"{self.name}.samples.json"

    @property
    def bandit(self) -> Path:
        """The bandit state's path."""
        return self.run / f"{self.name}.state.json"


def load(run: Path, text: bytes | None = None) -> Config:
    """Read ``run.toml``, or ``text`` in its place. Raises SettingsError naming every problem."""
    path = run / "run.toml"
    data = read_text(path) if text is None else text
    file: RunFile = parse(RunFile, data, path)
    problems = [
        f"{path}: sources.{arm}.path: {source.path!r} does not exist"
        for arm, source in file.sources.items()
        if not _is_there(run / source.path)
    ]
    if len(problems) == len(file.sources) and problems:
        raise SettingsError("cannot use the sources:", tuple(problems))
    words = {"{python}": sys.executable, "{run}": str(run)}
    command = tuple(words.get(part, part) for part in file.trainer.command)
    restart = file.restart
    gate, unscored = rules(file.gate, file.samples.every, run)
    settings = Settings(
        cadence=file.checkpoint.every_steps,
        boundary=file.checkpoint.sigusr1 == "boundary",
        grace=file.stop.grace,
        hang=HangPolicy(**file.hang.model_dump()),
        limits=_limits(file.limits),
        restart=RestartPolicy(
            restart.first, restart.most, restart.fall_back_after, restart.give_up_after
        ),
        retention=Retention(
            file.checkpoint.keep_last, file.checkpoint.keep_every, file.checkpoint.keep_audit
        ),
        prove_all=file.checkpoint.verify_at_start == "all",
        guards=file.guards.rules(),
        gate=gate,
    )
    return Config(
        run=run,
        name=file.name or run.name,
        command=command,
        env={**environment.for_trainer(), **file.trainer.env},
        settings=settings,
        sources={arm: run / source.path for arm, source in file.sources.items()},
        seed=file.train.seed,
        steps=file.train.steps,
        text=data,
        file=file,
        trust_locks=file.lock.trust,
        disk=_disk(file.disk),
        hooks=hooks_of(file.hooks, run),
        unscored=unscored,
    )


def _limits(file: LimitSettings) -> Limits:
    return Limits(
        stop_at=file.stop_at.timestamp() if file.stop_at is not None else None,
        max_seconds=file.max_hours * 3600 if file.max_hours is not None else None,
        margin=file.margin,
        assumed_save=file.assumed_save,
    )


def _disk(disk: DiskSettings) -> DiskLimits:
    below = None if disk.hold_below is None else int(disk.hold_below * _MIB)
    return DiskLimits(int(disk.reserve * _MIB), below, int(disk.output_log * _MIB))


def _is_there(source: Path) -> bool:
    """A source that cannot be looked at, on a server that is gone perhaps, is not there."""
    try:
        return source.exists()
    except OSError:
        return False
