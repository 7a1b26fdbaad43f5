"""``tail`` and ``logs``: on a run that lives, on one at rest, on files that are torn."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.command import command, program
from tests.support.daemon import Daemon
from tests.support.runs import ROOT, Run, make_run, scripted
from tests.support.waiting import wait_until

pytestmark = pytest.mark.system

Supervise = Callable[..., Daemon]


class Follower:
    """A command that goes on, its output in a file."""

    def __init__(self, folder: Path, *words: object) -> None:
        self.log = folder / "followed"
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(
                program(*words), cwd=ROOT, stdout=output, stderr=subprocess.STDOUT
            )

    def lines(self) -> list[str]:
        return self.log.read_text().splitlines()

    def until(self, text: str) -> None:
        wait_until(lambda: text in self.log.read_text(), f"{text!r} to be followed", 30, self.told)

    def told(self) -> str:
        return self.log.read_text()[-3000:]

    def interrupt(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(20)


@contextlib.contextmanager
def following(folder: Path, *words: object) -> Iterator[Follower]:
    follower = Follower(folder, *words)
    try:
        yield follower
    finally:
        follower.process.kill()
        follower.process.wait(10)


def said(*words: object) -> subprocess.CompletedProcess[bytes]:
    """A command in a process of its own, for what passes bytes on."""
    return subprocess.run(program(*words), cwd=ROOT, capture_output=True, check=False)


def test_tail_shows_the_newest_steps_as_columns_or_as_they_stand(rich: Run) -> None:
    lines = (rich.path / "demo.loss.json").read_text().splitlines()
    told = command("tail", rich.path, "-n", "3", "--json")
    assert (told.code, told.out.splitlines(), told.err) == (0, lines[-3:], "")
    head, *rows = command("tail", rich.path, "-n", "3").out.splitlines()
    assert head.split() == ["step", "loss", "arm", "lr", "policy", "attempt", "time"]
    for row, line in zip(rows, map(json.loads, lines[-3:]), strict=True):
        step, loss, arm, lr, policy, attempt, time = row.split()[:7]
        assert (int(step), arm, time) == (line["step"], line["arm"], line["time"])
        assert (int(policy), int(attempt)) == (line["policy"], line["attempt"])
        assert float(loss) == pytest.approx(line["loss"], abs=1e-6)
        assert float(lr) == pytest.approx(line["lr"], rel=1e-2)
    assert len(command("tail", rich.path).out.splitlines()) == 1 + 10
    assert len(command("tail", rich.path, "-n", "9999", "--json").out.splitlines()) == len(lines)


def test_tail_shows_marks_and_losses_that_are_no_numbers(supervise: Supervise) -> None:
    kept = '[guards.nonfinite]\naction = "record"\n'
    daemon = supervise(scripted(steps=5, nan_at=2, nan_as="-inf"), settings=kept)
    assert daemon.start().wait() == 0
    rows = command("tail", daemon.run.path).out.splitlines()
    assert "run:" in rows[1]
    assert rows[2].split()[1] == "-inf"


def test_tail_names_what_it_cannot_read_and_goes_on(simple: Run) -> None:
    path = simple.path / "demo.loss.json"
    lines = path.read_bytes().splitlines()
    broken = b'{"step":,' + lines[0][9:]
    path.write_bytes(
        b"\n".join([*lines[:298], b"torn", broken, b'{"step":1}', *lines[298:]]) + b"\n{"
    )
    told = command("tail", simple.path, "-n", "4")
    assert told.code == 0
    assert [row.split()[0] for row in told.out.splitlines()[1:]] == ["298", "299", "300"]
    start = len(b"\n".join(lines[:298])) + 1
    assert (
        f"cannot read demo.loss.json at byte {start}: torn, 4 bytes that begin b'torn'" in told.err
    )
    assert "cannot read a line of demo.loss.json: no step" in told.err
    assert len(told.err.splitlines()) == 3


def test_tail_of_a_run_without_steps_says_so(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", scripted())
    told = command("tail", run.path)
    assert told.code == 2
    assert "there is no demo.loss.json yet" in told.complaint()
    assert command("tail", run.path, "-n", "-1").code == 2
    assert command("tail", tmp_path / "elsewhere").code == 2


def test_tail_f_gives_each_line_once_across_a_crash(supervise: Supervise, tmp_path: Path) -> None:
    daemon = supervise(scripted(steps=400, rate=400, kill_at=150, attempts="1"), every=100)
    with following(tmp_path, "tail", daemon.run.path, "-f", "--json") as follower:
        assert daemon.start().wait() == 0
        follower.until('{"step":400,')
        assert follower.interrupt() == 0
    assert follower.lines() == (daemon.run.path / "demo.loss.json").read_text().splitlines()


def test_tail_f_says_when_the_ledger_is_not_what_it_was(simple: Run, tmp_path: Path) -> None:
    path = simple.path / "demo.loss.json"
    with following(tmp_path, "tail", simple.path, "-f", "-n", "1") as follower:
        follower.until("300")
        path.write_bytes(path.read_bytes()[:5000])
        assert follower.process.wait(20) == 2
    assert "cannot follow" in follower.lines()[-1]
    assert "it holds 5000 bytes" in follower.lines()[-1]


@pytest.mark.parametrize("words", [("tail", "-f"), ("logs", "-f")], ids=" ".join)
def test_a_follower_whose_reader_is_gone_ends_by_itself(rich: Run, words: tuple[str, str]) -> None:
    process = subprocess.Popen(
        program(words[0], rich.path, words[1]),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        assert process.wait(20) == 2
        assert process.stderr.read() == b""
    finally:
        process.kill()
        process.wait(10)
        process.stderr.close()


def test_tail_imports_little_and_no_more_for_a_long_ledger(rich: Run) -> None:
    code = (
        "import sys; from supervisor.cli import run; run(sys.argv[1:]); "
        "sys.stderr.write(' '.join(sorted(sys.modules)))"
    )
    words = [sys.executable, "-c", code, "tail", str(rich.path), "-n", "20"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    assert len(done.stdout.splitlines()) == 21
    modules = set(done.stderr.split())
    heavy = "pydantic pydantic_core rich torch numpy psutil filelock watchdog asyncio csv mmap"
    assert modules & set(heavy.split()) == set()
    ours = {name for name in modules if name.startswith(("supervisor.", "trainer."))}
    assert len(ours) <= 30
    assert len(modules) <= 260


def test_logs_passes_on_what_the_newest_attempt_printed_byte_by_byte(copy: Run) -> None:
    path = copy.path / "attempts/000006/output.log"
    path.write_bytes(b"one\n\xff\x00two\nthree\nhalf")
    assert said("logs", copy.path).stdout == path.read_bytes()
    for n, expected in ((0, b""), (1, b"half"), (2, b"three\nhalf"), (9, path.read_bytes())):
        assert said("logs", copy.path, "-n", n).stdout == expected
    path.write_bytes(b"a\n" * 100_000)
    assert said("logs", copy.path, "-n", "70000").stdout == b"a\n" * 70_000
    other = (copy.path / "attempts/000002/output.log").read_bytes()
    assert other.startswith(b"started at")
    assert said("logs", copy.path, "--attempt", 2).stdout == other


def test_logs_says_what_is_not_there(copy: Run, tmp_path: Path) -> None:
    fresh = make_run(tmp_path / "fresh", scripted())
    told = command("logs", fresh.path)
    assert (told.code, "no attempt has begun" in told.complaint()) == (2, True)
    told = command("logs", copy.path, "--attempt", 77)
    assert (told.code, "cannot show attempt 77" in told.complaint()) == (2, True)
    told = command("logs", copy.path, "--supervisor")
    assert (told.code, "journalctl" in told.complaint()) == (2, True)
    assert command("logs", copy.path, "--supervisor", "--attempt", 1).code == 2
    (copy.path / "supervisor.log").write_text("head 1:2:3\n")
    assert said("logs", copy.path, "--supervisor").stdout == b"head 1:2:3\n"


def test_logs_f_goes_from_attempt_to_attempt(supervise: Supervise, tmp_path: Path) -> None:
    trainer = scripted(steps=300, rate=600, say_start=True, kill_at=150, attempts="1")
    daemon = supervise(trainer, every=100)
    with following(tmp_path, "logs", daemon.run.path, "-f") as follower:
        assert daemon.start().wait() == 0
        follower.until("==> attempt 2 <==\nstarted at")
        assert follower.interrupt() == 0
    printed = [path.read_text() for path in sorted(daemon.run.path.glob("attempts/*/output.log"))]
    begin = "==> attempt 1 <==\n" if follower.lines()[0].startswith("==>") else ""
    assert follower.log.read_text() == f"{begin}{printed[0]}==> attempt 2 <==\n{printed[1]}"
