"""The command line's manners: help, exit codes, one line of error whatever goes wrong."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import supervisor
from supervisor import environment
from supervisor.cli.app import _guarded
from supervisor.cli.parameters import place
from supervisor.cli.registry import COMMANDS
from tests.support.command import command, program
from tests.support.runs import ROOT, make_run, scripted
from tests.support.waiting import wait_until


def test_the_help_lists_every_command_with_one_line() -> None:
    told = command("--help")
    assert told.code == 0
    assert set(COMMANDS) <= set(told.out.split())
    assert command().code == 2


@pytest.mark.parametrize("word", COMMANDS)
def test_every_command_explains_itself(word: str) -> None:
    told = command(word, "--help")
    assert (told.code, told.err) == (0, "")
    assert COMMANDS[word].help.split()[0] in told.out
    options = [line for line in told.out.splitlines() if line.lstrip(" │*").startswith("-")]
    assert [line for line in options if re.search("<(int|str|path|float)", line)] == []


def test_the_version_is_the_packages() -> None:
    assert command("--version").out == f"stepkeeper {supervisor.__version__}\n"


@pytest.mark.parametrize(
    "words",
    [
        ["fly"],
        ["--fly"],
        ["status"],
        ["status", "no/such/run"],
        ["status", "nosuchrun"],
        ["save", "."],
        ["pivot", "RUN"],
        ["pivot", "RUN", "--reset", "--cancel"],
        ["pivot", "RUN", "--when", "later", "--reset"],
        ["save", "RUN", "--note", "for nothing"],
        ["stop", "RUN", "--hard"],
        ["status", ""],
        ["init", " "],
        ["pin", "RUN", "99999999999999999999"],
        ["checkpoints", "RUN", "--plan", "--dry-run"],
        ["checkpoints", "RUN", "--size", "many"],
        ["checkpoints", "RUN", "--size", "3000000000"],
    ],
    ids=" ".join,
)
def test_wrong_use_is_one_line_and_exit_2(tmp_path: Path, words: list[str]) -> None:
    run = make_run(tmp_path / "run", scripted())
    told = command(*(str(run.path) if word == "RUN" else word for word in words))
    assert told.code == 2
    assert told.out == ""
    assert told.complaint()


def test_a_word_is_a_path_or_a_name_under_the_state_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STEPKEEPER_STATE", str(tmp_path / "state"))
    assert place("here") == tmp_path / "here"
    assert place("./there") == tmp_path / "there"
    assert place("there") == tmp_path / "state" / "there"
    monkeypatch.delenv("STEPKEEPER_STATE")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    assert environment.state_folder() == tmp_path / "xdg" / "stepkeeper"
    monkeypatch.delenv("XDG_STATE_HOME")
    if os.geteuid() == 0:
        assert environment.state_folder() == Path("/var/lib/stepkeeper")
    else:
        assert environment.state_folder() == Path.home() / ".local/state/stepkeeper"


def test_what_the_service_manager_said_to_us_is_not_passed_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", "@nobody")
    assert "NOTIFY_SOCKET" not in environment.for_trainer()
    assert environment.own()["NOTIFY_SOCKET"] == "@nobody"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ZeroDivisionError("division by\nzero"), "a fault in stepkeeper itself, ZeroDivisionError"),
        (PermissionError(13, "Permission denied", "some/file"), "some/file: Permission denied"),
        (KeyboardInterrupt(), "interrupted"),
    ],
    ids=["a fault", "the disk", "an interrupt"],
)
def test_no_failure_shows_a_traceback(
    error: BaseException, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def failing() -> int:
        raise error

    assert _guarded("work", failing)() == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("cannot ")
    assert said in line


def test_a_reader_that_leaves_is_no_reason_for_noise(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", scripted())
    process = subprocess.Popen(
        program("status", run.path, "--watch"),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith(b"demo")  # no screen is cleared in a pipe
        process.stdout.close()
        assert process.wait(20) == 2
        assert process.stderr is not None
        assert process.stderr.read() == b""
    finally:
        process.kill()
        process.wait(10)
        process.stderr.close()


def test_a_watched_status_ends_quietly_on_an_interrupt(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", scripted())
    log = tmp_path / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            program("status", run.path, "--watch", "--json"),
            cwd=ROOT,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        wait_until(lambda: log.read_bytes().count(b"\n") >= 2, "two looks")
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait(10)
    looks = [json.loads(line) for line in log.read_text().splitlines()]
    assert {look["state"] for look in looks} == {"never started"}


@pytest.mark.parametrize("words", [["status", "RUN"], ["--help"], ["tail", "RUN"]], ids=" ".join)
def test_what_must_answer_at_once_imports_nothing_heavy(tmp_path: Path, words: list[str]) -> None:
    run = make_run(tmp_path / "run", scripted())
    words = [str(run.path) if word == "RUN" else word for word in words]
    code = (
        "import sys; from supervisor.cli import run; run(sys.argv[1:]); "
        "sys.stderr.write(' '.join(sorted(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *words], cwd=ROOT, capture_output=True, text=True, check=True
    )
    heavy = "pydantic pydantic_core torch numpy psutil filelock watchdog asyncio"
    assert set(heavy.split()) & set(done.stderr.split()) == set()
    assert "supervisor.daemon" not in done.stderr.split()
