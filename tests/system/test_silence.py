"""What of the supervisor's own time counts as a trainer's silence."""

from __future__ import annotations

import selectors
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor.core.hang import HangPolicy
from supervisor.core.messages import Event, Moved, Quiet, ReportsPosition, Signalled
from supervisor.daemon.following import POLL_SECONDS, Following
from supervisor.daemon.silence import Silence
from supervisor.process.child import adopt
from supervisor.process.identity import identify
from tests.support.history import History, fresh_state, running

TOKEN = "a-token"  # noqa: S105 - no secret: it marks a process
POLICY = HangPolicy(least=1.0, first_step=1.0)


class Turns:
    """Turns of the loop beside a real process that is silent, at times that the test gives."""

    def __init__(
        self, run: Path, pid: int, selector: selectors.BaseSelector, *, judges: bool
    ) -> None:
        identity = identify(pid, TOKEN)
        assert identity is not None
        self.put: list[Event] = []
        self.checkpoints = run / "checkpoints"
        self.checkpoints.mkdir()
        self.history: History = running(20, fresh_state(hang=POLICY))
        self.following = Following(
            run, ReportsPosition(1, 21, 0), adopt(identity), self.put.append, selector
        )
        self.silence = Silence(run, self.put.append, judges=judges)
        self.now = 1000.0
        self.turn(0.0)

    def turn(self, seconds: float, *, polled: bool = True) -> None:
        """The loop comes round after so many seconds."""
        self.now += seconds
        if polled:
            self.following.poll()
        self.silence.turn(self.history.state, self.following, self.now, polled=polled)


@pytest.fixture
def turns(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Turns]:
    command = [sys.executable, "-S", "-c", "import time; time.sleep(60)"]
    with subprocess.Popen(command, env={"STEPKEEPER_TOKEN": TOKEN}) as process:
        try:
            with selectors.DefaultSelector() as selector:
                judges = getattr(request, "param", True)
                yield Turns(tmp_path, process.pid, selector, judges=judges)
        finally:
            process.kill()


def test_silence_is_told_once_it_is_longer_than_the_budget(turns: Turns) -> None:
    for _ in range(19):
        turns.turn(POLL_SECONDS)
    assert turns.put == []
    turns.turn(POLL_SECONDS)
    turns.turn(POLL_SECONDS)
    assert turns.put == [Quiet(1, 21, pytest.approx(1.05))]


def test_a_gap_counts_as_one_poll(turns: Turns) -> None:
    for _ in range(15):
        turns.turn(3600.0)
    assert turns.put == []
    assert turns.silence.seconds == pytest.approx(15 * POLL_SECONDS)


def test_a_turn_in_which_nobody_looked_does_not_count(turns: Turns) -> None:
    for _ in range(100):
        turns.turn(POLL_SECONDS, polled=False)
    assert turns.silence.seconds == 0


def test_bytes_of_a_checkpoint_begin_the_silence_anew_but_ours_do_not(turns: Turns) -> None:
    growing = turns.checkpoints / ".step_000021.bin.0123456789ab.tmp"
    for size in range(100):
        growing.write_bytes(b"x" * size)
        turns.turn(POLL_SECONDS)
    assert turns.put == []
    for size in range(100):
        (turns.checkpoints / "step_000020.seal.json").write_bytes(b"x" * size)
        turns.turn(POLL_SECONDS)
    assert turns.put[0] == Quiet(1, 21, pytest.approx(1.05))


def test_at_a_stop_bytes_and_gaps_are_signs_of_life(turns: Turns) -> None:
    turns.history.tell(Signalled("TERM"))
    for _ in range(100):
        turns.turn(POLL_SECONDS)
    assert turns.put == []
    (turns.checkpoints / "step_000021.bin").write_bytes(b"more")
    for _ in range(30):
        turns.turn(POLL_SECONDS)
    assert turns.put == [Moved(1)]
    turns.turn(30.0)
    assert turns.put == [Moved(1), Moved(1)]


@pytest.mark.parametrize("turns", [False], indirect=True)
def test_a_visit_that_does_not_stay_has_no_word_on_a_hang(turns: Turns) -> None:
    for _ in range(100):
        turns.turn(POLL_SECONDS)
    assert turns.put == []
