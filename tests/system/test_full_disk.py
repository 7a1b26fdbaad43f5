"""A disk that really fills in mid-run: training is held, says why, and goes on by itself."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.daemon import Daemon
from tests.support.runs import ROOT, make_run, scripted
from tests.support.volumes import BLOCK, MIB, Volume, ext4, read_only, tmpfs

pytestmark = [pytest.mark.system]
Start = Callable[..., tuple[Daemon, Volume]]
DISK = "[disk]\nhold_below = 0.25\n"
TINY = """
[model]
vocabulary = 256
width = 64
heads = 2
layers = 1
context = 16
[train]
steps = 3000
batch = 2
threads = 1
device = "cpu"
"""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """A run on a small file system of its own, started; ended before that is unmounted."""
    with ExitStack() as undo:

        def make(
            command: list[str],
            kind: str = "tmpfs",
            inodes: int = 0,
            size: int = 6 * MIB,
            **settings: object,
        ) -> tuple[Daemon, Volume]:
            place = tmp_path / "volume"
            if kind == "tmpfs":
                volume = undo.enter_context(tmpfs(place, size, inodes))
            else:
                volume = undo.enter_context(ext4(place, tmp_path / "image", 24 * MIB))
            given = {"settings": DISK, **settings}
            daemon = Daemon(make_run(place / "run", command, **given))  # type: ignore[arg-type]  # by name
            undo.callback(daemon.finish)
            daemon.start()
            return daemon, volume

        yield make


def trouble(daemon: Daemon) -> str:
    """What status says that training is held for."""
    done = daemon.cli("status", "{run}", "--json")
    return str(json.loads(done.stdout)["trouble"])


def until_held(daemon: Daemon) -> str:
    """Wait until training is held and the trainer waits; what status says of it."""
    text = daemon.until(lambda: trouble(daemon), "a status that says why training is held")
    daemon.until(lambda: daemon.run.reports(1)[-1].get("what") == "wait", "a trainer that waits")
    return text


def check_whole(daemon: Daemon, steps: int) -> None:
    """Every step stands once, the audit is clean, and no temporary file is left."""
    run = daemon.run
    assert [line["step"] for line in run.ledger()] == list(range(1, steps + 1))
    audit = daemon.cli("audit", "{run}")
    assert audit.returncode == 0, audit.stdout + audit.stderr
    assert [str(path) for path in run.path.rglob("*.tmp")] == []
    assert len(run.attempts()) == 1
    assert max(run.seals()) == steps


@pytest.mark.parametrize("kind", ["tmpfs", "ext4"])
def test_training_is_held_while_the_disk_is_full_and_goes_on_by_itself(
    start: Start, kind: str, *, thorough: bool
) -> None:
    if kind == "ext4" and not thorough:
        pytest.skip("another file system; run with --thorough")
    daemon, volume = start(scripted(steps=700, rate=150, every=100), kind)
    daemon.until_step(120)
    volume.fill()
    text = until_held(daemon)
    assert "free in" in text or "No space left" in text
    held = daemon.run.reports(1, "step")[-1]["step"]
    assert "training is held" in daemon.cli("status", "{run}").stdout
    volume.free()
    assert daemon.wait(30) == 0
    assert held < 700
    check_whole(daemon, 700)
    said = daemon.output()
    assert said.count("training is held until that is over") == 1
    assert said.count("training goes on (it was:") == 1
    assert [len(daemon.run.events(n)) for n in ("disk-trouble", "disk-well")] == [1, 1]


def test_training_is_held_while_no_inode_is_free(start: Start, *, thorough: bool) -> None:
    if not thorough:
        pytest.skip("another kind of full; run with --thorough")
    daemon, volume = start(scripted(steps=500, rate=150, every=100), inodes=120)
    daemon.until_step(120)
    volume.fill_inodes()
    text = until_held(daemon)
    assert "inodes are free" in text or "No space left" in text
    volume.free()
    assert daemon.wait(30) == 0
    check_whole(daemon, 500)


def test_a_seal_that_finds_no_room_is_written_when_there_is(start: Start) -> None:
    """Room for the checkpoint and its companion, and not a block more."""
    settings = "[disk]\nreserve = 0.0\nhold_below = 0.0\n"
    n_params = 40_000
    daemon, volume = start(
        scripted(steps=400, rate=100, every=200, n_params=n_params), settings=settings
    )
    daemon.until_step(120)
    volume.fill(-(-(8 + 12 * n_params) // BLOCK) * BLOCK + BLOCK)
    daemon.until(lambda: trouble(daemon), "trouble")
    assert daemon.run.seals() == {}
    volume.free()
    assert daemon.wait(30) == 0
    check_whole(daemon, 400)
    assert sorted(daemon.run.seals()) == [200, 400]


def test_a_pivot_goes_on_when_there_is_room(start: Start, *, thorough: bool) -> None:
    if not thorough:
        pytest.skip("another moment; run with --thorough")
    daemon, volume = start(scripted(steps=500, rate=100, every=200))
    daemon.until_step(20)
    asked = daemon.cli("pivot", "{run}", "--cap", "a=0.7", "--no-wait")
    assert asked.returncode == 0, asked.stderr
    volume.fill()
    until_held(daemon)
    volume.free()
    assert daemon.wait(40) == 0
    run = daemon.run
    assert [line["step"] for line in run.ledger()] == list(range(1, 501))
    assert {line["policy"] for line in run.ledger()[200:]} == {2}
    assert daemon.cli("audit", "{run}").returncode == 0


def test_a_stop_on_a_full_disk_uses_the_ballast(start: Start) -> None:
    daemon, volume = start(scripted(rate=100, every=1000))
    daemon.until_step(50)
    assert (daemon.run.path / "reserve").stat().st_blocks > 0
    volume.fill(100 * 1024)  # nothing was refused yet
    until_held(daemon)
    assert not (daemon.run.path / "reserve").exists()
    stopped = daemon.cli("stop", "{run}")
    assert (stopped.returncode, stopped.stderr) == (0, "")
    assert daemon.wait() == 0
    last = daemon.run.last_step()
    volume.free()
    check_whole(daemon, last)


@pytest.mark.timeout(180)
def test_a_stop_without_any_room_ends_and_the_next_start_finishes_it(
    start: Start, *, thorough: bool
) -> None:
    if not thorough:
        pytest.skip("takes as long as a stop is patient; run with --thorough")
    settings = "[disk]\nreserve = 0.0\nhold_below = 0.0\n[stop]\ngrace = 1.0\n"
    daemon, volume = start(scripted(rate=100, every=1000), settings=settings)
    daemon.until_step(50)
    volume.fill()
    daemon.until(lambda: trouble(daemon), "trouble")
    volume.fill()
    stopped = daemon.cli("stop", "{run}", seconds=100)
    assert stopped.returncode != 0, stopped.stdout  # nothing could be sealed
    assert stopped.stdout + stopped.stderr
    assert daemon.wait(50) in (0, 1)
    assert daemon.run.pids() == []
    recorded = daemon.run.last_step()
    volume.free()
    daemon.start()
    process = daemon.process
    assert process is not None
    daemon.until(
        lambda: daemon.run.trainer_pid() or process.poll() is not None, "a trainer, or an end"
    )
    if process.poll() is not None:  # the stop was to be finished first
        daemon.start()
    daemon.until_step(recorded + 50)
    assert daemon.stop() == 0
    assert sorted(daemon.run.canonical()) == list(range(1, daemon.run.last_step() + 1))
    assert daemon.cli("audit", "{run}").returncode == 0


@pytest.mark.parametrize("room", ["later", pytest.param("meanwhile", marks=pytest.mark.thorough)])
def test_a_supervisor_killed_on_a_full_disk_is_followed_by_one_that_waits_for_room(
    start: Start, room: str
) -> None:
    """The trainer is adopted, not left alone with an order to wait that nobody takes back."""
    settings = "[disk]\nreserve = 0.0\nhold_below = 0.0\n"
    daemon, volume = start(scripted(steps=300, rate=100, every=100), settings=settings)
    daemon.until_step(50)
    volume.fill()
    daemon.until(lambda: trouble(daemon), "trouble")
    trainer = daemon.run.trainer_pid()
    daemon.kill()
    if room == "meanwhile":
        volume.free()
    daemon.start()
    if room == "later":
        daemon.until(lambda: trouble(daemon), "trouble, as the next life sees it")
        assert daemon.run.trainer_pid() == trainer
        volume.free()
    assert daemon.wait(30) == 0
    check_whole(daemon, 300)


def test_a_save_and_a_pivot_asked_for_while_training_is_held_are_carried_out(start: Start) -> None:
    """Too little room to train by the operator's own limit, and enough for what was asked."""
    settings = "[disk]\nreserve = 0.0\nhold_below = 0.25\n"
    daemon, volume = start(scripted(rate=150, every=10_000), settings=settings, every=10_000)
    daemon.until_step(120)
    volume.fill(200 << 10)
    until_held(daemon)
    assert daemon.cli("save", "{run}").returncode == 0
    assert max(daemon.run.seals()) == daemon.run.reports(1, "step")[-1]["step"]
    pivot = daemon.cli("pivot", "{run}", "--reset", "--when", "now", "--no-wait")
    assert pivot.returncode == 0, pivot.stderr
    daemon.until(lambda: len(daemon.run.attempts()) == 2, "the next attempt")
    assert trouble(daemon)
    volume.free()
    daemon.until(lambda: daemon.run.events("pivot-done"), "the first step of the new policy")
    assert daemon.stop() == 0
    assert daemon.cli("audit", "{run}").returncode == 0


def test_a_read_only_run_directory_is_waited_for(start: Start) -> None:
    daemon, _ = start(scripted(steps=400, rate=100, every=100))
    daemon.until_seal(100)
    with read_only(daemon.run.path):
        text = until_held(daemon)
        assert "read-only" in text.lower()
        before = sorted(daemon.run.seals())
    assert daemon.wait(30) == 0
    check_whole(daemon, 400)
    assert len(before) < len(daemon.run.seals())


@pytest.mark.torch
@pytest.mark.timeout(120)
def test_the_real_trainer_looks_for_room_before_it_saves(start: Start, *, thorough: bool) -> None:
    if not thorough:
        pytest.skip("starts the real trainer; run with --thorough")
    command = ["env", f"PYTHONPATH={ROOT}", sys.executable, "-m", "trainer"]
    settings = DISK + TINY
    daemon, volume = start(command, every=500, settings=settings, size=20 * MIB)
    daemon.until_seal(500, 60)
    before = (daemon.run.path / "checkpoints/step_000500.bin").read_bytes()
    volume.fill(MIB)
    text = daemon.until(lambda: trouble(daemon), "trouble", 40)
    assert "a checkpoint needs" in text
    assert list((daemon.run.path / "checkpoints").glob(".*")) == []
    assert (daemon.run.path / "checkpoints/step_000500.bin").read_bytes() == before
    volume.free()
    assert daemon.wait(60) == 0
    check_whole(daemon, 3000)


def test_the_ballast_is_no_hindrance_on_a_small_disk(tmp_path: Path) -> None:
    with tmpfs(tmp_path / "volume", MIB) as volume:
        run = volume.path / "run"
        daemon = Daemon(make_run(run, scripted(steps=50, rate=100, every=50), settings=DISK))
        try:
            assert daemon.start().wait() == 0
        finally:
            daemon.finish()
        assert (run / "reserve").stat().st_size <= MIB // 50
        check_whole(daemon, 50)
