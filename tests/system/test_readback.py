"""A checkpoint whose reader cannot be started, or dies, is tried again and not refused for it."""

from __future__ import annotations

import selectors
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor import clock
from supervisor.core.messages import Verified, Verify
from supervisor.daemon.readback import TRIES, ReadBack
from tests.sidecars.sealing import checkpoint
from tests.support.waiting import wait_until
from trainer.contract.checkpoint_format import name_of


class Reading:
    """The queue beside a selector that the test turns."""

    def __init__(self, folder: Path, selector: selectors.BaseSelector) -> None:
        self.put: list[Verified] = []
        self.selector = selector
        self.queue = ReadBack(folder, selector, self.put.append)
        self.queue.add(Verify(1, 100, name_of(100), checkpoint(folder, 100, beside=True)), None)

    def turn(self, seconds: float) -> list[Verified]:
        """Let so much time have passed; what has been told so far."""
        for _ in self.selector.select(0.1) if self.selector.get_map() else ():
            self.queue.ready()
        self.queue.keep_up(clock.monotonic() + seconds)
        return self.put


@pytest.fixture
def reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reading]:
    """The first try has found no program to read with."""
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with selectors.DefaultSelector() as selector:
        made = Reading(tmp_path, selector)
        yield made
        made.queue.close()


def test_a_reader_that_could_not_be_started_is_started_later(
    reading: Reading, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert reading.turn(0.0) == []
    assert reading.queue.busy
    monkeypatch.undo()
    wait_until(lambda: reading.turn(1.0), "the verdict")
    assert [told.verdict.problem for told in reading.put] == [""]


def test_one_of_which_it_can_never_be_told_is_refused_in_the_end(reading: Reading) -> None:
    for _ in range(TRIES - 2):
        assert reading.turn(60.0) == []
    [told] = reading.turn(60.0)
    assert told.verdict.problem.startswith(f"cannot tell whether {name_of(100)} is good: No such")
    assert not reading.queue.busy
