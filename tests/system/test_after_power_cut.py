"""What a power cut or a damaged disk leaves behind is no reason to stay down."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable

import pytest

from supervisor.config import load
from supervisor.daemon.recovery import recover
from tests.support.audited import faults
from tests.support.daemon import Daemon
from tests.support.runs import scripted

pytestmark = pytest.mark.system

Supervise = Callable[..., Daemon]


def all_dead(daemon: Daemon, step: int) -> None:
    """Have ``step`` sealed, then end supervisor and trainer at once."""
    daemon.until_seal(step)
    pid = daemon.until_trainer()
    daemon.kill()
    os.kill(pid, signal.SIGKILL)
    daemon.until(lambda: not daemon.run.pids(), "the trainer's end")


def goes_on_to(daemon: Daemon, step: int) -> None:
    """The next life begins another attempt and brings the run to ``step`` with it."""
    records = (daemon.run.path / "attempts").glob
    before = len(list(records("*/attempt.json")))
    daemon.start().until(
        lambda: len(list(records("*/attempt.json"))) > before, "another attempt's record"
    )
    daemon.until_seal(step)
    assert daemon.stop() == 0
    assert list(daemon.run.canonical()) == list(range(1, daemon.run.last_step() + 1))


@pytest.mark.parametrize(
    ("kept", "zeros", "how"),
    [
        pytest.param(0, 0, "empty", marks=pytest.mark.thorough),
        (0, 700, "empty"),
        pytest.param(300, 0, "torn", marks=pytest.mark.thorough),
        (9, 90, "torn"),
    ],
)
def test_an_attempt_whose_record_the_power_cut_emptied_or_tore_is_done_again(
    supervise: Supervise, kept: int, zeros: int, how: str
) -> None:
    daemon = supervise(scripted(every=50, rate=120), every=50).start()
    all_dead(daemon, 50)
    record = daemon.run.path / "attempts/000001/attempt.json"
    record.write_bytes(record.read_bytes()[:kept] + bytes(zeros))
    sealed = max(daemon.run.seals())
    goes_on_to(daemon, 250)
    first, second = daemon.run.attempts()[:2]
    assert first["ended"]["cause"] == "ended, cause unknown"
    assert second["resume"]["step"] == sealed
    assert f"the record of attempt 1 is {how}" in daemon.output()
    assert faults(daemon.run) == []


def test_an_older_record_that_the_power_cut_tore_keeps_nobody_down(supervise: Supervise) -> None:
    trainer = scripted(every=50, rate=300, kill_at=70, attempts="1")
    daemon = supervise(trainer, every=50).start()
    daemon.until(lambda: len(daemon.run.attempts()) > 1, "a second attempt")
    all_dead(daemon, 100)
    record = daemon.run.path / "attempts/000001/attempt.json"
    record.write_bytes(record.read_bytes()[:300])
    (record.parent / ".attempt.json.0123456789ab.tmp").write_bytes(b"half")
    goes_on_to(daemon, 250)
    assert "the record of attempt 1 is torn" in daemon.output()
    assert faults(daemon.run) == []
    assert list(daemon.run.path.rglob("*.tmp")) == []


def test_an_attempt_whose_checkpoint_was_damaged_is_not_followed_any_more(
    supervise: Supervise,
) -> None:
    daemon = supervise(scripted(every=50, rate=300), every=50).start()
    daemon.until_seal(100)
    os.kill(daemon.until_trainer(), signal.SIGKILL)
    daemon.until(lambda: len(daemon.run.attempts()) > 1, "a second attempt")
    os.kill(daemon.until_trainer(), signal.SIGSTOP)
    resumed = daemon.run.attempts()[1]["resume"]["step"]
    daemon.kill()
    for pid in daemon.run.pids():
        os.kill(pid, signal.SIGKILL)
    daemon.until(lambda: not daemon.run.pids(), "the trainer's end")
    assert max(daemon.run.seals()) == resumed
    (daemon.run.path / f"checkpoints/step_{resumed:06d}.bin").write_bytes(b"torn")
    goes_on_to(daemon, resumed + 100)
    assert daemon.run.attempts()[2]["resume"]["step"] == resumed - 50


def test_an_adopted_trainer_that_writes_no_companions_is_sealed_on(supervise: Supervise) -> None:
    daemon = supervise(scripted(every=50, rate=300, no_companion=True), every=50).start()
    daemon.until_seal(50)
    daemon.kill()
    daemon.start().until_seal(200)
    assert daemon.stop() == 0
    assert len(daemon.run.attempts()) == 1


def test_a_reset_by_hand_that_was_cut_short_is_one_reset(supervise: Supervise) -> None:
    daemon = supervise(scripted(steps=100, rate=900), every=100).start()
    assert daemon.wait() == 0
    (daemon.run.path / "demo.state.json").unlink()
    for _ in range(3):  # lives that end before they write a bandit state
        parts = recover(load(daemon.run.path)).parts
        parts.ledger.close()
        parts.events.close()
    assert sorted(path.stem for path in (daemon.run.path / "policies").iterdir()) == [
        "0001",
        "0002",
    ]
    assert [line["policy"] for line in daemon.run.events("pivot-by-hand")] == [2]


def test_a_run_goes_on_without_a_socket(supervise: Supervise) -> None:
    daemon = supervise(scripted(every=100, rate=100), every=100).start()
    daemon.until_step(10)
    socket = daemon.run.path / "control.sock"
    socket.unlink()
    socket.write_text("not a socket")
    daemon.until(lambda: "going on without it" in daemon.output(), "the alarm")
    daemon.until_step(daemon.run.last_step() + 150)
    assert daemon.output().count("going on without it") == 1
    socket.unlink()
    daemon.until(socket.is_socket, "the socket is back")
    assert daemon.stop() == 0


def test_hours_without_power_are_no_hours_without_progress(supervise: Supervise) -> None:
    trainer = scripted(exit_at=5, attempts="1,2", steps=100, rate=900)
    settings = "[restart]\nfirst = 0.1\nmost = 0.2\ngive_up_after = 600.0\n"
    daemon = supervise(trainer, every=100, settings=settings).start()
    record = daemon.run.path / "attempts/000001/attempt.json"
    daemon.until((record.parent.parent / "000002/attempt.json").exists, "a second attempt")
    daemon.kill()
    facts = json.loads(record.read_bytes())
    facts["started"] = facts["ended"]["time"] = "2026-01-01T00:00:00.000Z"
    record.write_text(json.dumps(facts))
    assert daemon.start().wait() == 0
    assert max(daemon.run.seals()) == 100
