"""Runs with a history, made once by the real supervisor, and copies of them to be spoiled."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from supervisor.control import request
from tests.conftest import FAILED
from tests.support.daemon import Daemon
from tests.support.runs import Run, copy_of, make_run, scripted
from tests.support.service import Service, install
from tests.support.systemd_machine import Machine, booted, missing

_NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def rich(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """Four crashes, a seal that was fallen back behind, a pivot, a stop."""
    command = scripted(rate=600, kill_at=250, attempts="1,2,3,4", sample_every=100, say_start=True)
    daemon = Daemon(
        make_run(tmp_path_factory.mktemp("rich") / "run", command, every=100, keep_last=20)
    )
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


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """A tiny model, really trained for four steps, two seals; not to be spoiled."""
    ours = ["{python}", "-m", "trainer"]
    settings = "[model]\nwidth = 16\nheads = 2\nlayers = 1\ncontext = 12\n"
    settings += "[train]\nsteps = 4\nbatch = 2\ndevice = 'cpu'\nthreads = 1\n"
    run = make_run(tmp_path_factory.mktemp("trained") / "run", ours, every=2, settings=settings)
    daemon = Daemon(run)
    try:
        assert daemon.start().wait(60) == 0, daemon.output()
        yield run
    finally:
        daemon.finish()


@pytest.fixture
def copy(rich: Run, tmp_path: Path) -> Run:
    return copy_of(rich, tmp_path / "copy")


@pytest.fixture
def simple(plain: Run, tmp_path: Path) -> Run:
    return copy_of(plain, tmp_path / "copy")


@pytest.fixture(scope="session")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A booted systemd with the unit installed; one for all tests."""
    if why := missing():
        pytest.skip(f"CANNOT BOOT A SYSTEMD HERE: {why}")
    with booted(tmp_path_factory.mktemp("systemd")) as found:
        install(found)
        yield found


@pytest.fixture
def serve(machine: Machine, request: pytest.FixtureRequest) -> Iterator[Callable[..., Service]]:
    """Make a run and its service (not yet started): ``serve(within(rate=200), every=50)``."""
    services: list[Service] = []

    def make(command: list[str], **settings: object) -> Service:
        name = f"{request.node.name.split('[')[0][:40]}-{next(_NUMBERS)}"
        services.append(Service(machine, name, command, **settings))
        return services[-1]

    yield make
    for service in services:
        if request.node.stash.get(FAILED, False):
            print(service.describe())  # noqa: T201 - pytest shows it with the failure
        service.finish()
