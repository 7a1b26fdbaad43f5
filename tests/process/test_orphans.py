"""Orphans that nothing of their own tells: taken in, ended, taken notice of; ours are spared."""

from __future__ import annotations

import json
import subprocess
import sys

from supervisor.process.leftovers import holds_gpu
from tests.process.conftest import Lives, alive
from tests.support.runs import ROOT
from tests.support.sources import calls, modules

# A supervisor that takes orphans in: prints what it found at each turn as one JSON object.
SUPERVISOR = """
import json, os, subprocess, sys, time
from pathlib import Path
from supervisor.process.leftovers import end_leftovers
from supervisor.process.orphans import Reaper, strays, take_in

run = Path(sys.argv[1])
assert take_in()
own = subprocess.Popen(["sleep", "100"], process_group=0)
trainer = subprocess.Popen([sys.executable, "-c", sys.argv[2]], stdout=subprocess.PIPE,
                           start_new_session=True, env={"PATH": os.defpath})
hidden = int(trainer.stdout.readline())
before = strays()
trainer.kill(); trainer.wait()
found = strays()
ended = end_leftovers(run, strays=strays)
reaper = Reaper()
def states():
    try:
        return Path(f"/proc/{hidden}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "gone"
first, spared, last = reaper.reap(()), reaper.reap((hidden,)), None
zombie = states()
last = reaper.reap(())
told = dict(hidden=hidden, trainer=trainer.pid, before=before, found=found, ended=ended,
            first=first, spared=spared, zombie=zombie, last=last, end=states(),
            own=own.poll())
own.kill(); own.wait()
print(json.dumps(told), flush=True)
"""

TRAINER = """
import os, time
reader, writer = os.pipe()
if not os.fork():
    os.setsid()
    pid = os.fork()
    if pid:
        os.write(writer, b"%d" % pid); os._exit(0)
    os.chdir("/"); os.closerange(0, 256)
    os.execve("/bin/sleep", ["sleep", "100"], {})
os.wait()
print(os.read(reader, 20).decode(), flush=True)
time.sleep(100)
"""


def test_a_worker_without_environment_session_or_parent_is_found_ended_and_reaped(
    lives: Lives,
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SUPERVISOR, lives.run, TRAINER],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=40,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    hidden = lives.remember(told["hidden"])
    assert sorted(told["before"]) == sorted([told["trainer"], hidden])
    assert told["found"] == [hidden]
    assert told["ended"] == [hidden]
    assert told["own"] is None  # what a supervisor starts itself is none
    assert (told["first"], told["spared"], told["zombie"]) == ([], [], "Z")
    assert (told["last"], told["end"]) == ([hidden], "gone")
    assert not alive(hidden)


def test_whoever_has_a_device_open_holds_it(lives: Lives) -> None:
    other = lives.other(stdin=subprocess.DEVNULL)
    assert holds_gpu(other.pid, ("/dev/null",))
    assert not holds_gpu(other.pid)
    other.kill()
    other.wait()
    assert not holds_gpu(other.pid, ("/dev/null",))


def test_whatever_a_supervisor_starts_but_the_trainer_stays_in_its_session() -> None:
    """By that it is told from orphans, which are ended before the next attempt.

    A hook's command begins a session below a process that stays in the supervisor's.
    """
    elsewhere = [
        str(path)
        for path in modules("supervisor")
        if path.name not in ("child.py", "hook_command.py") and "cli" not in path.parts
        for _, call in calls(path)
        if any(word.arg in ("start_new_session", "preexec_fn") for word in call.keywords)
    ]
    assert elsewhere == []
