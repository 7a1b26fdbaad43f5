"""Hooks of a real run: told of what happens, whoever dies, and never in anybody's way."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.process.conftest import alive
from tests.support.command import command
from tests.support.daemon import Daemon
from tests.support.document import blocks
from tests.support.receiver import SECRET, Receiver
from tests.support.reloading import SECONDS, life, zombies
from tests.support.runs import ROOT, make_run, scripted
from tests.support.waiting import wait_until

pytestmark = pytest.mark.system

Supervise = Callable[..., Daemon]
NO_FILE = os.strerror(errno.ENOENT)
PAGE = (ROOT / "supervisor/README.md").read_text("utf-8")

# Notes its pid, becomes deaf to SIGTERM, and hides a worker from session and environment.
STUBBORN = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if not os.fork():
    os.setsid()
    if os.fork():
        os._exit(0)
with open("hook-pids", "a") as file:
    file.write(f"{os.getpid()}\\n")
time.sleep(100)
"""


def webhook(url: str, *events: str, name: str = "ops") -> str:
    named = json.dumps(list(events))
    return f'[hooks.{name}]\nevents = {named}\nurl = "{url}"\nsecret_file = "secret"\n'


def starting(code: str, *events: str, name: str = "slow") -> str:
    words = json.dumps([sys.executable, "-S", "-c", code])
    named = json.dumps(list(events))
    return f"[hooks.{name}]\nevents = {named}\ncommand = {words}\ntimeout = 100.0\n"


def with_secret(daemon: Daemon) -> Daemon:
    secret = daemon.run.path / "secret"
    secret.write_bytes(SECRET)
    secret.chmod(0o600)
    return daemon


def test_a_run_tells_of_its_seals_and_crashes(supervise: Supervise) -> None:
    trainer = scripted(steps=200, every=50, rate=400, kill_at=120, attempts=1)
    with Receiver() as receiver:
        settings = webhook(receiver.url, "*")
        daemon = with_secret(supervise(trainer, every=50, settings=settings)).start()
        assert daemon.wait() == 0
        run = daemon.run
        events = [line for line in run.events() if not line["event"].startswith("hook-")]
        told = [got.event for got in receiver.got]
        assert [t["chain"] for t in told] == [line["chain"] for line in events]
        assert [t["entry"] for t in told] == list(range(1, len(told) + 1))
        assert {t["run"] for t in told} == {events[0]["run"]}
        assert all(got.is_signed_with(SECRET) for got in receiver.got)
        sealed = [t["checkpoint"] for t in told if t["event"] == "sealed"]
        heads = [line["head"] for line in run.events("sealed")]
        assert [checkpoint["head"] for checkpoint in sealed] == heads
        assert Path(sealed[-1]["path"]) == run.path / "checkpoints/step_000200.bin"
        assert sealed[-1]["sha256"] == run.seals()[200]["bin"]["sha256"]
        assert daemon.cli("audit", "{run}", "--head", sealed[0]["head"]).returncode == 0
        [example] = blocks("json", "What a hook is given", PAGE)
        assert [[*t] for t in (told[-1], sealed[0])] == [
            [*t] for t in (json.loads(example.text), json.loads(example.text)["checkpoint"])
        ]


def test_a_killed_supervisor_tells_nothing_twice_and_the_next_one_what_it_journals(
    supervise: Supervise,
) -> None:
    with Receiver() as receiver:
        settings = webhook(receiver.url, "attempt-started", "attempt-ended", "sealed")
        daemon = with_secret(supervise(scripted(rate=100), settings=settings)).start()
        daemon.until_seal(100)
        daemon.kill()
        trainer = daemon.run.trainer_pid()
        os.kill(trainer, signal.SIGKILL)
        wait_until(lambda: not alive(trainer), "the trainer's end")
        daemon.start().until(lambda: len(daemon.run.attempts()) == 2, "another attempt")
        daemon.until(lambda: receiver.events().count("attempt-started") == 2, "its hook")
        assert daemon.stop() == 0
        entries = [got.event["entry"] for got in receiver.got]
        assert entries == sorted(set(entries))
        ended = next(g.event for g in receiver.got if g.event["event"] == "attempt-ended")
        assert ended["facts"]["attempt"] == 1


def test_a_hook_that_hangs_holds_nothing_up_and_a_reload_ends_it_for_others(
    supervise: Supervise,
) -> None:
    with Receiver(404) as receiver:
        settings = starting(STUBBORN, "attempt-started", name="ops")
        daemon = with_secret(supervise(scripted(rate=50), settings=settings)).start()
        pids = daemon.run.path / "hook-pids"
        daemon.until(lambda: pids.exists() and len(pids.read_text().split()) == 2, "the hook")
        os.kill(daemon.until_trainer(), signal.SIGKILL)
        daemon.until(lambda: len(daemon.run.attempts()) == 2, "another attempt")
        # What was left of the trainer was ended before, and the hook is none of that.
        assert all(alive(int(pid)) for pid in pids.read_text().split())
        trainer, before = daemon.until_trainer(), life(daemon)
        path = daemon.run.path / "run.toml"
        text = path.read_text()
        path.write_text(text.replace(settings, webhook(receiver.url, "sealed")))
        told = daemon.cli("reload", "{run}", "--json", seconds=SECONDS)
        assert told.returncode == 0, told.stderr
        changes = {
            change["setting"]: change["reach"] for change in json.loads(told.stdout)["changes"]
        }
        assert changes["hooks.ops.url"] == "live"
        assert life(daemon)["life"] != before["life"]
        assert not any(alive(int(pid)) for pid in pids.read_text().split())
        assert zombies(daemon.pid) == []
        [left] = daemon.run.events("hook-left")
        assert (left["hook"], left["left"]) == ("ops", 2)
        daemon.until(lambda: len(receiver.got) > 1, "the new hook")
        daemon.until(lambda: daemon.run.events("hook-failing"), "the first answer, a refusal")
        told = daemon.cli("status", "{run}")
        assert told.returncode == 1
        assert "hooks     ops " in told.stdout
        assert "ALARM: hook ops fails: HTTP 404" in told.stdout
        told = daemon.cli("hooks", "{run}", "--json")
        assert json.loads(told.stdout)["hooks"][0]["failed"] == 1
        assert daemon.run.trainer_pid() == trainer
        assert daemon.stop() == 0
        assert {got.event["event"] for got in receiver.got} == {"sealed"}


def test_a_test_event_says_what_came_back_and_what_would_not_work(tmp_path: Path) -> None:
    with Receiver(200, 500) as receiver:
        settings = webhook(receiver.url, "seald", "alarm") + starting("print('gone')", "hang")
        run = make_run(tmp_path / "run", scripted(), settings=settings)
        told, secret = command("check", run.path, "--json").facts(), run.path / "secret"
        assert told["warnings"] == [
            "run.toml: hooks.ops.events: no event is called seald; see stepkeeper events",
            f"run.toml: hooks.ops.secret_file: cannot read secret_file {secret}: {NO_FILE}",
        ]
        with_secret(Daemon(run))
        told = command("hooks", run.path, "--test", "--json")
        assert told.code == 0, told.out
        assert [hook["said"] for hook in told.facts()["hooks"]] == [
            "HTTP 200: hello",
            "exit status 0: gone",
        ]
        assert receiver.got[0].event["event"] == "hook-test"
        told = command("hooks", run.path, "ops", "--test")
        assert (told.code, "FAILED: HTTP 500: hello" in told.out) == (1, True)
        assert "cannot find the hook pager" in command("hooks", run.path, "pager").complaint()


def test_the_receiver_of_the_page_takes_what_is_signed_with_its_secret_alone(
    tmp_path: Path,
) -> None:
    [block] = blocks("python", "What a hook is given", PAGE)
    (tmp_path / "receiver.py").write_text(block.text)
    (tmp_path / "secret").write_bytes(SECRET)
    process = subprocess.Popen(
        [sys.executable, "receiver.py", "secret", "0"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        if process.stdout is None:
            raise AssertionError("its output is a pipe")
        port = process.stdout.readline().split()[1]
        settings = webhook(f"http://127.0.0.1:{port}/", "sealed")
        daemon = with_secret(Daemon(make_run(tmp_path / "run", scripted(), settings=settings)))
        assert command("hooks", daemon.run.path, "--test").code == 0
        assert process.stdout.readline() == "hook-test 0 {'hook': 'ops'}\n"
        (daemon.run.path / "secret").write_bytes(b"the secret of somebody else")
        told = command("hooks", daemon.run.path, "--test")
        assert (told.code, "FAILED: HTTP 403" in told.out) == (1, True)
    finally:
        process.kill()
        process.communicate()
