"""``save``, ``stop`` and ``release``: with a supervisor, without one, and when things go wrong."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.command import command, program
from tests.support.daemon import Daemon
from tests.support.runs import ROOT, Run, scripted
from tests.support.waiting import wait_until

pytestmark = pytest.mark.system

Supervise = Callable[..., Daemon]


def pins(run: Run) -> dict[str, str]:
    record = run.read("checkpoints/pins.json")
    return dict(record["marks"]) if record else {}


def start(*words: object) -> subprocess.Popen[str]:
    """A command that waits, as a process of its own."""
    return subprocess.Popen(
        program(*words),
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def end(process: subprocess.Popen[str], seconds: float = 20.0) -> tuple[int, str, str]:
    try:
        out, err = process.communicate(timeout=seconds)
    finally:
        process.kill()
        process.wait(10)
    return process.returncode, out, err


def reported(run: Run) -> int:
    """The last step that any attempt has reported."""
    number = len(run.attempts())
    return max((line["step"] for line in run.reports(number, "step")), default=0)


def test_a_save_prints_the_path_of_a_sealed_checkpoint(supervise: Supervise) -> None:
    daemon = supervise(scripted(every=10_000, rate=200), every=10_000).start()
    daemon.until_step(20)
    run = daemon.run
    told = command("save", run.path)
    assert (told.code, told.err) == (0, "")
    path = Path(told.out.strip())
    step = max(run.seals())
    assert path == run.path / "checkpoints" / f"step_{step:06d}.bin"
    assert path.exists()
    assert run.seals()[step]["save"] is not None
    facts = command("save", run.path, "--pin", "--note", "before the exam", "--json").facts()
    assert facts["pinned"]
    assert facts["sha256"] == run.seals()[facts["step"]]["bin"]["sha256"]
    assert facts["head"].split(":")[0] == str(facts["step"])
    assert pins(run) == {str(facts["step"]): "before the exam"}
    assert daemon.stop() == 0


def test_a_save_and_a_release_with_nothing_running_say_so(supervise: Supervise) -> None:
    run = supervise(scripted()).run
    told = command("save", run.path)
    assert told.code == 1
    assert "nothing runs there" in told.complaint()
    assert command("release", run.path).out == "it was not held\n"


def test_a_save_without_a_supervisor_adopts_seals_and_leaves_the_trainer_alone(
    supervise: Supervise,
) -> None:
    daemon = supervise(scripted(every=300, rate=150), every=300).start()
    daemon.until_seal(300)
    pid = daemon.until_trainer()
    daemon.kill()
    run = daemon.run
    facts = command("save", run.path, "--pin", "--note", "alone", "--json").facts()
    assert run.seals()[facts["step"]]["save"] is not None
    assert pins(run) == {str(facts["step"]): "alone"}
    last = reported(run)
    wait_until(lambda: reported(run) > last + 20, "steps after the visit")
    assert run.trainer_pid() == pid
    daemon.start()
    daemon.until_step(last + 50)
    assert daemon.stop() == 0
    assert [line["step"] for line in run.ledger()] == list(range(1, run.last_step() + 1))


def test_a_save_whose_trainer_dies_first_says_that_it_did(supervise: Supervise) -> None:
    trainer = scripted(every=10_000, rate=200, slow_save=20.0, attempts=1)
    daemon = supervise(trainer, every=10_000).start()
    daemon.until_step(20)
    process = start("save", daemon.run.path)
    daemon.until(lambda: saves(daemon.run), "a save under way")
    os.kill(daemon.until_trainer(), signal.SIGKILL)
    code, out, err = end(process)
    assert (code, out) == (1, "")
    assert "attempt 1 ended (killed) before the checkpoint was sealed" in err


def saves(run: Run) -> int:
    """How many saves the first attempt has begun."""
    return sum(line["what"] == "save" for line in run.reports(1, "doing"))


def test_a_save_whose_checkpoint_is_refused_says_so(supervise: Supervise) -> None:
    trainer = scripted(every=100, rate=100, corrupt_at=100, corrupt="nan", sigusr1="boundary")
    daemon = supervise(trainer, every=100)
    settings = daemon.run.path / "run.toml"
    boundary = 'every_steps = 100\nsigusr1 = "boundary"'
    settings.write_text(settings.read_text().replace("every_steps = 100", boundary))
    daemon.start()
    daemon.until_step(5)
    told = command("save", daemon.run.path)
    assert told.code == 1
    assert "the checkpoint of step 100 was refused" in told.complaint()


def test_an_interrupted_wait_says_that_the_request_stands(supervise: Supervise) -> None:
    daemon = supervise(scripted(every=10_000, rate=200, slow_save=3.0), every=10_000).start()
    daemon.until_step(20)
    for kept in (True, False):
        if not kept:
            daemon.kill()
        before = saves(daemon.run)
        process = start("save", daemon.run.path)
        daemon.until(lambda before=before: saves(daemon.run) > before, "a save under way")
        process.send_signal(signal.SIGINT)
        code, out, err = end(process)
        assert (code, out) == (2, "")
        assert err.startswith("cannot wait any longer: interrupted; the request stands")
        written = len(daemon.run.reports(1, "checkpoint"))
        wait_until(
            lambda written=written: len(daemon.run.reports(1, "checkpoint")) > written,
            "the checkpoint that was asked for",
        )
        assert daemon.run.trainer_pid()


def test_a_stop_answers_0_only_when_the_last_step_is_sealed(supervise: Supervise) -> None:
    daemon = supervise(scripted(every=1000, rate=300), every=1000).start()
    daemon.until_step(40)
    told = command("stop", daemon.run.path, "--json")
    assert told.code == 0
    assert daemon.wait() == 0
    facts = told.facts()
    assert facts["step"] == facts["sealed"] == daemon.run.last_step()
    assert Path(facts["path"]).exists()
    again = command("stop", daemon.run.path)
    assert (again.code, again.err) == (0, "")


def test_a_stop_that_kills_tells_an_older_checkpoint_from_none(supervise: Supervise) -> None:
    daemon = supervise(scripted(every=100, rate=100), every=100).start()
    daemon.until_step(20)
    none = command("stop", daemon.run.path, "--now", "--json")
    assert (none.code, none.facts()["sealed"]) == (4, None)
    assert daemon.wait() == 0
    daemon.start()
    daemon.until_step(120)
    older = command("stop", daemon.run.path, "--now", "--json")
    assert (older.code, older.facts()["sealed"]) == (3, 100)
    assert older.facts()["step"] > 100
    assert daemon.wait() == 0
    text = command("stop", daemon.run.path).out
    assert f"steps 101 to {older.facts()['step']} run again" in text


def test_a_stop_before_any_start_has_nothing_sealed(supervise: Supervise) -> None:
    run = supervise(scripted()).run
    assert command("stop", run.path).code == 4
    intent = run.read("intent.json")
    assert intent is not None
    assert (intent["want"], intent["done"], intent["hold"]) == ("stop", True, False)


@pytest.mark.parametrize("how", ["running", "at rest"])
def test_a_held_run_does_not_start_before_it_is_released(supervise: Supervise, how: str) -> None:
    daemon = supervise(scripted(every=1000, rate=300), every=1000)
    if how == "running":
        daemon.start()
        daemon.until_step(10)
    told = command("stop", daemon.run.path, "--hold")
    assert told.code == (0 if how == "running" else 4)
    assert "held until stepkeeper release" in told.out
    if how == "running":
        assert daemon.wait() == 0
    assert command("status", daemon.run.path, "--json").facts()["state"] == "held"
    assert daemon.start().wait() == 0
    assert "held by stop --hold" in daemon.output()
    assert daemon.run.pids() == []
    released = command("release", daemon.run.path, "--json").facts()
    assert released == {"released": True, "was_held": True}
    last = daemon.run.last_step()
    daemon.start()
    daemon.until_step(last + 10)
    assert daemon.stop() == 0


def test_a_stop_without_a_supervisor_saves_and_seals_the_last_step(supervise: Supervise) -> None:
    daemon = supervise(scripted(every=1000, rate=300), every=1000).start()
    daemon.until_step(20)
    daemon.kill()
    run = daemon.run
    told = command("stop", run.path, "--json")
    assert told.code == 0
    assert told.facts()["sealed"] == run.last_step() == reported(run)
    assert run.pids() == []
    intent = run.read("intent.json")
    assert intent is not None
    assert intent["done"]
    assert run.attempts()[0]["ended"]["cause"] == "stopped"


def test_a_stop_after_both_have_died_takes_in_all_that_was_reported(supervise: Supervise) -> None:
    daemon = supervise(scripted(every=100, rate=200), every=100).start()
    daemon.until_step(50)
    daemon.kill()
    run = daemon.run
    wait_until(lambda: reported(run) > 120, "steps that nobody has read")
    os.kill(run.trainer_pid(), signal.SIGKILL)
    wait_until(lambda: not run.pids(), "the trainer's end")
    told = command("stop", run.path, "--json")
    assert told.code == 3
    assert told.facts()["step"] == run.last_step() == reported(run)
    assert told.facts()["sealed"] == 100
    assert len(run.attempts()) == 1


def test_a_stop_outlives_the_supervisor_that_was_asked(supervise: Supervise) -> None:
    daemon = supervise(scripted(every=1000, rate=300, slow_save=2.0), every=1000).start()
    daemon.until_step(20)
    process = start("stop", daemon.run.path, "--json")
    daemon.until(lambda: saves(daemon.run), "the last save under way")
    daemon.kill()
    code, out, err = end(process)
    assert (code, err) == (0, "")
    assert json.loads(out)["sealed"] == daemon.run.last_step() == reported(daemon.run)
    assert daemon.run.pids() == []


@pytest.mark.parametrize("words", [["stop"], ["pivot", "--reset"]], ids=" ".join)
def test_whoever_does_not_own_a_run_changes_nothing_in_it(
    supervise: Supervise, words: list[str]
) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs to be root to be somebody else")
    daemon = supervise(scripted(steps=20)).start()
    assert daemon.wait() == 0
    run = daemon.run
    before = run.read("intent.json")
    # The other user may not read where Python lives, so all that is needed is imported first.
    assert command("pivot", run.path, "--reset", "--plan").code == 0
    outermost = Path(tempfile.gettempdir())
    above = [folder for folder in run.path.parents if folder.is_relative_to(outermost)]
    opened = [run.path, *(folder for folder in above if folder != outermost)]
    modes = [folder.stat().st_mode for folder in opened]
    try:
        for folder in [run.path, *run.path.rglob("*"), *opened]:
            folder.chmod(0o755)
        os.seteuid(65534)
        told = command(words[0], run.path, *words[1:])
    finally:
        os.seteuid(0)
        for folder, mode in zip(opened, modes, strict=True):
            folder.chmod(mode)
    assert told.code == 1
    assert "is not the owner of this run, uid 0" in told.complaint()
    assert run.read("intent.json") == before
    assert run.read("pivot.json") is None
