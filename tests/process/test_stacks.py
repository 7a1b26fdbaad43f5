"""Whether a process handles a signal, and what a program says of its stacks."""

from __future__ import annotations

import signal
import stat
import time
from pathlib import Path

import pytest

from supervisor.process import stacks
from tests.process.conftest import Lives
from tests.support.waiting import wait_until

HANDLER = "import signal, time; signal.signal(signal.SIGQUIT, print); time.sleep(60)"


def program(path: Path, text: str) -> str:
    """A shell script that can be executed."""
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_only_a_handled_signal_counts_as_caught(lives: Lives) -> None:
    child = lives.python(HANDLER)
    wait_until(lambda: stacks.catches(child.pid, signal.SIGQUIT), "the handler")
    assert not stacks.catches(child.pid, signal.SIGTERM)
    assert not stacks.catches(lives.other().pid, signal.SIGQUIT)
    child.send("KILL")
    wait_until(child.gone, "its end")
    child.status()
    assert not stacks.catches(child.pid, signal.SIGQUIT)


def test_a_dump_is_what_the_program_says_and_bounded(tmp_path: Path) -> None:
    good = program(tmp_path / "good", "echo $*")
    assert stacks.dump(good, 17, 5.0) == b"dump --nonblocking --pid 17\n"
    bad = program(tmp_path / "bad", "echo first >&2; echo not permitted >&2; exit 3")
    with pytest.raises(OSError, match="not permitted"):
        stacks.dump(bad, 17, 5.0)
    began = time.perf_counter()
    with pytest.raises(TimeoutError, match=r"longer than 0\.2 s"):
        stacks.dump(program(tmp_path / "slow", "exec sleep 60"), 17, 0.2)
    assert time.perf_counter() - began < 5
    with pytest.raises(FileNotFoundError):
        stacks.dump(str(tmp_path / "none"), 17, 5.0)
