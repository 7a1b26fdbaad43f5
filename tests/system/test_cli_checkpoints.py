"""The command ``checkpoints``: reading back with a bar and an end, and what a plan says."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys

import pytest

from tests.support.daemon import Daemon
from tests.support.runs import ROOT, Run
from tests.support.waiting import wait_until

pytestmark = pytest.mark.system


def test_what_is_bad_is_told_beside_what_is_good(simple: Run) -> None:
    path = simple.path / "checkpoints/step_000200.bin"
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    done = Daemon(simple).cli("checkpoints", "{run}", "--verify", "--json")
    assert (done.returncode, done.stderr) == (1, "")
    facts = json.loads(done.stdout)
    assert facts["bad"] == 1
    told = {row["step"]: (row["state"], row["verified"]) for row in facts["checkpoints"]}
    assert told == {100: ("sealed", True), 200: ("BAD", False), 300: ("sealed", True)}


def test_one_cut_short_is_bad_though_no_byte_of_it_need_be_read(simple: Run) -> None:
    path = simple.path / "checkpoints/step_000200.bin"
    os.truncate(path, 100)
    done = Daemon(simple).cli("checkpoints", "{run}", "--verify")
    assert done.returncode == 1
    assert "3 read back, 1 of them not as sealed" in done.stdout
    assert "BAD" in next(line for line in done.stdout.splitlines() if line.startswith("200 "))


def verifying(run: Run) -> tuple[subprocess.Popen[bytes], int]:
    """``--verify`` with a terminal for its stderr, and the terminal's other end.

    A pipe that nobody writes to stands in the place of a companion: reading never ends.
    """
    beside = run.path / "checkpoints/step_000100.json"
    beside.unlink()
    os.mkfifo(beside)
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "supervisor", "checkpoints", str(run.path), "--verify"]
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    return process, ours


def test_a_terminal_is_shown_how_far_it_is_and_an_interrupt_ends_it(simple: Run) -> None:
    process, terminal = verifying(simple)
    shown = b""

    def bar() -> bool:
        nonlocal shown
        while select.select([terminal], [], [], 0)[0]:
            shown += os.read(terminal, 4096)
        return b"step_000100.bin" in shown and b"B/s" in shown

    def gone() -> bool:
        try:
            bar()
        except OSError:  # nobody has the other end any more
            return True
        return process.poll() is not None

    try:
        wait_until(bar, "the bar", 20, lambda: repr(shown[-300:]))
        process.send_signal(signal.SIGINT)
        wait_until(gone, "its end", 20, lambda: repr(shown[-300:]))
        assert process.wait(10) == 2
        assert b"cannot finish checkpoints: interrupted" in shown
        assert b"Traceback" not in shown
    finally:
        process.kill()
        process.wait(10)
        os.close(terminal)


def test_one_that_retention_deletes_meanwhile_is_not_bad(simple: Run) -> None:
    process, terminal = verifying(simple)
    pipe = simple.path / "checkpoints/step_000100.json"
    try:
        with pipe.open("wb") as writer:  # opens when the reader is there
            (simple.path / "checkpoints/step_000100.bin").unlink()
            writer.write(b"{}")
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait(10)
        os.close(terminal)


def test_a_plan_says_what_fits_and_which_cadence_pays(simple: Run) -> None:
    daemon = Daemon(simple)
    facts = json.loads(daemon.cli("checkpoints", "{run}", "--plan", "--json").stdout)
    assert facts["bytes"] == 8 + 12 * 64
    assert facts["held"] == 3
    assert facts["most"] == 5 + 10 + 2  # no step of this run is a ten thousandth
    assert facts["fit"] == facts["free"] // facts["bytes"]
    assert facts["saves"] == 3
    assert facts["lost_steps"] == 100
    assert facts["assumed"]
    assert 0 < facts["best_waste"] < facts["waste"]
    text = daemon.cli("checkpoints", "{run}", "--plan").stdout
    assert "no failure seen: one a day is assumed" in text
    assert "enough room" in text
