"""A disk on which saves are slow, and what a life beside them did."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.crash_fs import CrashFs, crash_fs
from tests.trainer.tiny import Life, live, make_run
from trainer.contract.checkpoint_format import read_companion
from trainer.contract.wire import Checkpoint, Doing, Step


@dataclass
class SlowDisk(CrashFs):
    """A disk on which the bytes of checkpoints wait until it is let go; everything else passes."""

    going: threading.Event = field(default_factory=threading.Event)

    def write(self, descriptor: int, data: bytes) -> int:
        if threading.current_thread().name == "save":
            assert self.going.wait(30)
        return super().write(descriptor, data)


@contextmanager
def slow_disk() -> Iterator[SlowDisk]:
    """Let it go in the end, whatever happens."""
    disk = SlowDisk()
    try:
        with crash_fs(disk):
            yield disk
    finally:
        disk.going.set()


def make(folder: Path, way: str, **checkpoint: object) -> Path:
    return make_run(folder, checkpoint={"background": way, **checkpoint})


def at_once(tmp_path: Path, step: int) -> Life:
    """The same run, with the checkpoint of ``step`` written while training waits."""
    return live(make(tmp_path / f"at-once-{step}", "off"), stop_after=step)


def same_checkpoint(life: Life, other: Life, step: int) -> None:
    """Both wrote the same state of a step, byte for byte."""
    for name in (f"step_{step:06d}.bin", f"step_{step:06d}.json"):
        ours, theirs = (one.checkpoints / name for one in (life, other))
        if name.endswith(".bin"):
            assert ours.read_bytes() == theirs.read_bytes()
        else:
            a, b = (read_companion(path.read_bytes(), name) for path in (ours, theirs))
            same = {"identities": {}, "reason": "", "saved": "", "losses": None}
            assert a._replace(**same) == b._replace(**same)


def places(life: Life) -> list[tuple[str, int]]:
    """What was said of steps, saves and waits, in order."""
    return [
        (r.what if isinstance(r, Doing) else type(r).__name__.lower(), r.step)
        for r in life.reports
        if isinstance(r, Doing | Step | Checkpoint) and r.step
    ]


def places_so_far(run: Path) -> list[str]:
    """The activities reported until now."""
    lines = (run / "reports-1.jsonl").read_text().splitlines()
    return [line.split('"what":"')[1].split('"')[0] for line in lines if '"what"' in line]
