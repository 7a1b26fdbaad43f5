"""A run with a history, made once, and copies of it to be spoiled."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.made_run import make
from tests.support.runs import Run


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return make(tmp_path_factory.mktemp("made") / "run")


@pytest.fixture
def run(made: Run, tmp_path: Path) -> Run:
    return Run(Path(shutil.copytree(made.path, tmp_path / "run")))
