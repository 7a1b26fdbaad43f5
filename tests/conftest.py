"""Fixtures that start real programs, end them all, and show what they said when a test fails."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.daemon import Daemon
from tests.support.runs import ROOT, make_run

LONG = (
    "test_chaos.py",
    "test_prove_run.py",
    "test_demo.py",
    "test_pivot.py",
    "test_architecture.py",
)
FAILED = pytest.StashKey[bool]()

# Whoever starts the suite in the background may have it ignore these, and every program that a
# test starts would inherit that; a signal with a handler is inherited as the default.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)

# Whoever keeps clones clean would have each of the thousand programs that tests start compile all
# of ours anew, which is a third of its start.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # noqa: TID251 - for what is started, not for us


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Iterator[None]:
    """Remember on the item that its call failed, for fixtures that then describe their part."""
    report = yield
    if report.when == "call" and report.failed:
        item.stash[FAILED] = True
    return report


def pytest_addoption(parser: pytest.Parser) -> None:
    """``pytest --thorough``: every case of the slow proofs, where the suite takes a fixed part."""
    parser.addoption("--thorough", action="store_true", help="every case of the slow proofs")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Files that take minutes begin first, so that one process is not alone with one at the end.

    Without --thorough what is marked so is skipped: another case of what a test shows by one.
    """
    if not config.getoption("--thorough"):
        for item in items:
            if item.get_closest_marker("thorough"):
                item.add_marker(pytest.mark.skip(reason="another case; run with --thorough"))
    items.sort(key=lambda item: item.path.name not in LONG)


@pytest.fixture
def thorough(request: pytest.FixtureRequest) -> bool:
    """Whether every case of a slow proof shall run."""
    return bool(request.config.getoption("--thorough"))


@pytest.fixture
def supervise(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Callable[..., Daemon]]:
    """Make a run and its daemon (not yet started): ``supervise(scripted(steps=300), every=50)``."""
    daemons: list[Daemon] = []

    def make(command: list[str], **settings: object) -> Daemon:
        run = make_run(tmp_path / f"run{len(daemons) or ''}", command, **settings)
        daemons.append(Daemon(run))
        return daemons[-1]

    yield make
    for daemon in daemons:
        if request.node.stash.get(FAILED, False):
            print(daemon.describe())  # noqa: T201 - pytest shows it with the failure
        daemon.finish()


@pytest.fixture(scope="session")
def c_trainer(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The path of the C trainer, compiled once."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("needs a C compiler: neither cc, gcc nor clang is on the path")
    target = tmp_path_factory.mktemp("c") / "trainer"
    source = ROOT / "tests/support/trainer.c"
    command = [
        compiler,
        "-std=c11",
        "-D_DEFAULT_SOURCE",
        "-O1",
        "-Wall",
        "-o",
        target,
        source,
        "-lm",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return str(target)
