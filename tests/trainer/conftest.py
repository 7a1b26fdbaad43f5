"""Fixtures that put back what a life of the trainer changes, and end its processes."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.trainer.tiny import Process, make_run


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """A life in this process installs handlers; the next test finds the former ones."""
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)
    before = [signal.getsignal(number) for number in numbers]
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


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
