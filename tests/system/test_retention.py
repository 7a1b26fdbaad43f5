"""Retention with real processes: what is deleted, what stays, and that dying in between is safe."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from supervisor.control import request
from tests.support.daemon import Daemon
from tests.support.runs import ROOT, Run, copy_of, scripted
from tests.support.waiting import wait_until

pytestmark = pytest.mark.system

WORDS = "from:checkpoints/step_000150.seal.json,events.jsonl,/checkpoints"
Supervise = Callable[..., Daemon]


def settings(run: Run, **keys: int) -> None:
    """Put these keys into ``[checkpoint]``."""
    path = run.path / "run.toml"
    lines = "\n".join(f"{key} = {value}" for key, value in keys.items())
    path.write_text(path.read_text().replace("[checkpoint]\n", f"[checkpoint]\n{lines}\n"))


def deleted(run: Run) -> list[int]:
    return [event["step"] for event in run.events("checkpoint-deleted")]


def is_whole(run: Run) -> None:
    """Every .bin that is gone has its line, seal and companion; the newest two are there."""
    seals = run.seals()
    there = run.checkpoints()
    assert set(seals) - set(there) <= set(deleted(run))
    assert set(sorted(seals)[-2:]) <= set(there)
    for step in seals:
        assert (run.path / f"checkpoints/step_{step:06d}.json").is_file()


def test_only_the_bins_of_the_newest_stay_after_each_seal(supervise: Supervise) -> None:
    daemon = supervise(scripted(steps=500, every=50, rate=1000), every=50)
    settings(daemon.run, keep_last=3, keep_every=200)
    assert daemon.start().wait() == 0
    is_whole(daemon.run)
    assert daemon.run.checkpoints() == [200, 400, 450, 500]
    first = daemon.run.events("checkpoint-deleted")[0]
    assert first["bytes"] == 8 + 12 * 64
    assert first["rule"] == "older than the last 3"
    assert daemon.cli("audit", "{run}").returncode == 0


def test_a_fallback_finds_an_older_seal_and_what_it_left_behind_goes(supervise: Supervise) -> None:
    """Row 8: the resume point of the attempt stays, however many newer ones came and went."""
    command = scripted(steps=500, every=50, rate=900, kill_at=270, attempts="1,2,3,4")
    daemon = supervise(command, every=50)
    settings(daemon.run, keep_last=2, keep_every=0)
    assert daemon.start().wait(40) == 0
    is_whole(daemon.run)
    assert daemon.run.events("checkpoint-rejected")
    assert daemon.run.checkpoints() == [450, 500]
    left = list((daemon.run.path / "checkpoints/superseded").rglob("*.bin"))
    assert left == []


def test_pins_hold_with_and_without_a_supervisor(supervise: Supervise) -> None:
    daemon = supervise(scripted(every=50, rate=200), every=50)
    settings(daemon.run, keep_last=2, keep_every=0)
    daemon.start().until_seal(50)
    done = daemon.cli("pin", "{run}", "50", "--note", "the first one")
    assert (done.returncode, done.stderr) == (0, "")
    daemon.until_seal(200)
    assert 50 in daemon.run.checkpoints()
    assert "51: it has no" in request(daemon.run.path, "pin", {"step": 51}, 5.0)["error"]
    daemon.until(lambda: 100 not in daemon.run.checkpoints(), "the deletion of 100")
    assert "was deleted" in request(daemon.run.path, "pin", {"step": 100}, 5.0)["error"]
    assert daemon.stop() == 0
    assert json.loads((daemon.run.path / "checkpoints/pins.json").read_text())["marks"] == {
        "50": "the first one"
    }
    newest = daemon.run.checkpoints()[-1]
    assert daemon.cli("pin", "{run}", str(newest)).returncode == 0
    done = daemon.cli("unpin", "{run}", "50")
    assert done.stdout == "unpinned step 50: it goes with the next seal: older than the last 2\n"
    done = daemon.cli("unpin", "{run}", str(newest), "--json")
    assert json.loads(done.stdout)["why"] == "one of the newest two"
    assert daemon.cli("unpin", "{run}", "50").stderr == "cannot unpin step 50: it is not pinned\n"
    facts = json.loads(daemon.cli("checkpoints", "{run}", "--dry-run", "--json").stdout)
    going = [row["step"] for row in facts["checkpoints"] if row["goes"]]
    seal = daemon.run.last_step()
    daemon.start().until_seal(seal + 1)
    daemon.until(lambda: set(going) <= set(deleted(daemon.run)), f"the deletion of {going}")
    assert daemon.stop() == 0
    is_whole(daemon.run)


def test_checkpoints_on_a_signal_do_not_fill_the_disk(supervise: Supervise) -> None:
    """Row 5: many preemptions, and a count of their own for checkpoints that were asked for."""
    daemon = supervise(scripted(every=100_000, rate=300), every=100_000)
    settings(daemon.run, keep_last=2, keep_every=0, keep_audit=3)
    for _ in range(3):
        daemon.start().until_trainer()
        for _ in range(2):
            assert daemon.cli("save", "{run}").returncode == 0
        assert daemon.stop() == 0
    is_whole(daemon.run)
    assert len(daemon.run.seals()) >= 9
    reasons = [daemon.run.seals()[step]["reason"] for step in daemon.run.checkpoints()]
    assert reasons.count("signal") == 3
    assert reasons.count("stop") == 2


def dying(run: Run, at: int) -> subprocess.Popen[bytes]:
    """Keep the run, killed at its call number ``at`` on what a deletion touches."""
    count = run.path.parent / f"{run.path.name}.count"
    command = [sys.executable, "-m", "tests.support.dying", str(at), str(count)]
    return subprocess.Popen(
        [*command, WORDS, "--", "run", str(run.path)],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def oldest_is_new(run: Run) -> bool:
    """Whether nothing older is left than the newest seals; savers may be ahead of us."""
    return run.checkpoints()[0] >= sorted(run.seals())[-3]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_deletion_survives_the_death_of_the_supervisor_before_any_call(
    supervise: Supervise, tmp_path: Path, *, thorough: bool
) -> None:
    base = supervise(scripted(every=50, rate=150), every=50)
    settings(base.run, keep_last=2, keep_every=0)
    base.start().until_seal(100)
    os.kill(base.until_trainer(), 9)
    base.kill()
    wait_until(lambda: not base.run.pids(), "the trainer's end")
    (base.run.path / "control.sock").unlink()  # which the killed one left, and nobody can copy
    for at in range(1, 60, 1 if thorough else 11):
        run = copy_of(base.run, tmp_path / f"killed-{at}")
        daemon = Daemon(run)
        try:
            process = dying(run, at)
            try:
                wait_until(
                    lambda run=run, process=process: (
                        process.poll() is not None or max(run.seals(), default=0) >= 250
                    ),
                    "death or two more seals",
                    describe=run.describe,
                )
            finally:
                process.kill()
                process.wait(10)
            survived = max(run.seals()) >= 250
            is_whole(run)
            last = max(run.seals())
            daemon.start().until_seal(last + 50)
            daemon.until(lambda run=run: oldest_is_new(run), "the deletions")
            assert daemon.stop(60.0) == 0
            is_whole(run)
        finally:
            daemon.finish()
        if survived:
            break
    assert survived
    assert at > 4
