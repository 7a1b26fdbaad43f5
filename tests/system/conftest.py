"""Runs with a history, made once by the real supervisor, and copies of them to be spoiled."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor.control import request
from tests.support.daemon import Daemon
from tests.support.runs import Run, make_run, scripted


@pytest.fixture(scope="session")
def rich(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """Four crashes, a seal that was fallen back behind, a pivot, a stop."""
    command = scripted(rate=600, kill_at=250, attempts="1,2,3,4", sample_every=100, say_start=True)
    daemon = Daemon(make_run(tmp_path_factory.mktemp("rich") / "run", command, every=100))
    run = daemon.run
    try:
        daemon.start().until_step(320, 40)
        policy = (run.path / "policy.toml").read_text().replace("cap = 1.0", "cap = 0.8")
        request(run.path, "pivot", {"policy": policy, "when": "boundary"}, 5.0)
        daemon.until(lambda: run.events("pivot-done"), "the pivot's end")
        daemon.until_seal(500)
        assert daemon.stop() == 0
        yield run
    finally:
        daemon.finish()


@pytest.fixture(scope="session")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """One attempt of 300 steps, three seals."""
    command = scripted(steps=300, rate=900)
    daemon = Daemon(make_run(tmp_path_factory.mktemp("plain") / "run", command, every=100))
    try:
        assert daemon.start().wait() == 0
        yield daemon.run
    finally:
        daemon.finish()


@pytest.fixture
def copy(rich: Run, tmp_path: Path) -> Run:
    return Run(Path(shutil.copytree(rich.path, tmp_path / "copy")))


@pytest.fixture
def simple(plain: Run, tmp_path: Path) -> Run:
    return Run(Path(shutil.copytree(plain.path, tmp_path / "copy")))
