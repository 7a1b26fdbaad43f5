"""Alone: a terminal instead of a supervisor, the same training, and no harm to a kept run."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.runs import ROOT
from tests.trainer.tiny import give_orders, live, make_run, phases
from trainer.alone import UniformOrders, choose_arms, take_run
from trainer.errors import RefusedError, SettingsError
from trainer.launch import Launch, read_launch


def alone(run: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "trainer", "--run", str(run), *words]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=40
    )


def test_alone_it_trains_prints_and_goes_on_from_its_newest_checkpoint(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", checkpoint={"every_steps": 10})
    (run / "orders.json").unlink()
    first = alone(run, "--steps", "20")
    assert first.returncode == 0, first.stderr
    lines = first.stdout.splitlines()
    assert lines[0].endswith("parameters, going on after step 0")
    assert lines[1].startswith("step 1  loss 5.")
    assert "step 10  wrote step_000010.bin (cadence)" in lines
    assert lines[-1] == "finished at step 20: steps"
    second = alone(run)
    assert second.stdout.splitlines()[0].endswith("going on after step 20")
    assert "settings.train.steps was 20 and is 30" in second.stderr
    assert (run / "checkpoints" / "step_000030.bin").exists()


def test_alone_and_supervised_are_the_same_training(tmp_path: Path) -> None:
    supervised = make_run(tmp_path / "supervised")
    weights = {"files": 0.5, "records": 0.5}
    give_orders(supervised, 2, phases(1000, 1, **weights))
    kept = live(supervised)
    run = make_run(tmp_path / "alone")
    done = alone(run, "--output", str(tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "step_000030.bin").read_bytes() == kept.newest().read_bytes()


@pytest.fixture
def how(run: Path) -> Launch:
    return read_launch(["--run", str(run)], {})


@pytest.fixture
def lock(run: Path) -> Iterator[int]:
    descriptor = os.open(run / "trainer.lock", os.O_RDWR | os.O_CREAT, 0o600)
    yield descriptor
    os.close(descriptor)


def test_a_run_that_has_a_ledger_is_refused_unless_the_output_goes_elsewhere(
    run: Path, how: Launch
) -> None:
    (run / "demo.loss.json").write_text("{}\n")
    with pytest.raises(RefusedError, match=r"its ledger demo\.loss\.json would miss these steps"):
        take_run(how)
    descriptor = take_run(how._replace(output=run / "elsewhere"))
    os.close(descriptor)


def test_a_run_that_somebody_trains_is_refused_with_his_pid(how: Launch, lock: int) -> None:
    fcntl.flock(lock, fcntl.LOCK_EX)
    message = rf"cannot train in .*: (process {os.getpid()}|another process) holds trainer\.lock"
    with pytest.raises(RefusedError, match=message):
        take_run(how)
    fcntl.flock(lock, fcntl.LOCK_UN)
    os.close(take_run(how))


def test_arms_are_those_of_policy_and_sources_alike() -> None:
    assert choose_arms(("a", "b"), None) == ("a", "b")
    assert choose_arms(("a", "b"), ("b", "c")) == ("b",)
    with pytest.raises(SettingsError, match=r"policy\.toml names none of the sources a, b"):
        choose_arms(("a", "b"), ("c",))
    phase = UniformOrders(("a", "b")).now.phases[0]
    assert dict(phase.weights) == {"a": 0.5, "b": 0.5}


def test_a_torch_that_is_too_old_is_refused_at_the_start_in_one_line(run: Path) -> None:
    code = (
        "import runpy, sys, torch; torch.__version__ = '2.5.1'; "
        f"sys.argv = ['trainer', '--run', {str(run)!r}]; "
        "runpy.run_module('trainer', run_name='__main__')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == SettingsError.exit_code
    [line] = done.stderr.splitlines()
    assert line.startswith("cannot load checkpoints with torch 2.5.1")
