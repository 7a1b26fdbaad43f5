"""Signals to the supervisor: recorded in order, let in after a re-exec, put back at the end."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys

import pytest

from supervisor.core.messages import Signalled
from supervisor.process.signals import HANDLED, Signals
from tests.support.runs import ROOT


def kill(*numbers: signal.Signals) -> None:
    for number in numbers:
        os.kill(os.getpid(), number)


def test_each_signal_makes_the_descriptor_readable_and_is_told_in_order() -> None:
    with Signals() as signals:
        assert signals.drain() == []
        kill(signal.SIGUSR1, signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGUSR1)
        assert select.select([signals.fileno()], [], [], 10)[0]
        names = ["USR1", "TERM", "HUP", "INT", "USR1"]
        assert signals.drain() == [Signalled(name) for name in names]
        assert signals.drain() == []
        assert select.select([signals.fileno()], [], [], 0)[0] == []


def test_a_wait_is_interrupted_but_not_broken_by_a_signal() -> None:
    with Signals() as signals:
        poller = select.poll()
        poller.register(signals.fileno(), select.POLLIN)
        kill(signal.SIGTERM)
        assert poller.poll(10_000) == [(signals.fileno(), select.POLLIN)]


def test_ten_thousand_signals_neither_block_nor_fail() -> None:
    with Signals() as signals:
        for _ in range(10_000):
            kill(signal.SIGUSR1)
        assert set(signals.drain()) == {Signalled("USR1")}
        kill(signal.SIGTERM)
        assert signals.drain() == [Signalled("TERM")]


def test_what_was_there_before_is_put_back() -> None:
    def mine(*_: object) -> None:
        """Stand for a handler of the embedding program."""

    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    before = signal.signal(signal.SIGHUP, mine)
    wakeup = signal.set_wakeup_fd(writer)
    try:
        handlers = [signal.getsignal(number) for number in HANDLED]
        with Signals():
            assert all(signal.getsignal(number) not in handlers for number in HANDLED)
        assert [signal.getsignal(number) for number in HANDLED] == handlers
        assert signal.set_wakeup_fd(wakeup) == writer
    finally:
        signal.signal(signal.SIGHUP, before)
        os.close(reader)
        os.close(writer)


LIVES = """
import os, signal, sys
from supervisor.process.signals import Signals, block
if sys.argv[1] == "first":
    with Signals():
        block()
        for number in (signal.SIGTERM, signal.SIGUSR1):
            os.kill(os.getpid(), number)
        os.execv(sys.executable, [sys.executable, "-c", sys.argv[2], str(os.getpid()), ""])
blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
with Signals() as signals:
    print(int(sys.argv[1]) == os.getpid(), signal.SIGTERM in blocked)
    print(*sorted(told.name for told in signals.drain()))
    print(*signal.pthread_sigmask(signal.SIG_BLOCK, ()))
"""


def test_signals_that_come_during_a_re_exec_are_let_in_by_the_next_life() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LIVES, "first", LIVES],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    assert done.stdout.splitlines() == ["True True", "TERM USR1", ""]


def test_a_failing_start_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    handlers = [signal.getsignal(number) for number in HANDLED]
    monkeypatch.setattr("supervisor.process.signals.HANDLED", (signal.SIGUSR1, signal.SIGKILL))
    with pytest.raises(OSError, match="Invalid argument"), Signals():
        pass
    assert [signal.getsignal(number) for number in HANDLED] == handlers
    assert signal.set_wakeup_fd(-1) == -1
