"""Trainers that stand still under the real supervisor: told from slow ones, shown, and ended."""

from __future__ import annotations

import json
import os
import signal
import stat
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.daemon import Daemon
from tests.support.runs import Record, Run, scripted

pytestmark = pytest.mark.system

Supervise = Callable[..., Daemon]
BUDGET = 1.0


def patience(grace: float = 0.5, **seconds: float) -> str:
    """Settings under which a step may take a second, other work so many seconds."""
    lines = ["[hang]", f"least = {BUDGET}", *(f"{name} = {s}" for name, s in seconds.items())]
    return "\n".join([*lines, "[stop]", f"grace = {grace}", ""])


def verdict(daemon: Daemon) -> Record:
    """The first verdict's facts, waited for."""
    return daemon.until(lambda: daemon.run.events("hang"), "a verdict")[0]


def causes(run: Run) -> list[str | None]:
    """How each attempt ended."""
    return [attempt["ended"] and attempt["ended"]["cause"] for attempt in run.attempts()]


def one_line_per_step(run: Run, last: int) -> None:
    """Nothing is lost and nothing is there twice."""
    assert [line["step"] for line in run.ledger()] == list(range(1, last + 1))


def output_log(run: Run) -> str:
    """What the first attempt printed."""
    return (run.path / "attempts/000001/output.log").read_text()


def test_a_step_that_never_ends_is_shown_and_ended_within_twice_its_budget(
    supervise: Supervise,
) -> None:
    trainer = scripted(rate=100, every=50, steps=150, hang_at=120, attempts=1, show_stacks=True)
    daemon = supervise([*trainer, "--ignore-term"], every=50, settings=patience()).start()
    facts = verdict(daemon)
    late = time.perf_counter() - daemon.run.reports(1)[-1]["at"]
    assert BUDGET <= facts["quiet"] <= late <= 2 * BUDGET
    assert (facts["doing"], facts["budget"], facts["step"]) == ("step", BUDGET, 120)
    assert daemon.wait() == 0
    one_line_per_step(daemon.run, 150)
    assert causes(daemon.run) == ["hung", "finished"]
    assert "in stand_still" in output_log(daemon.run)
    told = daemon.output()
    assert "ALARM: attempt 1 is hung: no report for" in told
    assert f"its budget is {BUDGET} s (the slowest two of" in told
    assert "its stacks stand in attempts/000001/output.log" in told
    assert "no report since the stop: killing the trainer" in told


def test_one_that_comes_back_saves_and_ends_and_nothing_is_lost(supervise: Supervise) -> None:
    trainer = scripted(rate=100, every=1000, steps=150, hang_at=120, attempts=1, wakes=True)
    daemon = supervise(trainer, every=1000, settings=patience(grace=20)).start()
    assert daemon.wait() == 0
    assert causes(daemon.run) == ["hung", "finished"]
    assert daemon.run.attempts()[1]["resume"]["step"] == 120
    assert daemon.run.events("replay") == []
    one_line_per_step(daemon.run, 150)


def test_a_save_in_which_no_byte_moves_is_a_hang(supervise: Supervise) -> None:
    trainer = scripted(rate=200, every=50, steps=150, hang_in_save=100, attempts=1)
    daemon = supervise([*trainer, "--ignore-term"], every=50, settings=patience(save=1.0)).start()
    facts = verdict(daemon)
    assert (facts["doing"], facts["budget"], facts["step"]) == ("save", 1.0, 100)
    assert daemon.wait() == 0
    one_line_per_step(daemon.run, 150)
    assert daemon.run.attempts()[1]["resume"]["step"] == 50
    assert list((daemon.run.path / "checkpoints").glob(".*.tmp")) == []


@pytest.mark.parametrize("form", ["bin", "sharded"])
def test_a_long_save_whose_bytes_move_is_none_neither_at_a_stop_nor_in_training(
    supervise: Supervise, form: str
) -> None:
    trainer = scripted(rate=100, every=150, creeping_save=3.0, format=form)
    daemon = supervise(trainer, every=150, settings=patience(save=1.5, grace=1.5)).start()
    daemon.until_step(5)
    assert daemon.stop() == 0
    assert max(daemon.run.seals()) == daemon.run.last_step() < 150
    daemon.start().until_seal(150)
    assert causes(daemon.run) == ["stopped", None]
    assert daemon.run.events("hang") == []


def test_one_that_hangs_before_it_is_ready_is_killed_and_started_again(
    supervise: Supervise, tmp_path: Path
) -> None:
    _, env = py_spy(tmp_path, "echo not permitted >&2; exit 1")
    trainer = scripted(rate=200, every=50, steps=100, hang_loading=True, attempts=1)
    daemon = supervise(trainer, every=50, settings=patience(load=1.0)).start(env=env)
    assert (verdict(daemon)["doing"], verdict(daemon)["budget"]) == ("load", 1.0)
    assert daemon.wait() == 0
    assert causes(daemon.run) == ["hung", "finished"]
    assert daemon.run.attempts()[0]["ended"]["status"] == -signal.SIGKILL
    told = daemon.output()
    assert "cannot record the trainer's stacks with py-spy:" in told
    assert "not permitted" in told
    assert "it shows no stacks; killing it" in told
    one_line_per_step(daemon.run, 100)


def test_one_that_has_finished_and_does_not_exit_is_ended(supervise: Supervise) -> None:
    trainer = scripted(rate=200, every=50, steps=100, hang_ending=True)
    daemon = supervise(trainer, every=50, settings=patience(exit=1.0)).start()
    assert daemon.wait() == 0
    assert causes(daemon.run) == ["finished"]
    assert verdict(daemon)["doing"] == "exit"
    assert max(daemon.run.seals()) == 100


def test_a_stopped_trainer_is_a_hang_and_is_woken_to_save(supervise: Supervise) -> None:
    trainer = scripted(rate=100, every=1000, steps=300)
    daemon = supervise(trainer, every=1000, settings=patience(grace=20)).start()
    daemon.until_step(50)
    os.kill(daemon.until_trainer(), signal.SIGSTOP)
    assert verdict(daemon)["doing"] == "step"
    assert daemon.wait() == 0
    assert causes(daemon.run) == ["hung", "finished"]
    assert daemon.run.events("replay") == []
    one_line_per_step(daemon.run, 300)


def stand(seconds: float) -> None:
    """Let time pass while somebody is stopped: there is no condition to wait for."""
    until = time.perf_counter() + seconds
    signal.sigtimedwait([], max(0.0, until - time.perf_counter()))


def test_a_stopped_supervisor_gives_no_verdict_when_it_goes_on(
    supervise: Supervise, *, thorough: bool
) -> None:
    daemon = supervise(scripted(rate=100, every=100), every=100, settings=patience()).start()
    daemon.until_step(50)
    pid = daemon.until_trainer()
    for _ in range(20 if thorough else 1):
        daemon.signal(signal.SIGSTOP)
        stand(BUDGET * 1.5)
        daemon.signal(signal.SIGCONT)
        daemon.until_step(daemon.run.reports(1, "step")[-1]["step"] + 10)
    assert daemon.run.events("hang") == []
    assert daemon.until_trainer() == pid
    assert daemon.stop() == 0


def test_a_machine_that_slept_gives_no_verdict_when_it_wakes(supervise: Supervise) -> None:
    """Both stand still, and the supervisor is the first to go on: the trainer said nothing."""
    settings = patience(factor=1.5, first_step=BUDGET)
    daemon = supervise(scripted(rate=5, every=100), every=100, settings=settings).start()
    daemon.until_step(3)
    pid = daemon.until_trainer()
    step = daemon.run.last_step()
    os.kill(pid, signal.SIGSTOP)
    daemon.signal(signal.SIGSTOP)
    stand(BUDGET * 1.5)
    daemon.signal(signal.SIGCONT)
    stand(0.3)
    os.kill(pid, signal.SIGCONT)
    daemon.until_step(step + 1)
    assert daemon.run.events("hang") == []
    assert daemon.until_trainer() == pid
    assert daemon.stop() == 0


def py_spy(folder: Path, text: str) -> tuple[Path, dict[str, str]]:
    """A program of that name, and the environment in which it is found first."""
    program = folder / "bin/py-spy"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    path = f"{program.parent}:{os.environ['PATH']}"  # noqa: TID251 - what an operator's shell has
    return program, {"PATH": path}


def test_where_py_spy_is_installed_its_word_is_kept(supervise: Supervise, tmp_path: Path) -> None:
    program, env = py_spy(tmp_path, "echo seen by $0 $*")
    trainer = scripted(rate=100, every=50, hang_at=60)
    daemon = supervise([*trainer, "--ignore-term"], every=50, settings=patience())
    daemon.start(env=env)
    pid = daemon.until_trainer()
    kept = daemon.run.path / "attempts/000001/stacks.txt"
    said = daemon.until(lambda: kept.exists() and kept.read_text().splitlines()[1:], "py-spy")
    assert said == [f"seen by {program} dump --nonblocking --pid {pid}"]
    daemon.until(lambda: causes(daemon.run)[0] == "hung", "its end")


def test_status_shows_silence_and_its_budget(supervise: Supervise) -> None:
    trainer = scripted(rate=100, every=50, hang_at=60)
    daemon = supervise(trainer, every=50, settings=patience().replace("1.0", "4")).start()
    daemon.until_step(60)

    def shown() -> str:
        lines = daemon.cli("status", "{run}").stdout.splitlines()
        return next((line for line in lines if line.startswith("quiet")), "")

    line = daemon.until(shown, "a line on silence")
    assert line.endswith("s without a report, doing step; hung after 4 s")
    assert float(line.split()[1]) > 2
    answer = daemon.cli("status", "{run}", "--json").stdout
    assert json.loads(answer)["silence"]["budget"] == 4.0
