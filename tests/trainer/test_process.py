"""The real program: signals to its process, kills, its end without a supervisor, its exit codes."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.runs import ROOT
from tests.support.waiting import wait_until
from tests.trainer.test_resume import facts
from tests.trainer.tiny import MODEL, Process, live, make_run
from trainer.contract.wire import Checkpoint, Doing, Finished, Ready, Step

Start = Callable[..., Process]
LONG = {"train": {"steps": 1_000_000}, "checkpoint": {"every_steps": 1000}}


@pytest.fixture
def long_run(tmp_path: Path) -> Path:
    """A run that only a signal ends."""
    return make_run(tmp_path / "run", **LONG)


@pytest.fixture(autouse=True)
def plenty_of_phases(request: pytest.FixtureRequest) -> None:
    """The trainer repeats the last phase only after half a minute; give it one that lasts."""
    if "long_run" in request.fixturenames:
        path = request.getfixturevalue("long_run") / "orders.json"
        orders = json.loads(path.read_text())
        orders["phases"][0]["steps"] = 1_000_000
        path.write_text(json.dumps(orders))


def test_sigterm_and_sigusr1_reach_the_process_as_promised(long_run: Path, start: Start) -> None:
    process = start(long_run)
    assert process.wait_for(Ready).pid == process.child.pid
    step = process.wait_for(Step, 5).step
    process.child.send_signal(signal.SIGUSR1)
    saved = process.wait_for(Checkpoint)
    assert saved.reason == "signal"
    assert saved.step >= step
    process.wait_for(Step, saved.step + 1)
    process.child.send_signal(signal.SIGTERM)
    process.child.send_signal(signal.SIGTERM)
    assert process.wait() == 0
    last = process.of(Step)[-1].step
    assert process.of(Checkpoint)[-1].step == last
    assert process.of(Finished) == [process.reports()[-1]]
    assert process.reports()[-1].step == last
    names = {path.name for path in (long_run / "checkpoints").iterdir()}
    assert names == {
        f"step_{number:06d}.{kind}" for number in (saved.step, last) for kind in ("bin", "json")
    }


def test_sigusr1_before_ready_neither_kills_nor_saves(long_run: Path, start: Start) -> None:
    process = start(long_run)
    first = wait_until(lambda: process.of(Doing), "the first report", describe=process.describe)
    assert (first[0].what, first[0].seq) == ("import", 1)
    process.child.send_signal(signal.SIGUSR1)
    process.wait_for(Step, 3)
    assert process.of(Checkpoint) == []
    process.child.send_signal(signal.SIGTERM)
    assert process.wait() == 0


def test_a_kill_costs_the_steps_since_the_checkpoint_and_they_come_again_equal(
    long_run: Path, start: Start
) -> None:
    first = start(long_run)
    first.wait_for(Step, 3)
    first.child.send_signal(signal.SIGUSR1)
    saved = first.wait_for(Checkpoint)
    first.wait_for(Step, saved.step + 20)
    first.child.kill()
    first.wait()
    lost = [report for report in first.reports() if getattr(report, "step", 0) > saved.step]
    second = start(long_run, STEPKEEPER_RESUME=str(long_run / "checkpoints" / saved.name))
    second.wait_for(Step, first.of(Step)[-1].step)
    assert second.of(Ready)[0].step == saved.step
    again = facts(second.reports())[: len(facts(lost))]
    assert again == facts(lost)
    assert len(again) >= 20


def test_the_process_and_this_one_train_alike(tmp_path: Path, start: Start) -> None:
    run = make_run(tmp_path / "run")
    shutil.copytree(run, tmp_path / "here")
    process = start(run)
    assert process.wait() == 0
    assert facts(process.reports()) == facts(live(tmp_path / "here").reports)


def test_training_loads_neither_the_compiler_nor_what_torchs_optimizers_need(
    run: Path,
) -> None:
    code = (
        "import sys; sys.argv = ['trainer']; from trainer.__main__ import main; assert not main();"
        "print(*[m for m in sys.modules if m.split('.')[:2] in"
        " (['torch', '_dynamo'], ['torch', '_inductor'], ['sympy', 'core'])])"
    )
    given = {
        "STEPKEEPER_RUN": str(run),
        "STEPKEEPER_REPORTS": str(run / "reports.jsonl"),
        "STEPKEEPER_ORDERS": str(run / "orders.json"),
    }
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, **given},  # noqa: TID251 - the child inherits the rest
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout.split()) == (0, []), done.stderr
    assert (run / "checkpoints" / "step_000030.bin").exists()


@pytest.fixture
def kept(long_run: Path) -> Iterator[int]:
    """The descriptor of a run lock that a supervisor would hold."""
    descriptor = os.open(long_run / "run.lock", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    yield descriptor
    os.close(descriptor)


def test_an_orphan_saves_and_ends_but_not_while_it_is_kept(
    long_run: Path, start: Start, kept: int
) -> None:
    process = start(long_run, STEPKEEPER_ORPHAN_AFTER="0.6")
    ready = process.wait_for(Ready)
    wait_until(
        lambda: process.of(Step) and process.of(Step)[-1].at - ready.at > 1.5,
        "training for longer than an orphan may",
        describe=process.describe,
    )
    assert process.of(Finished) == []
    fcntl.flock(kept, fcntl.LOCK_UN)
    free_at = process.of(Step)[-1].at
    assert process.wait() == 0
    assert process.of(Checkpoint)[-1].step == process.of(Step)[-1].step
    assert process.reports()[-1].at - free_at > 0.4
    assert "run.lock has been free for too long" in process.output_path.read_text()


def test_a_supervisor_can_take_the_lock_while_the_orphans_watch_looks(
    long_run: Path, start: Start, kept: int
) -> None:
    process = start(long_run, STEPKEEPER_ORPHAN_AFTER="60")
    process.wait_for(Step, 3)
    for _ in range(50):
        fcntl.flock(kept, fcntl.LOCK_UN)
        step = process.of(Step)[-1].step
        process.wait_for(Step, step + 3)
        wait_until(lambda: _taken(kept), "the lock", seconds=2.0)
    process.child.send_signal(signal.SIGTERM)
    assert process.wait() == 0


def _taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def refused(start: Start, run: Path, **given: str) -> tuple[int, str]:
    """Exit status and output of a start that fails."""
    process = start(run, **given)
    status = process.wait()
    return status, process.output_path.read_text()


def test_every_refusal_is_one_line_and_an_exit_code(tmp_path: Path, start: Start) -> None:
    run = make_run(tmp_path / "run")
    other = live(make_run(tmp_path / "other", model={**MODEL, "width": 32}), stop_after=1)
    path = str(other.newest())
    status, said = refused(start, run, STEPKEEPER_RESUME=path)
    assert status == 11
    assert said.startswith(f"cannot use {path}: parameters of this model: expected (")
    assert said.count("\n") == 1

    status, said = refused(start, run, WORLD_SIZE="8")
    assert (status, said) == (
        2,
        "cannot train with WORLD_SIZE=8: this trainer is one process; unset WORLD_SIZE\n",
    )

    (run / "run.toml").write_text('[train]\nstep = 3\nlr = "fast"\n')
    status, said = refused(start, run)
    assert status == 2
    assert said == (
        f"cannot use {run}/run.toml: train.lr: Input should be a valid number; "
        "train.step: Extra inputs are not permitted\n"
    )
