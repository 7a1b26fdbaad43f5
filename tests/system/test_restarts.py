"""The restart rule with real processes: what cannot go on ends, what can is waited for."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable

import pytest

from supervisor import clock
from supervisor.daemon.reckoning import reckon
from tests.support.daemon import Daemon
from tests.support.runs import scripted

pytestmark = pytest.mark.system

Supervise = Callable[..., Daemon]

# Fails before it has read anything while RUN/away is there, as for want of a mount.
MOUNTED = """
import os, sys
if os.path.exists(os.environ["STEPKEEPER_RUN"] + "/away"):
    sys.exit("cannot read the data: the mount is away")
os.execv(sys.argv[1], sys.argv[1:])
"""


def restart(first: float, most: float, **more: object) -> str:
    lines = [f"first = {first}", f"most = {most}", *(f"{key} = {v}" for key, v in more.items())]
    return "\n".join(["[restart]", *lines, ""])


def resumed(daemon: Daemon) -> list[int]:
    return [a["resume"]["step"] if a["resume"] else 0 for a in daemon.run.attempts()]


def test_a_poison_batch_ends_in_giving_up_and_says_what_was_tried(supervise: Supervise) -> None:
    trainer = scripted(exit_at=350, rate=3000)
    daemon = supervise(trainer, every=100, settings=restart(0.01, 0.02)).start()
    assert daemon.wait(30) == 10
    assert resumed(daemon) == [0, 300, 300, 300, 200, 300, 300, 100, 300, 300]
    assert {a["ended"]["cause"] for a in daemon.run.attempts()} == {"failed"}
    [told] = daemon.run.events("gave-up")
    assert "9 attempts without progress and no older seal to try" in told["why"]
    assert "step 300 3 times, step 200 1 time, step 300 2 times, step 100 1 time" in told["why"]
    assert f"cannot go on: {told['why']}" in daemon.output()
    assert max(daemon.run.seals()) == 300
    assert daemon.run.last_step() == 350


def test_what_is_sealed_again_is_no_progress_for_a_supervisor_that_takes_over(
    supervise: Supervise,
) -> None:
    rules = restart(0.01, 0.02, fall_back_after=1)
    daemon = supervise(scripted(exit_at=350, rate=300), every=100, settings=rules).start()
    daemon.until(lambda: 200 in resumed(daemon), "the fall back to 200")
    daemon.until(lambda: 300 in daemon.run.seals(), "300 sealed again")
    daemon.kill()
    daemon.start()
    daemon.until(lambda: resumed(daemon)[-1] == 100, "the fall back to 100")
    assert [seal["step"] for seal in daemon.run.events("checkpoint-rejected")] == [300, 300, 200]
    assert daemon.wait() == 10


def test_a_mount_that_is_away_costs_neither_the_run_nor_a_checkpoint(supervise: Supervise) -> None:
    command = [sys.executable, "-S", "-c", MOUNTED, *scripted(rate=400)]
    daemon = supervise(command, every=100, settings=restart(0.01, 0.05)).start()
    daemon.until_seal(100)
    away = daemon.run.path / "away"
    away.touch()
    first = daemon.until_trainer()
    os.kill(first, signal.SIGKILL)
    daemon.until(lambda: len(daemon.run.attempts()) > 12, "a dozen attempts in vain")
    point = resumed(daemon)[-1]
    away.unlink()
    daemon.until_trainer(first)
    assert set(resumed(daemon)[1:]) == {point}
    daemon.until_seal(point + 100)
    assert not daemon.run.events("checkpoint-rejected")
    causes = {a["ended"]["cause"] for a in daemon.run.attempts()[1:] if a["ended"]}
    assert causes == {"never ready"}
    assert daemon.stop() == 0


def test_a_supervisor_started_again_and_again_does_not_shorten_the_wait(
    supervise: Supervise,
) -> None:
    daemon = supervise(scripted(no_ready=True), every=100, settings=restart(3.0, 3.0)).start()
    daemon.until(lambda: [a for a in daemon.run.attempts() if a["ended"]], "the first end")
    began = clock.monotonic()
    for _ in range(4):
        daemon.kill()
        daemon.start()
        daemon.until(lambda: "next attempt in" in daemon.logs()[-1].read_text(), "the wait")
    took = clock.monotonic() - began
    assert len(daemon.run.attempts()) <= 1 + took / 2.2
    reckoning = reckon(daemon.run.path, 1, 0, ())
    assert reckoning.restarts.failures == len(daemon.run.attempts())
    assert daemon.stop() == 0


def test_an_operator_who_starts_a_run_that_gave_up_gives_it_a_new_chance(
    supervise: Supervise,
) -> None:
    rules = restart(0.01, 0.02)
    daemon = supervise(scripted(exit_at=50, attempts="1,2,3"), every=100, settings=rules).start()
    assert daemon.wait() == 10
    assert (daemon.run.read("intent.json") or {})["done"] is True
    daemon.start().until_seal(100)
    assert resumed(daemon) == [0, 0, 0, 0]
    assert daemon.stop() == 0
