"""How long the run lock has been free is told by looks now and then, and begins anew when held."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from trainer.orphan import OrphanWatch


@pytest.fixture
def lock(tmp_path: Path) -> Iterator[int]:
    descriptor = os.open(tmp_path / "run.lock", os.O_RDWR | os.O_CREAT, 0o600)
    yield descriptor
    os.close(descriptor)


def hold(descriptor: int) -> None:
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def free(descriptor: int) -> None:
    fcntl.flock(descriptor, fcntl.LOCK_UN)


def test_only_a_lock_that_is_free_all_the_time_counts(tmp_path: Path, lock: int) -> None:
    watch = OrphanWatch(tmp_path / "run.lock", after=900.0)
    assert not watch.abandoned(0.0)
    assert not watch.abandoned(899.0)
    hold(lock)
    assert not watch.abandoned(905.0)
    free(lock)
    assert not watch.abandoned(1000.0)
    assert not watch.abandoned(1899.0)
    assert watch.abandoned(1905.0)


def test_between_looks_the_lock_is_not_touched(tmp_path: Path, lock: int) -> None:
    watch = OrphanWatch(tmp_path / "run.lock", after=900.0)
    watch.abandoned(100.0)
    hold(lock)  # unseen until the next look, 5 seconds later
    assert not watch.abandoned(104.0)
    free(lock)
    assert not watch.abandoned(999.0)
    assert watch.abandoned(1004.0)


def test_a_look_leaves_the_lock_free(tmp_path: Path, lock: int) -> None:
    OrphanWatch(tmp_path / "run.lock", after=1.0).abandoned(0.0)
    hold(lock)


def test_a_run_without_a_lock_file_is_kept_by_nobody(tmp_path: Path) -> None:
    watch = OrphanWatch(tmp_path / "run.lock", after=10.0)
    assert not watch.abandoned(0.0)
    assert watch.abandoned(10.0)
