"""Whatever a hook's command does, it is ended with all that it left, and hurts nobody."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from supervisor.process.hook_call import LATE, STOPPED, call
from tests.process.conftest import alive
from tests.support.receiver import Receiver
from tests.support.runs import ROOT
from tests.support.waiting import wait_until

# A worker that hides from session and environment, as what a command must not leave behind.
HIDE = """
import os, sys
if not os.fork():
    os.setsid()
    if os.fork():
        os._exit(0)
    os.closerange(0, 256)
    with open(sys.argv[1] + ".new", "w") as file:
        file.write(str(os.getpid()))
    os.rename(sys.argv[1] + ".new", sys.argv[1])
    os.execve("/bin/sleep", ["sleep", "100"], {})
os.wait()
"""
STUBBORN = "import signal,time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "


def run(code: str, tmp_path: Path, seconds: float = 20.0, stop: int = -1) -> dict[str, Any]:
    request = {
        "command": [sys.executable, "-S", "-c", code, str(tmp_path / "pid")],
        "cwd": str(tmp_path),
        "env": {"PATH": os.defpath, "ONLY": "this"},
        "input": '{"event":"sealed"}\n',
        "timeout": seconds,
    }
    return call("hook_command", request, seconds + 10, stop)


def hidden(tmp_path: Path) -> int:
    path = tmp_path / "pid"
    return int(wait_until(lambda: path.exists() and path.read_text(), "the hidden worker"))


def test_a_command_gets_its_event_and_nothing_else(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys\n"
        "got = sys.stdin.read().strip()\n"
        "mask, usr1 = signal.pthread_sigmask(0, ()), signal.getsignal(signal.SIGUSR1)\n"
        "open_files = sorted(int(n) for n in os.listdir('/proc/self/fd'))[:-1]\n"
        "leads, default = os.getsid(0) == os.getpid(), usr1 == signal.SIG_DFL\n"
        "print(got, sorted(os.environ), open_files, leads, mask, default, os.getcwd())"
    )
    before = os.open("/dev/null", os.O_RDONLY)
    os.set_inheritable(before, True)  # noqa: FBT003 - its only form
    told = run(code, tmp_path)
    os.close(before)
    named = "['LC_CTYPE', 'ONLY', 'PATH']"  # the first is of the interpreter's own making
    expected = f'{{"event":"sealed"}} {named} [0, 1, 2] True set() True {tmp_path}'
    assert (told["status"], told["output"]) == (0, expected)


def test_a_command_tells_how_it_ended(tmp_path: Path) -> None:
    assert run("print('no way'); raise SystemExit(3)", tmp_path)["status"] == 3
    told = run("import os; os.kill(os.getpid(), 9)", tmp_path)
    assert told["status"] == -9
    request = {"command": ["no-such"], "cwd": "/", "env": {}, "input": "", "timeout": 5.0}
    told = call("hook_command", request, 10)
    assert told == {"error": "no-such cannot be started: No such file or directory"}


def test_megabytes_are_read_and_the_last_words_kept(tmp_path: Path) -> None:
    told = run("print('x' * 5_000_000 + ' the end')", tmp_path)
    assert (told["status"], told["bytes"]) == (0, 5_000_009)
    assert told["output"].endswith("x the end")
    assert len(told["output"]) <= 4096


def test_who_writes_without_end_is_ended(tmp_path: Path) -> None:
    told = run("import os\nwhile True: os.write(1, bytes(1 << 20))", tmp_path)
    assert told["error"] == "it wrote more than 64 MiB"


def test_what_a_command_leaves_behind_is_ended_with_it(tmp_path: Path) -> None:
    wait = "while not os.path.exists(sys.argv[1]): __import__('time').sleep(0.01)"
    told = run(f"{HIDE}\n{wait}", tmp_path)
    assert told["status"] == 0
    assert not alive(hidden(tmp_path))


def test_a_command_that_hangs_and_ignores_sigterm_is_killed_with_its_worker(tmp_path: Path) -> None:
    began = time.perf_counter()
    told = run(f"{STUBBORN}exec({HIDE!r}); time.sleep(100)", tmp_path, 0.5)
    assert told["error"] == "it had not ended after 0.5 s"
    assert not alive(hidden(tmp_path))
    assert time.perf_counter() - began < 8


def test_a_call_that_is_stopped_ends_its_command(tmp_path: Path) -> None:
    stop = os.eventfd(0)

    def when_it_runs() -> None:
        hidden(tmp_path)
        os.eventfd_write(stop, 1)

    thread = threading.Thread(target=when_it_runs)
    thread.start()
    try:
        told = run(f"import time; exec({HIDE!r}); time.sleep(100)", tmp_path, 60, stop=stop)
    finally:
        thread.join(30)
        os.close(stop)
    assert told["error"] == STOPPED
    assert not alive(hidden(tmp_path))


# A supervisor that takes orphans in, is the whole of its unit, and looks while a hook runs.
SUPERVISOR = """
import json, os, sys, threading
os.environ["SYSTEMD_EXEC_PID"] = str(os.getpid())
from pathlib import Path
from supervisor import clock
from supervisor.process import orphans
from supervisor.process.hook_call import call
from supervisor.process.orphans import Reaper, strays, take_in

take_in()
folder = Path(sys.argv[1])
told = {}
request = json.loads(sys.argv[2])
thread = threading.Thread(target=lambda: told.update(call("hook_command", request, 30)))
thread.start()
while not (folder / "pid").exists() or not (folder / "pid").read_text():
    clock.pause(0.01)
hidden = int((folder / "pid").read_text())
# Every process below us, as the cgroup of a unit of its own would name them.
below = orphans.children(os.getpid())
for pid in below:
    below += orphans.children(pid)
orphans._unit_members = lambda: [os.getpid(), *below]
reaper = Reaper()
found, reaped = strays(), [reaper.reap(()) for _ in range(3)]
print(json.dumps({"hidden": hidden, "below": below, "strays": found, "reaped": reaped}), flush=True)
if sys.argv[3] == "wait":
    (folder / "go").touch()
    thread.join()
    print(json.dumps(told), flush=True)
    os._exit(0)
clock.pause(60)
"""


def _supervised(tmp_path: Path, code: str, then: str) -> subprocess.Popen[str]:
    request = {
        "command": [sys.executable, "-S", "-c", code, str(tmp_path / "pid")],
        "cwd": str(tmp_path),
        "env": {},
        "input": "",
        "timeout": 30.0,
    }
    return subprocess.Popen(
        [sys.executable, "-c", SUPERVISOR, tmp_path, json.dumps(request), then],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def _line(process: subprocess.Popen[str]) -> dict[str, Any]:
    if process.stdout is None:
        raise AssertionError("its output is a pipe")
    text = process.stdout.readline()
    assert text.startswith("{"), text + process.stdout.read()
    found: dict[str, Any] = json.loads(text)
    return found


def test_what_a_hook_starts_is_neither_taken_for_a_trainers_remains_nor_reaped(
    tmp_path: Path,
) -> None:
    code = f"{HIDE}\nwhile not os.path.exists('go'): __import__('time').sleep(0.01)\nsys.exit(7)"
    process = _supervised(tmp_path, code, "wait")
    try:
        told = _line(process)
        assert told["hidden"] in told["below"]
        assert len(told["below"]) >= 3  # the process around it, the command, and what hides
        assert told["strays"] == []
        assert told["reaped"] == [[], [], []]
        assert _line(process)["status"] == 7
    finally:
        process.kill()
        process.communicate()


def test_a_killed_supervisor_takes_its_hooks_along(tmp_path: Path) -> None:
    process = _supervised(tmp_path, f"import time; exec({HIDE!r}); time.sleep(100)", "stay")
    try:
        told = _line(process)
        assert alive(told["hidden"])
    finally:
        process.kill()
        process.communicate()
    gone = "the end of all that the hook started"
    wait_until(lambda: not any(alive(pid) for pid in told["below"]), gone)


def _post(url: str, timeout: float = 10.0) -> dict[str, Any]:
    request = {"url": url, "headers": {"X-Of": "me"}, "body": '{"a":1}', "timeout": timeout}
    return call("hook_post", request, timeout)


def test_a_post_tells_what_came_back_and_follows_nothing() -> None:
    with Receiver(200, 307, 500) as receiver:
        assert _post(receiver.url) == {"status": 200, "output": "hello"}
        assert _post(receiver.url)["status"] == 307
        assert _post(receiver.url)["status"] == 500
        assert [got.path for got in receiver.got] == ["/events?of=run"] * 3
        assert receiver.got[0].headers["x-of"] == "me"
    told = _post(receiver.url)
    assert "Connection refused" in told["error"]


def test_a_receiver_that_never_answers_costs_its_time_and_no_more() -> None:
    with Receiver() as receiver:
        receiver.held.set()
        began = time.perf_counter()
        assert _post(receiver.url, 0.3) == {"error": LATE}
        assert time.perf_counter() - began < 5


def test_a_proxy_of_the_environment_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    with Receiver() as receiver:
        assert _post(receiver.url)["status"] == 204


def test_a_certificate_that_nobody_vouches_for_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl, which makes a certificate")
    both = tmp_path / "both.pem"
    words = (
        "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=receiver"
    )
    made = ["openssl", *words.split(), "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([*made, "-keyout", both, "-out", tmp_path / "own.pem"], check=True, stderr=-3)
    both.write_text(both.read_text() + (tmp_path / "own.pem").read_text())
    with Receiver(certificate=both) as receiver:
        told = _post(receiver.url)
        assert told == {"error": "its certificate does not hold: self-signed certificate"}
        assert receiver.got == []
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "own.pem"))
        assert _post(receiver.url)["status"] == 204
