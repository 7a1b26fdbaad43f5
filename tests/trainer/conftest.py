"""Fixtures that put back what a life of the trainer changes, and end its processes."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.trainer.exercise import make_lives
from tests.trainer.tiny import Process, make_run
from trainer.proof import storing


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """A life in this process installs handlers; the next test finds the former ones."""
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)
    before = [signal.getsignal(number) for number in numbers]
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


@pytest.fixture(scope="session")
def exercise_lives(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four good lives of the exercise in each format, to be copied."""
    folder = tmp_path_factory.mktemp("lives")
    for form in storing.FORMATS:
        make_lives(folder, form)
    return folder


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A tiny run with the usual settings."""
    return make_run(tmp_path / "run")


@pytest.fixture
def start() -> Iterator[Callable[..., Process]]:
    """Start trainer processes that are ended with the test."""
    started: list[Process] = []

    def starting(run: Path, **given: str) -> Process:
        started.append(Process(run, len(started) + 1, **given))
        return started[-1]

    yield starting
    for process in started:
        process.finish()
