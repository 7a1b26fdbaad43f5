"""The real supervisor over scripted trainers: a run from its start to its end, whoever dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.support.daemon import Daemon
from tests.support.runs import Run, scripted

pytestmark = pytest.mark.system

Supervise = Callable[..., Daemon]


def one_line_per_step(run: Run, last: int) -> None:
    """A run that is bit-exact holds every step once, however often it was interrupted."""
    assert [line["step"] for line in run.ledger()] == list(range(1, last + 1))


def test_a_run_is_kept_from_its_first_step_to_its_last(supervise: Supervise) -> None:
    daemon = supervise(scripted(steps=250, every=100), every=100).start()
    assert daemon.wait() == 0
    one_line_per_step(daemon.run, 250)
    assert sorted(daemon.run.seals()) == [100, 200, 250]
    assert len(daemon.run.attempts()) == 1
    assert daemon.run.pids() == []


def test_a_killed_trainer_is_resumed_and_its_replay_proved(supervise: Supervise) -> None:
    trainer = scripted(steps=300, every=100, rate=400, kill_at=170, attempts=1)
    daemon = supervise(trainer, every=100).start()
    assert daemon.wait() == 0
    one_line_per_step(daemon.run, 300)
    assert [attempt["attempt"] for attempt in daemon.run.attempts()] == [1, 2]
    assert {line["attempt"] for line in daemon.run.ledger() if line["step"] > 170} == {2}
    replay = daemon.run.events("replay")[0]
    assert (replay["first"], replay["last"], replay["proved"]) == (101, 170, 70)


def test_a_replay_that_differs_is_written_out_and_named(supervise: Supervise) -> None:
    trainer = scripted(steps=300, every=100, rate=100, differ_from=150, attempts=2)
    daemon = supervise(trainer, every=100).start()
    daemon.until_step(155)
    os.kill(daemon.until_trainer(), signal.SIGKILL)
    assert daemon.wait() == 0
    first = [line["step"] for line in daemon.run.ledger() if line["attempt"] == 1]
    second = [line["step"] for line in daemon.run.ledger() if line["attempt"] == 2]
    assert first == list(range(1, max(first) + 1))
    assert second == list(range(150, 301))
    assert list(daemon.run.canonical()) == list(range(1, 301))
    assert daemon.run.events("replay-differed")[0]["step"] == 150
    assert "150" in daemon.output()


def test_a_trainer_that_cannot_begin_is_quoted_with_its_last_words(supervise: Supervise) -> None:
    script = "import sys; print('no such thing\\x1b[2J'); sys.exit('cannot load the model: gone')"
    daemon = supervise([sys.executable, "-c", script], every=100).start()
    daemon.until(lambda: "printed last:" in daemon.output(), "the last words")
    assert "attempt 1 printed last: cannot load the model: gone" in daemon.output()
    assert daemon.stop() == 0


@pytest.mark.parametrize("kind", ["python", "c"])
def test_a_killed_supervisor_costs_no_step(supervise: Supervise, c_trainer: str, kind: str) -> None:
    python = scripted(every=100, rate=300, phase_wait=0.2)  # it goes on without new orders
    command = python if kind == "python" else [c_trainer, "9999", "300", "100", "64"]
    daemon = supervise(command, every=100).start()
    daemon.until_step(50)
    pid = daemon.until_trainer()
    daemon.kill()
    missed = max(line["step"] for line in daemon.run.reports(1, "step")) + 50
    daemon.until(
        lambda: daemon.run.reports(1, "step")[-1]["step"] > missed, "steps without a supervisor"
    )
    daemon.start()
    daemon.until_step(missed + 50)
    assert daemon.run.trainer_pid() == pid
    assert daemon.stop() == 0
    last = daemon.run.reports(1, "step")[-1]["step"]
    one_line_per_step(daemon.run, last)
    assert max(daemon.run.seals()) == last
    assert len(daemon.run.attempts()) == 1


def test_both_killed_at_once_lose_nothing_that_was_reported(supervise: Supervise) -> None:
    daemon = supervise(scripted(every=100, rate=400), every=100).start()
    daemon.until_seal(100)
    os.kill(daemon.until_trainer(), signal.SIGKILL)
    daemon.kill()
    reported = daemon.run.reports(1, "step")[-1]["step"]
    daemon.start()
    daemon.until_step(reported + 50)
    assert daemon.stop() == 0
    one_line_per_step(daemon.run, daemon.run.last_step())


def test_a_stop_ends_with_the_last_step_sealed(supervise: Supervise) -> None:
    daemon = supervise(scripted(every=1000, rate=300), every=1000).start()
    daemon.until_step(40)
    assert daemon.stop() == 0
    last = daemon.run.last_step()
    assert list(daemon.run.seals()) == [last]
    assert daemon.run.checkpoints() == [last]
    assert daemon.run.reports(1, "finished")[0]["reason"] == "stop"


def test_a_stop_that_a_dead_supervisor_began_is_finished_though_the_run_is_held(
    supervise: Supervise,
) -> None:
    daemon = supervise(scripted(every=10_000, rate=300, slow_save=1.0), every=10_000).start()
    daemon.until_step(20)
    stop = subprocess.Popen([*daemon.program, "stop", str(daemon.run.path), "--hold"])
    try:
        daemon.until(lambda: (daemon.run.read("intent.json") or {})["hold"], "the intent")
        daemon.kill()
    finally:
        stop.kill()
        stop.wait(10)
    assert daemon.run.trainer_pid()
    assert daemon.start().wait() == 0
    assert daemon.run.pids() == []
    assert max(daemon.run.seals()) == daemon.run.last_step()
    assert daemon.start().wait() == 0
    assert "held by stop --hold" in daemon.output()


def test_a_trainer_that_somebody_stopped_by_a_signal_is_woken_for_the_stop_and_saves(
    supervise: Supervise,
) -> None:
    daemon = supervise(scripted(every=10_000, rate=300), every=10_000).start()
    daemon.until_step(20)
    os.kill(daemon.until_trainer(), signal.SIGSTOP)
    assert daemon.stop() == 0
    assert daemon.run.attempts()[0]["ended"]["cause"] == "stopped"
    assert max(daemon.run.seals()) == daemon.run.last_step()
