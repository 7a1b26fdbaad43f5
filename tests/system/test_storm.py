"""The supervisor killed at random moments of one real training run: nothing is lost or doubled."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.daemon import Daemon
from tests.support.runs import ROOT, Run, make_run
from tests.support.storm import SECONDS, Storm

pytestmark = [pytest.mark.system, pytest.mark.torch]

SEED = 20260731
TINY = """\
[model]
vocabulary = 256
width = 16
heads = 2
layers = 1
context = 12
[train]
steps = 1000000
batch = 3
lr = 0.01
warmup_steps = 4
threads = 1
device = "cpu"
"""
ASIDE = ("attempt", "time", "chain", "mark")


def real_run(folder: Path) -> Run:
    """Our own trainer with a model so small that a step takes a millisecond or two."""
    command = ["env", f"PYTHONPATH={ROOT}", sys.executable, "-m", "trainer"]
    return make_run(folder, command, every=200, algorithm="ucb1", settings=TINY)


def facts(run: Run) -> list[dict[str, Any]]:
    """The ledger in file order, each line without when, by whom and behind which it was written."""
    return [{k: v for k, v in line.items() if k not in ASIDE} for line in run.ledger()]


@pytest.mark.timeout(3600)
def test_a_storm_of_kills_loses_no_step_doubles_none_and_leaves_the_ledger_as_it_would_be(
    tmp_path: Path,
    thorough: bool,  # noqa: FBT001 - a fixture
) -> None:
    daemon = Daemon(real_run(tmp_path / "run" / "demo"))
    quiet = Daemon(real_run(tmp_path / "quiet" / "demo"))
    kills = 200 if thorough else 6
    try:
        storm = Storm(daemon, SEED)
        storm.measure()
        trainer = daemon.until_trainer(seconds=SECONDS)
        while storm.kills < kills:
            storm.blow()
            assert daemon.run.trainer_pid() == trainer, daemon.describe()
        storm.answers()
        assert daemon.stop(SECONDS) == 0
        last = daemon.run.reports(1, "step")[-1]["step"]
        assert [line["step"] for line in daemon.run.ledger()] == list(range(1, last + 1))
        assert max(daemon.run.seals()) == last
        assert len(daemon.run.attempts()) == 1
        assert daemon.run.attempts()[0]["identity"]["pid"] == trainer
        assert not [r for r in daemon.run.reports(1, "phase") if r["repeated"]]
        assert daemon.cli("audit", "{run}", seconds=SECONDS).returncode == 0
        quiet.start().until_step(last, 1500.0)
        assert quiet.stop(SECONDS) == 0
        assert facts(daemon.run) == facts(quiet.run)[:last]
        assert storm.reloads
        assert storm.freezes
        assert last > 10 * kills
    finally:
        daemon.finish()
        quiet.finish()
