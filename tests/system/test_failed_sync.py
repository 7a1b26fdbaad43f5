"""A sync that really fails, the data gone from the disk but not from memory: the disk is asked.

The disk is an ext4 in an image on a tmpfs. Once that tmpfs is full, blocks that were promised
cannot be written: the first sync fails, the second one succeeds, and the data are gone.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.daemon import Daemon
from tests.support.runs import make_run, scripted
from tests.support.volumes import BLOCK, MIB, Volume, ext4, tmpfs
from trainer.contract.durable import AppendFile

pytestmark = [pytest.mark.system]


class Disk(NamedTuple):
    """``volume`` is what is used; nothing new reaches it while ``below`` is full."""

    volume: Volume
    below: Volume


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    with tmpfs(tmp_path / "below", 40 * MIB) as below:
        image = tmp_path / "below/image"
        with ext4(tmp_path / "volume", image, 64 * MIB, "-O", "^has_journal") as volume:
            yield Disk(volume, below)


def test_what_a_failed_sync_lost_is_found_by_opening_again(disk: Disk) -> None:
    path = disk.volume.path / "file"
    file = AppendFile(path, create=True)
    file.append(b"x" * BLOCK)
    file.sync()
    disk.below.fill()
    file.append(b"y" * 100)
    with pytest.raises(OSError, match=r"No space left on device|Input/output error"):
        file.sync()
    assert path.read_bytes()[BLOCK:] == b"y" * 100  # memory pretends
    with pytest.raises(OSError, match="an earlier sync failed"):
        file.append(b"z")
    file.close()
    disk.below.free()
    again = AppendFile(path)
    again.settle(BLOCK + 10)  # in the midst of the page that is lost
    assert os.pread(again.descriptor, 200, BLOCK) == bytes(100)
    again.close()


def test_no_step_is_lost_to_a_ledger_that_could_not_be_synced(disk: Disk) -> None:
    settings = "[disk]\nreserve = 0.0\nhold_below = 0.0\n"
    run = make_run(
        disk.volume.path / "run", scripted(steps=600, rate=150, every=100), settings=settings
    )
    daemon = Daemon(run)
    try:
        daemon.start().until_seal(100)
        # Reading it back takes a while, so this comes before the sync that its seal needs.
        daemon.until(lambda: 200 in run.checkpoints(), "the next checkpoint")
        disk.below.fill()
        code = daemon.wait(30)
        assert code == 1, daemon.describe()
        assert "leaving; the next start reads back what the disk holds" in daemon.output()
        disk.below.free()
        assert daemon.start().wait(40) == 0
        assert sorted(run.canonical()) == list(range(1, 601))
        audit = daemon.cli("audit", "{run}")
        assert audit.returncode == 0, audit.stdout + audit.stderr
    finally:
        daemon.finish()
