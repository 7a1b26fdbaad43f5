"""What an earlier trainer left behind is ended before the next begins; nothing else is touched."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from supervisor.process.child import Child
from supervisor.process.identity import Identity, identify
from supervisor.process.leftovers import end_leftovers
from supervisor.process.locks import held
from tests.process.conftest import Lives, alive
from tests.support.runs import ROOT
from tests.support.waiting import wait_until

# A trainer with every kind of worker; prints their pids. The daemon has a session of its own,
# the bare one an empty environment, so that only its session tells whose it was.
WORKERS = """
import os, subprocess, sys, time
forked = os.fork()
if not forked:
    time.sleep(1000)
popened = subprocess.Popen(["sleep", "1000"]).pid
bare = subprocess.Popen(["/bin/sleep", "1000"], env={}).pid
reader, writer = os.pipe()
if not os.fork():
    os.setsid()
    daemon = os.fork()
    if daemon:
        os.write(writer, str(daemon).encode())
        os._exit(0)
    os.chdir("/")
    time.sleep(1000)
os.wait()
print(forked, popened, bare, os.read(reader, 20).decode(), flush=True)
time.sleep(1000)
"""


def end(child: Child) -> None:
    child.send("KILL")
    wait_until(child.gone, "the end of the trainer")
    child.status()


def deaf(lives: Lives) -> int:
    """Leave a worker behind that ignores SIGTERM, as data workers do; its pid."""
    code = "import signal, time; signal.signal(15, signal.SIG_IGN); print('deaf', flush=True); "
    worker = f"{code}time.sleep(1000)"
    child = lives.python(
        f"import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', {worker!r}])\n"
        "print(p.pid, flush=True); p.wait()\n"
    )
    end_of_start = lives.said(2)
    end(child)
    return int(next(line for line in end_of_start if line != "deaf"))


def test_every_kind_of_worker_is_ended_and_strangers_are_not(lives: Lives, tmp_path: Path) -> None:
    strangers = [
        lives.other(),
        lives.other(env=lives.env("token-9") | {"STEPKEEPER_RUN": str(tmp_path / "other")}),
        lives.other(env={"STEPKEEPER_RUN": str(lives.run), "PATH": os.defpath}),  # a shell's
        lives.other(cwd=lives.run),
    ]
    trainer = lives.python(WORKERS)
    workers = [lives.remember(int(pid)) for pid in lives.said()[0].split()]
    assert len(set(workers)) == 4
    end(trainer)
    assert all(alive(pid) for pid in workers)
    assert held(lives.run / "trainer.lock")  # by the forked one
    ended = end_leftovers(lives.run, [trainer.identity])
    assert sorted(ended) == sorted(workers)
    assert not any(alive(pid) for pid in workers)
    assert not held(lives.run / "trainer.lock")
    assert all(stranger.poll() is None for stranger in strangers)


def test_workers_are_found_without_any_record_of_their_trainer(lives: Lives) -> None:
    trainer = lives.python(WORKERS)
    forked, popened, bare, daemon = (int(pid) for pid in lives.said()[0].split())
    lives.remember(bare)
    end(trainer)
    assert sorted(end_leftovers(lives.run)) == sorted([forked, popened, daemon])
    assert alive(bare)  # of a session that nobody spoke of


def test_a_run_that_was_moved_is_found_by_its_token(lives: Lives, tmp_path: Path) -> None:
    trainer = lives.trainer()
    assert end_leftovers(tmp_path / "moved", [trainer.identity]) == [trainer.pid]
    assert trainer.status() == -signal.SIGTERM


def test_one_that_ignores_sigterm_is_killed_after_the_grace(lives: Lives) -> None:
    pid = deaf(lives)
    assert end_leftovers(lives.run, grace=0.1) == [pid]
    assert not alive(pid)


def test_one_that_ends_on_sigterm_is_not_waited_for_longer(lives: Lives) -> None:
    trainer = lives.trainer()
    began = time.perf_counter()
    end_leftovers(lives.run, grace=30.0)
    assert time.perf_counter() - began < 10
    assert trainer.status() == -signal.SIGTERM


def test_one_in_the_middle_of_its_exec_is_found(lives: Lives) -> None:
    """For a moment it has no environment that could tell whose it is."""
    for _ in range(30):
        trainer = lives.trainer()
        assert end_leftovers(lives.run) == [trainer.pid]
        assert trainer.status() == -signal.SIGTERM


def test_one_that_starts_another_when_it_is_ended_leaves_nothing(lives: Lives) -> None:
    code = (
        "import os, signal, subprocess, sys, time\n"
        "def again(*_):\n"
        "    heir = subprocess.Popen(['sleep', '1000'])\n"
        "    os.write(1, f'{heir.pid}\\n'.encode()); os._exit(0)\n"
        "signal.signal(15, again); print('on', flush=True); time.sleep(1000)\n"
    )
    trainer = lives.python(code)
    lives.said(1)
    ended = end_leftovers(lives.run)
    heir = int(lives.said(2)[1])
    assert ended == [trainer.pid, heir]
    assert not alive(heir)


def test_a_supervisor_that_carries_the_marks_itself_lives_on(lives: Lives) -> None:
    """Started from within a trainer's environment, by way of a shell that carries them too."""
    code = (
        "import sys; from pathlib import Path\n"
        "from supervisor.process.leftovers import end_leftovers\n"
        "print(end_leftovers(Path(sys.argv[1])))\n"
    )
    command = f'"{sys.executable}" -c "$0" "$1"; echo shell lives'
    done = subprocess.run(
        ["sh", "-c", command, code, lives.run],
        env=lives.env(),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    assert done.stdout.splitlines() == ["[]", "shell lives"]


def bereft(lives: Lives, *, cwd: Path) -> tuple[Identity, int]:
    """A session whose leader died: its identity, and the pid of a member that is left."""
    code = (
        "import os, subprocess, sys, json\n"
        "from supervisor.process.identity import identify\n"
        "member = subprocess.Popen(['/bin/sleep', '1000'], env={}, cwd=sys.argv[1]).pid\n"
        "print(json.dumps([identify(os.getpid(), ''), member]), flush=True)\n"
        "os._exit(0)\n"
    )
    command = [sys.executable, "-c", code, cwd]
    process = lives.other(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    with process.stdout:
        facts, member = json.loads(process.stdout.readline())
    process.wait(20)
    return Identity(*facts), lives.remember(member)


def test_a_leaderless_member_counts_only_with_something_of_the_run_open(lives: Lives) -> None:
    """The session's number may have come to mean another session in the meantime."""
    identity, stranger = bereft(lives, cwd=Path("/"))
    assert end_leftovers(lives.run, [identity]) == []
    assert alive(stranger)
    identity, member = bereft(lives, cwd=lives.run)
    younger = identity._replace(start_ticks=identity.start_ticks + 1000)
    assert end_leftovers(lives.run, [younger]) == []  # what is older is not of its making
    assert end_leftovers(lives.run, [identity]) == [member]


@pytest.mark.parametrize("reused", ["leader", "older"])
def test_another_session_of_the_same_number_is_left_alone(lives: Lives, reused: str) -> None:
    stranger = lives.other(cwd=lives.run)
    now = identify(stranger.pid, "")
    assert now is not None
    shift = -1 if reused == "leader" else 1
    trainer = now._replace(start_ticks=now.start_ticks + shift)
    assert end_leftovers(lives.run, [trainer]) == []
    assert stranger.poll() is None


def test_identities_of_another_boot_say_nothing(lives: Lives) -> None:
    stranger = lives.other(cwd=lives.run)
    now = identify(stranger.pid, "")
    assert now is not None
    assert end_leftovers(lives.run, [now._replace(boot_id="an earlier boot")]) == []
    assert stranger.poll() is None
    assert end_leftovers(lives.run, [now]) == [stranger.pid]


def test_looking_for_nothing_costs_next_to_nothing(lives: Lives) -> None:
    """It stands between a trainer's death and the next one's start."""
    trainer = lives.trainer()
    end(trainer)
    took = []
    for _ in range(10):
        began = time.perf_counter()
        assert end_leftovers(lives.run, [trainer.identity]) == []
        took.append(time.perf_counter() - began)
    assert min(took) < 0.005
