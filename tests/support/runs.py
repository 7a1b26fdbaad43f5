"""Run directories for tests: made from a few settings, read back with nothing but json."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import struct
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SCRIPTED = (sys.executable, "-S", str(ROOT / "tests/support/scripted_trainer.py"))

Record = dict[str, Any]


def scripted(**options: object) -> list[str]:
    """The command of the scripted trainer, as in ``scripted(steps=300, kill_at=170)``."""
    words: list[str] = []
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        if value is not False:
            words += [flag] if value is True else [flag, str(value)]
    return [*SCRIPTED, *words]


def policy_text(arms: dict[str, Record] | tuple[str, ...], algorithm: str, unit: str) -> str:
    """A policy.toml; arms given by name alone have wide bounds."""
    table = arms if isinstance(arms, dict) else {arm: {} for arm in arms}
    wide = {"floor": 0.0, "cap": 1.0}
    lines = ['schema = "stepkeeper.policy/2"', f'algorithm = "{algorithm}"', f'unit = "{unit}"']
    for arm, bounds in table.items():
        lines.append(f"[arms.{json.dumps(arm)}]")
        lines += [f"{key} = {value}" for key, value in {**wide, **bounds}.items()]
    return "\n".join(lines) + "\n"


def make_run(  # noqa: PLR0913 - each a setting that many tests need
    folder: Path,
    command: list[str],
    *,
    arms: dict[str, Record] | tuple[str, ...] = ("a", "b"),
    every: int = 100,
    keep_last: int | None = None,
    algorithm: str = "static",
    settings: str = "",
) -> Run:
    """A run directory ready to start; ``settings`` is more TOML for the end of run.toml."""
    folder.mkdir(parents=True)
    lines = ['schema = "stepkeeper.run/1"', 'name = "demo"', "[trainer]"]
    lines += [f"command = {json.dumps(command)}"]
    lines += ["[checkpoint]", f"every_steps = {every}"]
    lines += [] if keep_last is None else [f"keep_last = {keep_last}"]
    for arm in arms:
        source = folder / "sources" / arm
        source.mkdir(parents=True)
        (source / "text.txt").write_text(f"text of {arm}\n" * 100)
        lines += [f"[sources.{json.dumps(arm)}]", f'path = "sources/{arm}"']
    if "[disk]" not in settings:
        settings += "\n[disk]\nreserve = 0.0\n"  # hundreds of runs would fill a small disk
    (folder / "run.toml").write_text("\n".join(lines) + "\n" + settings)
    (folder / "policy.toml").write_text(policy_text(arms, algorithm, "share"))
    return Run(folder)


def copy_of(run: Run, target: Path) -> Run:
    """A copy to be kept beside its original, which a supervisor would refuse by ``place.json``."""
    ignored = shutil.ignore_patterns("place.json")
    return Run(Path(shutil.copytree(run.path, target, ignore=ignored)))


class Run:
    """A run directory, read without any code of the project."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def ledger(self) -> list[Record]:
        """Every whole line that is JSON, in file order; a torn piece is left out."""
        return _lines(self.path / "demo.loss.json")

    def canonical(self) -> dict[int, Record]:
        """The line that counts for each step: a line for s voids earlier ones at s or above."""
        view: dict[int, Record] = {}
        for line in self.ledger():
            for step in range(line["step"], max(view, default=0) + 1):
                view.pop(step, None)
            view[line["step"]] = line
        return view

    def last_step(self) -> int:
        """The step of the newest ledger line, 0 without one."""
        path = self.path / "demo.loss.json"
        lines = _lines(path, 4096)
        return int(lines[-1]["step"]) if lines else 0

    def events(self, name: str = "") -> list[Record]:
        """The journal, or its lines of one event, each with its facts beside its name."""
        lines = [{**line["facts"], **line} for line in _lines(self.path / "events.jsonl")]
        return [line for line in lines if not name or line["event"] == name]

    def seals(self) -> dict[int, Record]:
        """Seal by step."""
        seals = {}
        for path in (self.path / "checkpoints").glob("step_*.seal.json"):
            with contextlib.suppress(FileNotFoundError):  # superseded meanwhile
                seals[int(path.name[5:].split(".")[0])] = json.loads(path.read_bytes())
        return seals

    def checkpoints(self) -> list[int]:
        """Steps that have a visible checkpoint, in order; the header of a ``.bin`` says which."""
        steps = []
        for path in (self.path / "checkpoints").glob("step_*"):
            if path.suffix in (".pt", ".sharded"):
                steps.append(int(path.stem.removeprefix("step_")))
            elif path.suffix == ".bin":
                with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
                    steps.append(struct.unpack("<i", file.read(4))[0])
        return sorted(steps)

    def attempts(self) -> list[Record]:
        """Every attempt's record, the first one first."""
        found = sorted((self.path / "attempts").glob("*/attempt.json"))
        return [json.loads(path.read_bytes()) for path in found]

    def reports(self, attempt: int, name: str = "") -> list[Record]:
        """The whole report lines of one attempt, or those of one kind."""
        lines = _lines(self.path / f"attempts/{attempt:06d}/reports.jsonl")
        return [line for line in lines if not name or line.get("report") == name]

    def read(self, name: str) -> Record | None:
        """A JSON file of the run by its name, or None where it is not there."""
        try:
            record: Record = json.loads((self.path / name).read_bytes())
        except FileNotFoundError:
            return None
        return record

    def pids(self) -> list[int]:
        """Living processes of this run's trainers and their workers, by their environment."""
        mark = b"STEPKEEPER_RUN=" + os.fsencode(self.path) + b"\0"
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    if mark in (entry / "environ").read_bytes() + b"\0":
                        found.append(int(entry.name))
                except OSError:  # gone, or not ours to look at
                    continue
        return sorted(found)

    def trainer_pid(self) -> int:
        """The pid that the newest living attempt reported, or 0."""
        attempts = sorted((self.path / "attempts").glob("*/reports.jsonl"))
        alive = self.pids()
        for line in _lines(attempts[-1]) if attempts else []:
            if line.get("report") == "ready" and line["pid"] in alive:
                return int(line["pid"])
        return 0

    def describe(self) -> str:
        """What a person needs after a failure: the tree, and the ends of the files that tell."""
        parts = [f"--- {self.path}"]
        files = [path for path in sorted(self.path.rglob("*")) if path.is_file()]
        parts += [f"{path.stat().st_size:>10} {path.relative_to(self.path)}" for path in files]
        for path in [
            *sorted(self.path.glob("attempts/*/output.log"))[-2:],
            *sorted(self.path.glob("attempts/*/reports.jsonl"))[-1:],
            self.path / "events.jsonl",
            self.path / "demo.loss.json",
        ]:
            if path.is_file():
                tail = path.read_bytes()[-2000:].decode("utf-8", "replace")
                parts.append(f"--- {path.relative_to(self.path)}\n{tail}")
        return "\n".join(parts)


def _lines(path: Path, last: int = 0) -> list[Record]:
    """Every whole line that is a JSON object, of the file or of its ``last`` bytes."""
    if not path.exists():
        return []
    with path.open("rb") as file:
        file.seek(-min(last, path.stat().st_size), os.SEEK_END if last else os.SEEK_SET)
        data = file.read()
    records = []
    for line in data.split(b"\n")[:-1]:
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict):
            records.append(record)
    return records
