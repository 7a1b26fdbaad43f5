"""Beside training, too, a disk that is full or fails costs no checkpoint that could be made."""

from __future__ import annotations

import errno
import hashlib
import os
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.crash_fs import CrashFs, crash_fs
from tests.support.volumes import MIB, tmpfs
from tests.support.waiting import wait_until
from tests.trainer.beside import at_once, make, same_checkpoint
from tests.trainer.tiny import Process, give_orders, live, make_run, send
from trainer.contract.checkpoint_format import read_companion
from trainer.contract.wire import Doing, SaveOrder
from trainer.errors import TrainerError


@dataclass
class FailingDisk(CrashFs):
    """Refuses what the thread of a save writes, with ``number``, as long as ``bad``."""

    number: int = errno.EIO
    bad: bool = False
    refused: int = 0

    def write(self, descriptor: int, data: bytes) -> int:
        if self.bad and threading.current_thread().name == "save":
            self.refused += 1
            raise OSError(self.number, os.strerror(self.number))
        return super().write(descriptor, data)


def test_a_save_that_fails_beside_training_is_owed_and_made_later(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trainer.keeper._REST_AFTER_FAILURE", 0.0)
    run = make(tmp_path / "run", "copy")
    disk = FailingDisk()

    def recover() -> None:
        wait_until(lambda: disk.refused >= 3, "three tries")
        disk.bad = False

    with crash_fs(disk):
        order = SaveOrder(7, "step", "go")
        life = live(
            run,
            stop_after=12,
            acts={
                ("step", 3): lambda: setattr(disk, "bad", True),
                ("step", 4): lambda: give_orders(run, 7, save=order),
                ("step", 6): recover,
            },
        )
    step, reason, save = life.saved()[0]
    assert (reason, save) == ("signal", 7)
    assert step > 4
    assert life.saved()[1:] == [(12, "stop", None)]
    assert capfd.readouterr().err.count("that file is discarded") == 3
    assert not (life.checkpoints / "step_000004.bin").exists()
    same_checkpoint(life, at_once(tmp_path, step), step)


def test_a_full_disk_is_waited_for_while_training_goes_on(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run = make(tmp_path / "run", "copy")
    with tmpfs(run / "checkpoints", 4 * MIB) as volume:
        volume.fill()
        full = []

        def go_on() -> None:
            full.append("waiting for room" in capfd.readouterr().err)
            volume.free()

        life = live(
            run,
            stop_after=25,
            acts={("step", 4): send(signal.SIGUSR1), ("step", 20): go_on},
        )
        assert full == [True]
        assert life.saved() == [(4, "signal", None), (25, "stop", None)]
        same_checkpoint(life, at_once(tmp_path, 4), 4)
        assert {path.suffix for path in life.checkpoints.iterdir()} == {".bin", ".json"}


class LosingReports(FailingDisk):
    """Fails the sync of reports, which is the only one that asks for data alone."""

    def fdatasync(self, descriptor: int) -> None:
        if self.bad:
            self.refused += 1
            raise OSError(self.number, os.strerror(self.number))
        super().fdatasync(descriptor)


def test_reports_that_cannot_be_made_durable_end_training_before_the_bin_is_seen(
    tmp_path: Path,
) -> None:
    run = make(tmp_path / "run", "copy")
    disk = LosingReports()

    def fail() -> None:
        disk.bad = True

    message = r"durable: .*; ending, to be restarted"
    with crash_fs(disk), pytest.raises(TrainerError, match=message):
        live(run, acts={("step", 4): send(signal.SIGUSR1), ("doing", 4): fail})
    assert disk.refused == 1
    assert not (run / "checkpoints").exists()


def test_killed_amid_a_save_whatever_is_visible_is_complete(
    tmp_path: Path, start: Callable[..., Process]
) -> None:
    wide = {"width": 256, "heads": 4}
    run = make_run(
        tmp_path / "run",
        model=wide,
        train={"steps": 8},
        checkpoint={"background": "copy", "every_steps": 2},
    )
    process = start(run)
    process.wait_for(Doing, 6)
    process.child.kill()
    process.wait()
    begun = max(r.step for r in process.of(Doing) if r.what == "save")
    bins = sorted((run / "checkpoints").glob("step_*.bin"))
    for path in bins:
        record = read_companion(path.with_suffix(".json").read_bytes(), path.name)
        assert hashlib.sha256(path.read_bytes()).hexdigest() == record.sha256
    assert len(bins) in (begun // 2, begun // 2 - 1)
    again = start(run, STEPKEEPER_RESUME=str(bins[-1]))
    assert again.wait() == 0
