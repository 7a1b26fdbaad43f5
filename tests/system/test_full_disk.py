"""A disk that really fills in mid-run: training is held, says why, and goes on by itself."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.daemon import Daemon
from tests.support.runs import make_run, scripted
from tests.support.volumes import Volume, ext4, tmpfs

pytestmark = [pytest.mark.system]
MIB = 1 << 20
Start = Callable[..., tuple[Daemon, Volume]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """A run on a small file system of its own, started; ended before that is unmounted."""
    with ExitStack() as undo:

        def make(command: list[str], kind: str = "tmpfs", **options: int) -> tuple[Daemon, Volume]:
            place = tmp_path / "volume"
            if kind == "tmpfs":
                volume = undo.enter_context(tmpfs(place, 6 * MIB, **options))
            else:
                volume = undo.enter_context(ext4(place, tmp_path / "image", 24 * MIB))
            run = make_run(place / "run", command, settings="[disk]\nhold_below = 0.25\n")
            daemon = Daemon(run)
            undo.callback(daemon.finish)
            daemon.start()
            return daemon, volume

        yield make


def trouble(daemon: Daemon) -> str:
    """What status says that training is held for."""
    done = daemon.cli("status", "{run}", "--json")
    return str(json.loads(done.stdout)["trouble"])


def check_whole(daemon: Daemon, steps: int) -> None:
    """Every step stands once, the audit is clean, and no temporary file is left."""
    run = daemon.run
    assert [line["step"] for line in run.ledger()] == list(range(1, steps + 1))
    audit = daemon.cli("audit", "{run}")
    assert audit.returncode == 0, audit.stdout + audit.stderr
    assert [str(path) for path in run.path.rglob("*.tmp")] == []
    assert len(run.attempts()) == 1


@pytest.mark.parametrize("kind", ["tmpfs", "ext4"])
def test_training_is_held_while_the_disk_is_full_and_goes_on_by_itself(
    start: Start, kind: str
) -> None:
    daemon, volume = start(scripted(steps=900, rate=150, every=100), kind)
    daemon.until_step(120)
    volume.fill()
    text = daemon.until(lambda: trouble(daemon), "a status that says why training is held")
    assert "free in" in text or "No space left" in text
    daemon.until(lambda: daemon.run.reports(1)[-1].get("what") == "wait", "a trainer that waits")
    held = daemon.run.reports(1, "step")[-1]["step"]
    assert "training is held" in daemon.cli("status", "{run}").stdout
    volume.free()
    assert daemon.wait(30) == 0
    assert held < 900
    check_whole(daemon, 900)
    assert max(daemon.run.seals()) == 900
    said = daemon.output()
    assert said.count("training is held until that is over") == 1
    assert said.count("training goes on (it was:") == 1
    assert [len(daemon.run.events(n)) for n in ("disk-trouble", "disk-well")] == [1, 1]
