"""One run as a service of a booted machine: started, looked at, stopped by systemctl."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from tests.support.runs import Run, make_run, scripted
from tests.support.systemd_machine import HOME, STATE, Machine
from tests.support.waiting import wait_until

T = TypeVar("T")
PYTHON = f"{HOME}/venv/bin/python3"
TRAINER = (PYTHON, "-S", f"{HOME}/code/tests/support/scripted_trainer.py")

_DEBUGGER = """
import ctypes, os, sys
pid, ptrace = int(sys.argv[1]), ctypes.CDLL(None, use_errno=True).ptrace
seize, interrupt = 0x4206, 0x4207
if ptrace(seize, pid, None, None) or ptrace(interrupt, pid, None, None):
    sys.exit(os.strerror(ctypes.get_errno()))
os.waitpid(pid, 0x40000000)
print("held", flush=True)
os.waitpid(pid, 0x40000000)
"""


def within(**options: object) -> list[str]:
    """The command of the scripted trainer as it is called in the machine."""
    return [*TRAINER, *scripted(**options)[3:]]


def install(machine: Machine) -> None:
    """The unit, its user and the state directory, as its page says."""
    machine.call("stepkeeper", "install-unit")
    machine.call("systemd-sysusers")
    machine.call("systemd-tmpfiles", "--create", "stepkeeper.conf")
    machine.call("systemctl", "daemon-reload")


class Service:
    """``stepkeeper@NAME``; pids are those of the machine."""

    journal_of = "--unit"

    def __init__(
        self, machine: Machine, name: str, command: list[str], every: int = 100, settings: str = ""
    ) -> None:
        self.machine, self.name = machine, name
        self.unit = f"stepkeeper@{name}.service"
        self.run: Run = make_run(machine.state / name, command, every=every, settings=settings)
        machine.call("chown", "-R", "stepkeeper:stepkeeper", f"{STATE}/{name}")

    def drop_in(self, text: str) -> None:
        """Settings of this run's unit alone."""
        self.machine.install(f"/etc/systemd/system/{self.unit}.d/test.conf", f"[Service]\n{text}\n")
        self.systemctl("daemon-reload")

    def systemctl(
        self, *words: str, seconds: float = 60.0, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Ask the manager of this run."""
        return self.machine.call("systemctl", *words, seconds=seconds, check=check)

    def start(self) -> Service:
        """Start it; READY was said when this returns."""
        self.systemctl("start", self.unit)
        return self

    def stop(self, seconds: float = 60.0) -> None:
        """Stop it, which must leave no trainer and a seal of the last step."""
        self.systemctl("stop", self.unit, seconds=seconds)
        self.check_stopped()

    def check_stopped(self) -> None:
        """Nothing runs, nothing is lost."""
        assert self.pids() == [], self.describe()
        assert self.run.last_step() in self.run.seals(), self.describe()
        steps = [line["step"] for line in self.run.ledger()]
        assert steps == list(range(1, len(steps) + 1)), self.describe()

    def show(self, name: str) -> str:
        """A property of the unit."""
        return self.systemctl("show", "--value", f"--property={name}", self.unit).stdout.strip()

    @property
    def main(self) -> int:
        """The supervisor's pid, 0 without one."""
        return int(self.show("MainPID"))

    def trainer(self) -> int:
        """The pid of the newest attempt's trainer while it lives, else 0."""
        attempts = self.run.attempts()
        identity = attempts[-1]["identity"] if attempts else None
        pid = int(identity["pid"]) if identity else 0
        return pid if pid in self.pids() else 0

    def pids(self) -> list[int]:
        """Living processes of this run's trainers and their workers."""
        mark = f"STEPKEEPER_RUN={STATE}/{self.name}\0".encode()
        found = []
        for entry in self.machine.inside("/proc").iterdir():
            if entry.name.isdigit():
                with contextlib.suppress(OSError):
                    if mark in (entry / "environ").read_bytes() + b"\0":
                        found.append(int(entry.name))
        return sorted(found)

    def signal(self, name: str, pid: int) -> None:
        """Signal one process of the machine."""
        self.machine.call("kill", "-s", name, str(pid))

    def enter(self, pid: int, *words: str) -> None:
        """Run a command as the unit's user among the files that a process of it sees."""
        account = ("setpriv", "--reuid=stepkeeper", "--regid=stepkeeper", "--init-groups")
        self.machine.call("nsenter", "--mount", f"--target={pid}", "--", *account, *words)

    @contextlib.contextmanager
    def held_still(self, pid: int) -> Iterator[None]:
        """A debugger holds a process, which sees no signal but SIGKILL meanwhile."""
        process = self.machine.open(PYTHON, "-c", _DEBUGGER, str(pid))
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "held\n"
            yield
        finally:
            process.kill()
            process.communicate()

    def proc(self, pid: int, name: str) -> Path:
        """A file of a process in the machine."""
        return self.machine.inside(f"/proc/{pid}/{name}")

    def journal(self) -> str:
        """What the supervisor and the manager said of this unit."""
        words = ("journalctl", "--no-pager", "--output=cat", "-b", self.journal_of, self.unit)
        return self.machine.call(*words).stdout

    def until(self, condition: Callable[[], T], reason: str, seconds: float = 30.0) -> T:
        """Wait for a condition; a failure shows everything."""
        return wait_until(condition, reason, seconds, self.describe)

    def until_step(self, step: int) -> None:
        """Wait until the ledger holds ``step``."""
        self.until(lambda: self.run.last_step() >= step, f"step {step} in the ledger")

    def until_more(self, steps: int = 30) -> None:
        """Wait until that many more steps are in the ledger."""
        self.until_step(self.run.last_step() + steps)

    def describe(self) -> str:
        """Everything that helps after a failure."""
        status = self.systemctl("status", "--no-pager", self.unit, check=False)
        return f"{status.stdout}\n{self.journal()[-6000:]}\n{self.run.describe()}"

    def finish(self) -> None:
        """End the supervisor and all trainers at once."""
        self.systemctl("kill", "--kill-whom=all", "-s", "KILL", self.unit, check=False)
        self.systemctl("stop", "--no-block", self.unit, check=False)

        def nothing_left() -> bool:
            for pid in self.pids():
                self.machine.call("kill", "-s", "KILL", str(pid), check=False)
            return not self.pids() and self.show("ActiveState") in ("inactive", "failed")

        self.until(nothing_left, "the end of the service")
        self.systemctl("reset-failed", self.unit, check=False)


class OfAUser(Service):
    """The same under the own manager of the user ``stepkeeper``, with the unit for users."""

    journal_of = "--user-unit"

    def begin(self) -> None:
        """Start that manager and install the unit, as its page says."""
        uid = self.machine.call("id", "-u", "stepkeeper").stdout.strip()
        self._runtime = f"XDG_RUNTIME_DIR=/run/user/{uid}"
        self.machine.call("install", "-d", "-o", "stepkeeper", "-m", "700", f"/run/user/{uid}")
        self.machine.call("systemctl", "start", f"user@{uid}.service")
        words = ("stepkeeper", "install-unit", "--user", "--state", STATE)
        self.machine.call("env", "XDG_CONFIG_HOME=/etc/xdg", *words)
        self.systemctl("daemon-reload")

    def systemctl(
        self, *words: str, seconds: float = 60.0, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Ask the user's manager."""
        command = ("env", self._runtime, "systemctl", "--user", *words)
        return self.machine.call(*command, seconds=seconds, check=check, user="stepkeeper")
