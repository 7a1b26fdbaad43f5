"""The life that is recorded: real supervisors and trainers, with all that writes in it.

Two attempts (the first writes a checkpoint that is refused, and dies), samples, a pinned save, the
supervisor killed and its trainer adopted, a pivot at a boundary, a stop, another start, the end.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from supervisor.control import request
from tests.support.crash_fs import Operation, build_shim, read_log, snapshot
from tests.support.crash_fs.disk import Content, Disk
from tests.support.daemon import Daemon
from tests.support.runs import make_run, scripted

EVERY = 10
SECONDS = 60.0
TRIES = 3  # a process killed between a call and its line spoils a recording
_TRAINER = {"every": EVERY, "n_params": 16, "sample_every": EVERY, "phase_wait": 2.0}


@dataclass(frozen=True)
class Recording:
    """What a run directory held before, everything that was done to it, and what it held then."""

    start: Content
    operations: tuple[Operation, ...]
    end: Content
    form: str = "bin"

    def writers(self) -> int:
        """How many processes took part."""
        return len({done.pid for done in self.operations})


def trainer(steps: int, form: str, **faults: object) -> list[str]:
    """The command of the scripted trainer, for the recording and for the lives after a crash."""
    return scripted(steps=steps, format=form, **_TRAINER, **faults)


def record(folder: Path, form: str = "bin") -> Recording:
    """Live it, with checkpoints of that format, and read the recording.

    Raises RuntimeError for one that does not explain the end.
    """
    shim = build_shim(folder)
    for number in range(TRIES):
        found = _lived(folder, f"life-{number}", shim, form)
        if found is not None:
            return found
    raise RuntimeError("cannot record: what was recorded does not lead to what is on the disk")


def _lived(folder: Path, name: str, shim: Path, form: str) -> Recording | None:
    faults = {"corrupt_at": 30, "corrupt": "nan", "kill_at": 35, "attempts": 1, "rate": 20}
    run = make_run(folder / name, trainer(100_000, form, **faults), every=EVERY)
    log = folder / f"{name}.operations"
    start = snapshot(run.path)
    env = {"LD_PRELOAD": str(shim), "CRASH_ROOT": str(run.path), "CRASH_LOG": str(log)}
    daemon = Daemon(run)
    try:
        _live(daemon, env)
    finally:
        daemon.finish()
    operations = tuple(read_log(log))
    disk = Disk(start)
    for done in operations:
        disk.apply(done)
    end = snapshot(run.path)
    shutil.rmtree(run.path)  # a run has one directory, and its copies are to be kept
    return Recording(start, operations, end, form) if disk.content() == end else None


def _live(daemon: Daemon, env: dict[str, str]) -> None:
    run = daemon.run
    daemon.start(env=env).until_seal(30, SECONDS)
    request(run.path, "save", {"pin": True, "note": "kept"}, 5.0)
    daemon.until((run.path / "checkpoints/pins.json").exists, "the pin", SECONDS)
    daemon.kill()
    daemon.start(env=env).until_seal(max(run.seals()) + EVERY, SECONDS)
    policy = (run.path / "policy.toml").read_text().replace("cap = 1.0", "cap = 0.8")
    request(run.path, "pivot", {"policy": policy, "when": "boundary"}, 5.0)
    daemon.until(lambda: run.events("pivot-done"), "the pivot's end", SECONDS)
    daemon.until_seal(max(run.seals()) + EVERY, SECONDS)
    _stop(daemon)
    daemon.start(env=env).until_step(run.last_step() + 5, SECONDS)
    _stop(daemon)


def _stop(daemon: Daemon) -> None:
    code = daemon.stop(SECONDS)
    if code:
        raise AssertionError(f"the stop ended with {code}\n{daemon.describe()}")
