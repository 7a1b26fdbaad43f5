"""A trainer that saves beside training, supervised: late reports seal their own step exactly."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.daemon import Daemon
from tests.support.runs import ROOT, make_run

pytestmark = [pytest.mark.system, pytest.mark.torch]

SETTINGS = """
[model]
preset = "demo"
width = 64
layers = 1
context = 32
[train]
steps = 100000
batch = 2
threads = 1
"""


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    """The reference trainer, a checkpoint from a copy of the state every ten steps."""
    command = ["env", f"PYTHONPATH={ROOT}", "{python}", "-m", "trainer"]
    run = make_run(tmp_path / "run", command, every=10, settings=SETTINGS)
    file = run.path / "run.toml"
    text = file.read_text()
    assert text.count("[checkpoint]\n") == 1
    file.write_text(text.replace("[checkpoint]\n", '[checkpoint]\nbackground = "copy"\n'))
    daemon = Daemon(run)
    try:
        yield daemon.start()
    finally:
        daemon.finish()


def test_killed_amid_saves_it_is_resumed_from_a_seal_and_every_replayed_step_is_proved(
    daemon: Daemon,
) -> None:
    run = daemon.run
    daemon.until_seal(40, seconds=60)
    os.kill(run.trainer_pid(), signal.SIGKILL)
    reached = run.last_step()
    daemon.until_seal(reached + 20, seconds=60)
    assert daemon.stop(seconds=60) == 0
    late = [
        (report["step"], before["step"])
        for before, report in _with_step_before(run.reports(1))
        if before["step"] > report["step"]
    ]
    assert late  # some were told only after a later step, so this was no synchronous run
    for step, seal in run.seals().items():
        assert seal["ledger"]["entries"] == step
    [replay] = run.events("replay")
    assert replay["differed"] is None
    assert replay["proved"] == replay["last"] - replay["first"] + 1
    assert run.events("checkpoint-refused") == []
    assert daemon.cli("audit", str(run.path)).returncode == 0


def _with_step_before(reports: list[dict[str, object]]) -> Iterator[tuple[dict, dict]]:
    """Each report of a checkpoint, and that of the newest step before it."""
    newest: dict[str, object] = {}
    for report in reports:
        if report["report"] == "step":
            newest = report
        elif report["report"] == "checkpoint":
            yield newest, report
