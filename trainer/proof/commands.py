"""The commands of ``python -m trainer.proof``: one life of the exercise, or the verdict over all.

Exit codes: 0 done, or proved; 1 a comparison failed; 2 it could not be done or determined.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from trainer import clock
from trainer.contract import durable
from trainer.errors import SettingsError, TrainerError
from trainer.proof import facts, life, lives, storing, verdict
from trainer.reports import say

_DESCRIPTION = "One life of the exercise, or the verdict over all of them."
VERIFICATION = "verification.json"
_FAILED = 1
_UNKNOWN = 2


def main(arguments: list[str]) -> int:
    """Carry out one command; its exit code."""
    given = _parser().parse_args(arguments)
    try:
        return _train(given) if given.command == "train" else _verify(given)
    except TrainerError as error:
        say(str(error))
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        say(f"cannot {given.command}: {where}{error.strerror or error}")
    return _UNKNOWN


def _train(given: argparse.Namespace) -> int:
    if given.omit_rng_restore and given.resume is None:
        raise SettingsError("cannot omit the generators: --omit-rng-restore goes with --resume")
    plan = life.Plan(given.steps, given.output, given.format, given.resume, given.omit_rng_restore)
    summary = life.live(plan)
    last = summary["history"][-1]
    _tell(
        {
            "output": str(given.output),
            "step": last["step"],
            "loss": last["loss"],
            "next_lr": last["next_lr"],
            "mse": summary["final"]["mse"],
            "checkpoint": summary["checkpoint"]["name"],
        }
    )
    return 0


def _verify(given: argparse.Namespace) -> int:
    path = given.folder / VERIFICATION
    if path.exists():
        raise SettingsError(f"cannot write {path}: it is there already, and is evidence")
    forms = given.format or list(storing.FORMATS)
    verdicts = [verdict.judge(lives.read(given.folder, form)) for form in forms]
    record = verdict.whole(verdicts, clock.wall())
    durable.write_file(path, facts.to_bytes(record))
    _tell(record)
    return 0 if record["all_checks_passed"] else _FAILED


def _tell(record: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(record, allow_nan=False) + "\n")
    sys.stdout.flush()


def _steps(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m trainer.proof", description=_DESCRIPTION)
    commands = parser.add_subparsers(dest="command", required=True)
    train = commands.add_parser("train", help="one life: so many more updates, then a checkpoint")
    train.add_argument("--steps", type=_steps, required=True, help="updates to make")
    train.add_argument("--output", type=Path, required=True, help="a directory not there yet")
    train.add_argument("--resume", type=Path, help="the checkpoint to go on from")
    train.add_argument("--omit-rng-restore", action="store_true", help="the control that must fail")
    train.add_argument("--format", choices=storing.FORMATS, default="pt")
    verify = commands.add_parser("verify", help="compare DIR/FORMAT/LIFE, write verification.json")
    verify.add_argument("folder", type=Path, metavar="DIR")
    verify.add_argument("--format", choices=storing.FORMATS, action="append")
    return parser
