"""How this life of the trainer was started: arguments and environment, as one value.

Reads nothing else, so that the first report is out before anything slow is imported.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from trainer.contract.checkpoint_format import step_of
from trainer.errors import SettingsError

ORPHAN_AFTER = 15 * 60.0
OMITTED = ("rng", "scheduler", "cursor", "m", "v", "phase")


class Launch(NamedTuple):
    """Where to read and write. ``reports`` is None exactly when the trainer runs alone.

    ``bare`` says that the checkpoint has no companion and needs none, having been made by other
    software.

    ``resume`` is the checkpoint to go on from, or None for a run from nothing; alone, None means
    the newest checkpoint in ``checkpoints``. ``orphan_after`` is in seconds. ``steps`` and
    ``every_seconds`` override run.toml where they are given. ``settings`` is the copy of run.toml
    that is in force, or None for run.toml itself. ``device_change`` stands beside
    train.device_change. ``omit`` names the states that a resume leaves out, of ``OMITTED``;
    ``skip`` is how many steps' data are thrown away before the first step.
    """

    run: Path
    attempt: int
    reports: Path | None
    orders: Path | None
    resume: Path | None
    checkpoints: Path
    orphan_after: float
    steps: int | None
    every_seconds: float | None
    output: Path | None
    settings: Path | None = None
    bare: bool = False
    device_change: bool = False
    omit: frozenset[str] = frozenset()
    skip: int = 0

    @property
    def alone(self) -> bool:
        """Whether no supervisor started this."""
        return self.reports is None

    @property
    def resumed_step(self) -> int:
        """The step that the resume point's name gives, 0 without one."""
        return (step_of(self.resume.name) or 0) if self.resume else 0


def environment() -> Mapping[str, str]:
    """The environment of the process."""
    return os.environ  # noqa: TID251 - the one place that reads it


def make_cuda_repeatable() -> None:
    """Ask cuBLAS for repeatable results; has to stand before CUDA starts."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # noqa: TID251 - as above


def read_launch(arguments: Sequence[str], given: Mapping[str, str]) -> Launch:
    """Arguments decide over the environment. Raises SettingsError."""
    parsed = _parser().parse_args(arguments)
    run = parsed.run or _path(given, "STEPKEEPER_RUN")
    if run is None:
        raise SettingsError("cannot train: no run directory; give --run RUN")
    if not run.is_dir():
        raise SettingsError(f"cannot train in {run}: it is not a directory")
    workers = given.get("WORLD_SIZE", "1")
    if workers not in ("", "1"):
        raise SettingsError(
            f"cannot train with WORLD_SIZE={workers}: this trainer is one process; unset WORLD_SIZE"
        )
    reports = _path(given, "STEPKEEPER_REPORTS")
    if reports is not None and parsed.output is not None:
        raise SettingsError("cannot use --output under a supervisor: it names the checkpoints")
    return Launch(
        run=run,
        attempt=int(_number(given, "STEPKEEPER_ATTEMPT", 0)),
        reports=reports,
        orders=_path(given, "STEPKEEPER_ORDERS"),
        resume=parsed.resume or _path(given, "STEPKEEPER_RESUME"),
        bare=given.get("STEPKEEPER_COMPANION") == "none",
        checkpoints=parsed.output or run / "checkpoints",
        orphan_after=_number(given, "STEPKEEPER_ORPHAN_AFTER", ORPHAN_AFTER),
        steps=parsed.steps,
        every_seconds=parsed.ckpt_every_seconds,
        output=parsed.output,
        settings=_path(given, "STEPKEEPER_SETTINGS"),
        device_change=parsed.device_change,
        omit=_omit(given.get("STEPKEEPER_OMIT", "")),
        skip=_skip(given.get("STEPKEEPER_SKIP", "")),
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m trainer",
        description="Train the run in RUN: under a supervisor, or alone.",
        allow_abbrev=False,
    )
    parser.add_argument("--run", type=Path, metavar="RUN", help="the run directory")
    parser.add_argument(
        "--resume", type=Path, metavar="CHECKPOINT", help="what to go on from (alone: newest)"
    )
    parser.add_argument(
        "--output", type=Path, metavar="DIR", help="alone: where checkpoints go instead of RUN's"
    )
    parser.add_argument("--steps", type=_at_least_one, help="instead of train.steps")
    parser.add_argument(
        "--ckpt-every-seconds", type=_positive, help="instead of checkpoint.every_seconds"
    )
    parser.add_argument(
        "--device-change",
        action="store_true",
        help="resume on another kind of device than the checkpoint was made on",
    )
    return parser


def _at_least_one(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not 1 or more")
    return value


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a number above 0")
    return value


def _path(given: Mapping[str, str], key: str) -> Path | None:
    return Path(given[key]) if given.get(key) else None


def _omit(text: str) -> frozenset[str]:
    names = frozenset(text.split(",")) if text else frozenset()
    if not names.issubset(OMITTED):
        raise SettingsError(
            f"cannot use STEPKEEPER_OMIT={text!r}: a list of {', '.join(OMITTED)} is expected"
        )
    return names


def _skip(text: str) -> int:
    if text and not (text.isascii() and text.isdigit()):
        raise SettingsError(f"cannot use STEPKEEPER_SKIP={text!r}: a number of steps is expected")
    return int(text or 0)


def _number(given: Mapping[str, str], key: str, otherwise: float) -> float:
    try:
        return float(given[key]) if given.get(key) else otherwise
    except ValueError:
        raise SettingsError(f"cannot use {key}={given[key]!r}: a number is expected") from None
