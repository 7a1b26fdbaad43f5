"""The demo for real: what it shows is looked up here once more, with nothing of its own code."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from supervisor import environment
from tests.support.daemon import end_all
from tests.support.runs import ROOT, Run
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.system, pytest.mark.torch, pytest.mark.slow]

STEPS, CADENCE = 96, 8


class Demo:
    """``stepkeeper demo`` on ``path`` as a process, without a terminal."""

    def __init__(self, path: Path, *words: str) -> None:
        self.run = Run(path)
        self.log = path.with_name(f"{path.name}.log")
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "supervisor", "demo", str(path), *words],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=ROOT,
                env=environment.own(),
                start_new_session=True,
            )

    def wait(self, seconds: float) -> int:
        """The exit code."""
        wait_until(lambda: self.process.poll() is not None, "the demo's end", seconds, self.output)
        return self.process.returncode

    def output(self) -> str:
        """All that it printed."""
        return self.log.read_text(errors="replace")

    def supervisors(self) -> list[int]:
        """Living supervisors of the run, by their command lines."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    words = (entry / "cmdline").read_bytes().split(b"\0")
                except OSError:
                    continue
                if words[2:5] == [b"supervisor", b"run", bytes(self.run.path)]:
                    found.append(int(entry.name))
        return found

    def finish(self) -> None:
        """End the demo, its supervisor and its trainer."""
        self.process.kill()
        self.process.wait(10)
        for pid in self.supervisors():
            os.kill(pid, signal.SIGKILL)
        end_all(self.run)


@pytest.fixture(scope="module")
def toured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    """A demo whose tour is over."""
    demo = Demo(tmp_path_factory.mktemp("tour") / "demo", "--steps", str(STEPS))
    try:
        demo.wait(280)
        yield demo
    finally:
        demo.finish()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Demo]]:
    """Start a demo in ``tmp_path / "demo"``."""
    made: list[Demo] = []

    def make(*words: str) -> Demo:
        made.append(Demo(tmp_path / "demo", *words))
        return made[-1]

    yield make
    for demo in made:
        demo.finish()


@pytest.mark.timeout(300)
def test_the_tour_ends_well_and_every_claim_holds(toured: Demo) -> None:
    assert toured.process.returncode == 0, toured.output()
    assert "DOES NOT HOLD" not in toured.output()
    assert toured.output().count("\n   ok  ") >= 15


def test_the_tour_kills_the_trainer_in_mid_cadence_and_the_replay_is_equal(toured: Demo) -> None:
    first, second, third = toured.run.attempts()
    assert [a["ended"]["status"] for a in (first, second, third)][:1] == [-signal.SIGKILL]
    assert first["ended"]["last_step"] % CADENCE != 0
    old = {r["step"]: r for r in toured.run.reports(1, "step")}
    new = {r["step"]: r for r in toured.run.reports(2, "step")}
    again = sorted(old.keys() & new.keys())
    assert again == list(range(second["resume"]["step"] + 1, first["ended"]["last_step"] + 1))
    facts = ("loss", "arm", "lr", "data")
    assert all(old[s][fact] == new[s][fact] for s in again for fact in facts)
    [replay] = toured.run.events("replay")
    assert replay["facts"]["proved"] == len(again) > 0


def test_the_tour_kills_the_supervisor_and_the_trainer_is_adopted(toured: Demo) -> None:
    said = (toured.run.path / "supervisor.log").read_text()
    assert said.count("following attempt 2") == 1
    assert len({a["identity"]["pid"] for a in toured.run.attempts()}) == 3
    assert "supervisor killed (step" in toured.output()


def test_the_ledger_of_the_tour_holds_every_step_once(toured: Demo) -> None:
    steps = [line["step"] for line in toured.run.ledger()]
    assert steps == list(range(1, len(steps) + 1))
    assert len(steps) >= STEPS


def test_the_tour_pivots_at_the_boundary_and_empties_the_bandit(toured: Demo) -> None:
    lines = toured.run.ledger()
    first = next(line["step"] for line in lines if line["policy"] == 2)
    assert (first - 1) % CADENCE == 0
    [folder] = (toured.run.path / "archive").glob("pivot-0002-step-*")
    assert {p.name for p in folder.iterdir()} >= {"demo.samples.json", "demo.state.json"}
    third = toured.run.attempts()[2]
    assert third["resume"]["step"] == first - 1


def test_the_tour_stops_with_a_sealed_checkpoint_of_the_last_step(toured: Demo) -> None:
    assert max(toured.run.seals()) == toured.run.last_step() == toured.run.checkpoints()[-1]
    assert toured.run.pids() == []
    assert toured.supervisors() == []


def test_the_tour_shows_progress_a_plot_and_what_to_try_next(toured: Demo) -> None:
    output = toured.output()
    assert f"step {CADENCE}/{STEPS}  loss " in output
    assert "steps/s" in output
    assert "T trainer killed (step" in output
    assert "P pivot to policy 2 (step" in output


def test_every_command_that_the_tour_ends_with_works(toured: Demo) -> None:
    lines = toured.output().partition("try next:\n")[2].splitlines()
    tries = [re.split(r"  +", line.strip())[0].split() for line in lines if line.startswith("   ")]
    assert [words[1] for words in tries][:3] == ["run", "status", "tail"]
    for program, verb, *words in tries:
        assert (program, words[0]) == ("stepkeeper", str(toured.run.path))
        if verb != "run":  # it would go on to the last step
            command = [sys.executable, "-m", "supervisor", verb, *words]
            done = subprocess.run(
                command, capture_output=True, text=True, cwd=ROOT, check=False, timeout=50
            )
            assert done.returncode == 0, (command, done.stderr)


def test_a_directory_that_holds_a_run_is_refused_and_left_alone(toured: Demo) -> None:
    before = sorted((p, p.stat().st_mtime_ns) for p in toured.run.path.rglob("*"))
    again = subprocess.run(
        [sys.executable, "-m", "supervisor", "demo", toured.run.path],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
        timeout=30,
    )
    assert again.returncode == 2
    assert again.stderr.startswith(f"cannot make the demo in {toured.run.path}: it holds a run")
    assert len(again.stderr.splitlines()) == 1
    assert sorted((p, p.stat().st_mtime_ns) for p in toured.run.path.rglob("*")) == before


def test_a_directory_with_something_else_in_it_is_refused(
    start: Callable[..., Demo], tmp_path: Path
) -> None:
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo/precious").write_text("mine")
    demo = start()
    assert demo.wait(30) == 2
    assert "it is not empty" in demo.output()
    assert [path.name for path in (tmp_path / "demo").iterdir()] == ["precious"]


def test_too_few_steps_for_the_tour_are_refused_before_anything_is_made(
    start: Callable[..., Demo],
) -> None:
    demo = start("--steps", "20")
    assert demo.wait(30) == 2
    assert demo.output().startswith("cannot show the tour in 20 steps: ")
    assert not demo.run.path.exists()


@pytest.mark.timeout(120)
def test_without_the_tour_it_trains_to_the_last_step(start: Callable[..., Demo]) -> None:
    demo = start("--steps", "12", "--no-tour")
    assert demo.wait(100) == 0, demo.output()
    assert demo.run.last_step() == max(demo.run.seals()) == 12
    [attempt] = demo.run.attempts()
    assert attempt["ended"]["cause"] == "finished"


@pytest.mark.timeout(120)
def test_on_a_terminal_it_draws_a_bar_in_place(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    command = ["demo", tmp_path / "demo", "--steps", "8", "--no-tour"]
    child = subprocess.Popen(
        [sys.executable, "-m", "supervisor", *command],
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
        cwd=ROOT,
        env={**environment.own(), "TERM": "xterm", "COLUMNS": "100"},
        start_new_session=True,
    )
    os.close(theirs)
    drawn = b""
    try:
        with contextlib.suppress(OSError):  # the last reader of a terminal gets an error
            while piece := os.read(ours, 1 << 16):
                drawn += piece
        assert child.wait(20) == 0, drawn
    finally:
        child.kill()
        child.wait(10)
        os.close(ours)
        end_all(Run(tmp_path / "demo"))
    assert re.search(rb"step [1-7]/8 .* steps/s", drawn)
    assert b"\x1b[1A\x1b[2K" in drawn  # one line up, and clear it
    assert b"The loss over the whole run" in drawn


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.thorough)]
)
def test_an_interrupted_demo_stops_the_run_with_a_checkpoint(
    start: Callable[..., Demo], number: signal.Signals
) -> None:
    demo = start("--steps", "3000", "--no-tour")
    wait_until(lambda: demo.run.last_step() >= 3, "the first steps", 60, demo.output)
    demo.process.send_signal(number)
    assert demo.wait(50) == 130, demo.output()
    assert max(demo.run.seals()) == demo.run.last_step()
    assert f"stopped, sealed at step {demo.run.last_step()}" in demo.output()
    assert demo.run.pids() == []
    assert demo.supervisors() == []


@pytest.mark.timeout(120)
def test_a_claim_that_does_not_hold_is_named_and_ends_in_1(start: Callable[..., Demo]) -> None:
    """The supervisor is killed by someone else than the demo."""
    demo = start("--steps", "3000", "--no-tour")
    wait_until(lambda: demo.run.last_step() >= 3, "the first steps", 60, demo.output)
    [supervisor] = demo.supervisors()
    os.kill(supervisor, signal.SIGKILL)
    assert demo.wait(60) == 1, demo.output()
    assert "DOES NOT HOLD  the supervisor ended the run, exit code -9" in demo.output()
    assert "cannot stand by the demo: the supervisor ended the run" in demo.output()
    assert demo.run.pids() == []


@pytest.mark.timeout(120)
def test_the_supervisor_rests_while_the_trainer_reads_its_sources(
    start: Callable[..., Demo],
) -> None:
    """Documents are opened at every step, and the folders that they lie in are watched."""
    demo = start("--steps", "3000", "--no-tour")
    wait_until(lambda: demo.run.last_step() >= 5, "the first steps", 60, demo.output)
    pids = demo.supervisors()[0], demo.run.trainer_pid()
    before = [_ticks(pid) for pid in pids]
    wait_until(lambda: demo.run.last_step() >= 25, "more steps", 60, demo.output)
    supervisor, trainer = (_ticks(pid) - was for pid, was in zip(pids, before, strict=True))
    assert supervisor < 0.2 * trainer


def _ticks(pid: int) -> int:
    """CPU time that a process has used, in ticks of the clock."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])
