"""What an operator meets at three in the morning: each is told, with what to do about it."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from supervisor.cli import asking
from supervisor.cli.registry import COMMANDS
from tests.support.command import command
from tests.support.daemon import Daemon
from tests.support.runs import scripted
from tests.support.waiting import wait_until

pytestmark = pytest.mark.system

Supervise = Callable[..., Daemon]


@pytest.mark.parametrize("damage", ["broken", "renamed", "gone"])
def test_a_run_goes_by_the_settings_in_force_whatever_became_of_its_run_toml(
    supervise: Supervise, damage: str
) -> None:
    daemon = supervise(scripted(every=1000, rate=200), every=1000).start()
    daemon.until_step(20)
    run, settings = daemon.run.path, daemon.run.path / "run.toml"
    match damage:
        case "broken":
            settings.write_text("name = [")
        case "renamed":
            settings.write_text(settings.read_text().replace('name = "demo"', 'name = "other"'))
        case _:
            settings.unlink()
    told = command("status", run)
    assert (told.code, told.err) == (0, "")
    assert told.out.startswith("demo  ")
    assert "run.toml is not that of settings/0001.toml, without effect" in told.out
    assert command("tail", run, "-n", 1).out.count("\n") == 2
    assert command("loss", run).code == 0
    assert command("save", run).out.endswith(".bin\n")
    assert command("stop", run).code == 0
    assert command("status", run, "--json").facts()["state"] == "stopped"
    assert command("audit", run).code in (0, 1)


def test_a_suspended_trainer_is_named_with_what_wakes_it(supervise: Supervise) -> None:
    daemon = supervise(scripted(every=1000, rate=200), every=1000).start()
    daemon.until_step(20)
    pid = daemon.until_trainer()
    os.kill(pid, signal.SIGSTOP)
    try:
        told = command("status", daemon.run.path)
        assert told.code == 1
        assert f"suspended by a signal, so nothing goes on: kill -CONT {pid}" in told.out

        def quiet() -> bool:
            return "s without a report, doing step" in command("status", daemon.run.path).out

        wait_until(quiet, "the silence to be told", 20)
        assert "steps/s" not in command("status", daemon.run.path).out
    finally:
        os.kill(pid, signal.SIGCONT)
    wait_until(lambda: command("status", daemon.run.path).code == 0, "the trainer to go on", 20)


def test_a_suspended_supervisor_is_named_with_what_wakes_it(supervise: Supervise) -> None:
    daemon = supervise(scripted(every=1000, rate=200), every=1000).start()
    daemon.until_step(20)
    os.kill(daemon.pid, signal.SIGSTOP)
    try:
        told = command("status", daemon.run.path)
    finally:
        os.kill(daemon.pid, signal.SIGCONT)
    assert told.code == 1
    assert f"it is suspended by a signal; kill -CONT {daemon.pid}" in told.out


def test_a_released_run_is_no_alarm(supervise: Supervise) -> None:
    daemon = supervise(scripted(every=1000, rate=200), every=1000).start()
    daemon.until_step(20)
    assert command("stop", daemon.run.path, "--hold").code == 0
    assert command("status", daemon.run.path, "--json").facts()["state"] == "held"
    assert command("release", daemon.run.path).code == 0
    told = command("status", daemon.run.path, "--json")
    assert (told.code, told.facts()["state"]) == (0, "released")


def test_a_second_interrupt_says_what_is_waited_for(supervise: Supervise) -> None:
    daemon = supervise(scripted(every=1000, rate=200, slow_save=3.0), every=1000).start()
    daemon.until_step(20)
    daemon.signal(signal.SIGINT)
    daemon.until(lambda: "stopping, asked by SIGINT" in daemon.output(), "the stop")
    daemon.signal(signal.SIGINT)
    told = "still stopping: waiting for the trainer's checkpoint; stepkeeper stop --now kills it"
    daemon.until(lambda: told in daemon.output(), "the word")
    assert daemon.wait() == 0


def test_a_stop_that_takes_long_says_what_it_waits_for(
    supervise: Supervise, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "PATIENCE_SECONDS", 0.5)
    daemon = supervise(scripted(every=1000, rate=200, slow_save=3.0), every=1000).start()
    daemon.until_step(20)
    told = command("stop", daemon.run.path)
    assert told.code == 0
    assert told.err.startswith("waiting: the run is stopping, doing save; stop --now kills")
    said = told.err.splitlines()
    assert len(said) == len(set(said))  # each thing once
    assert [line for line in said if "draining" in line and "stop --now" in line] == []


def test_a_plan_is_made_from_the_pace_between_waits(supervise: Supervise) -> None:
    """A save that takes as long as all steps together does not make the steps look fast."""
    daemon = supervise(scripted(every=10, steps=30, rate=50, slow_save=0.5), every=10).start()
    assert daemon.wait() == 0
    facts = command("checkpoints", daemon.run.path, "--plan", "--json").facts()
    assert facts["steps_per_second"] == pytest.approx(50, rel=0.5)
    assert re.search(
        r"at \d\d(\.\d+)? steps/s", command("checkpoints", daemon.run.path, "--plan").out
    )


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("intent.json", "[" * 100_000),
        ("attempts/000001/attempt.json", "{}"),
        ("attempts/000001/attempt.json", '{"attempt":1,"ended":7}'),
        ("demo.state.json", '{"policy":"x","phases":[7],"arms":{"a":{"served":[]}}}'),
        ("pivot.json", "[1, 2]"),
    ],
    ids=lambda value: value[:24],
)
def test_a_damaged_file_is_told_in_one_line_with_what_to_do(
    supervise: Supervise, file: str, text: str
) -> None:
    daemon = supervise(scripted(steps=20)).start()
    assert daemon.wait() == 0
    (daemon.run.path / file).write_text(text)
    for words in (["status"], ["status", "--json"]):
        told = command(words[0], daemon.run.path, *words[1:])
        assert (told.code, told.out) == (2, "")
        assert "fault in stepkeeper" not in told.complaint()
        assert str(daemon.run.path) in told.complaint()


@pytest.mark.skipif(os.geteuid() != 0, reason="to become somebody else takes root")
def test_a_run_of_another_user_is_not_taken_for_an_empty_one(supervise: Supervise) -> None:
    daemon = supervise(scripted(steps=20)).start()
    assert daemon.wait() == 0
    words = (["status"], ["logs"], ["pivot", "--reset"], ["stop"], ["attempts"], ["release"])
    # Not under pytest's own folder, which nobody else may enter.
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        run = shutil.copytree(daemon.run.path, Path(folder, "run"))
        told = {word[0]: _as_nobody(word[0], str(run), *word[1:]) for word in words}
    for name, (code, line) in told.items():
        assert code == 2, name
        assert "it belongs to the user root; be that user" in line, name


def _as_nobody(*words: str) -> tuple[int, str]:
    """A command as the user nobody: code and complaint. Forked, since nobody may not import."""
    read, write = os.pipe()
    if not (pid := os.fork()):
        try:
            for one in COMMANDS.values():
                one.load()
            pwd.getpwuid(0)
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            told = command(*words)
            os.write(write, told.err.encode())
            os._exit(told.code)
        finally:
            os._exit(99)
    os.close(write)
    with os.fdopen(read) as file:
        said = file.read()
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), said


def test_long_names_of_arms_leave_the_columns_of_a_tail_in_line(supervise: Supervise) -> None:
    daemon = supervise(scripted(steps=20)).start()
    assert daemon.wait() == 0
    ledger = daemon.run.path / "demo.loss.json"
    ledger.write_text(
        ledger.read_text().replace('"arm":"a"', '"arm":"code=4 docstrings=5 names=3"')
    )
    head, *rows = command("tail", daemon.run.path, "-n", 20).out.splitlines()
    assert {row[: row.index("Z")].rindex(" ") + 1 for row in rows} == {head.index("time")}
