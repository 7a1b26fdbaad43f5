"""Start, adopt, signal and reap one trainer process, always through its pidfd."""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from supervisor.process import identity as proof
from supervisor.process import locks
from supervisor.process.descriptors import keep
from supervisor.process.ending import status_of_adopted
from supervisor.process.identity import Identity
from supervisor.process.leftovers import end_leftovers

__all__ = [
    "Child",
    "Identity",
    "adopt",
    "cgroup_oom_kills",
    "end_leftovers",
    "find_by_token",
    "spawn",
]

LOCK = "trainer.lock"
SignalName = Literal["TERM", "USR1", "KILL", "QUIT", "CONT"]
_NUMBERS = {
    "TERM": signal.SIGTERM,
    "USR1": signal.SIGUSR1,
    "KILL": signal.SIGKILL,
    "QUIT": signal.SIGQUIT,
    "CONT": signal.SIGCONT,
}


@dataclass(slots=True)
class Child:
    """One trainer process, ours or adopted. ``pidfd`` turns readable when it has ended."""

    pid: int
    pidfd: int
    identity: Identity
    _status: int | None = None
    _reaped: bool = False

    def send(self, name: SignalName) -> None:
        """Send a signal; a process already gone is not an error."""
        if not self._reaped:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.pidfd, _NUMBERS[name])

    def gone(self) -> bool:
        """Whether it has ended."""
        if self._reaped:
            return True
        poller = select.poll()
        poller.register(self.pidfd, select.POLLIN)
        return bool(poller.poll(0))

    def status(self) -> int | None:
        """Its end as in subprocess (negative: the signal); None while it lives.

        None too for an adopted one where the kernel does not say how strangers ended.
        """
        if not self._reaped and self.gone():
            self._reaped = True
            try:
                # Asked of the pidfd, so that a child that outlived our own re-exec answers too.
                result = os.waitid(os.P_PIDFD, self.pidfd, os.WEXITED | os.WNOHANG)
            except ChildProcessError:
                self._status = status_of_adopted(self.identity, self.pidfd)
            else:
                if result is not None:
                    ended = result.si_code == os.CLD_EXITED
                    self._status = result.si_status if ended else -result.si_status
        return self._status

    def close(self) -> None:
        """Let go of the pidfd; the process itself is not touched."""
        if self.pidfd >= 0:
            os.close(self.pidfd)
            self.pidfd = -1
            self._reaped = True


def spawn(
    command: Sequence[str], cwd: Path, env: dict[str, str], output: Path, lock: int, token: str
) -> Child:
    """Start the trainer in a session of its own, its output appended to ``output``.

    It inherits nothing but the descriptor ``lock``, whose number in it is the same; the caller
    closes its own copy afterwards, so that the lock tells whether the trainer lives. SIGUSR1 is
    ignored from its first instruction on, and no signal is blocked. ``env`` is its whole
    environment and must carry the token. Raises OSError (FileNotFoundError, PermissionError, …)
    where the command cannot be executed.
    """
    descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o640)
    try:
        with _as_the_trainer_begins():
            process = subprocess.Popen(
                command,
                cwd=cwd,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=descriptor,
                stderr=descriptor,
                pass_fds=(lock,),
                start_new_session=True,
            )
    finally:
        os.close(descriptor)
    process.returncode = 0  # it is reaped through the pidfd; Popen shall not try as well
    pidfd = os.pidfd_open(process.pid)
    identity = proof.identify(process.pid, token)
    if identity is None:  # an unreaped child always has an entry
        raise ProcessLookupError(f"cannot find pid {process.pid}, which was just started, in /proc")
    return Child(process.pid, pidfd, identity)


def adopt(identity: Identity) -> Child | None:
    """Take on a trainer that an earlier supervisor started, if it is proven to be that one.

    None where it has ended or the pid now belongs to another process. A child of ours that ended
    unreaped (across a re-exec) is taken on too, so that its status is not lost.
    """
    if (identity.boot_id, identity.pid_namespace) != (proof.boot_id(), proof.pid_namespace()):
        return None
    try:
        pidfd = os.pidfd_open(identity.pid)
    except OSError:
        return None
    # From here on the pid cannot come to mean another process unnoticed: the pidfd came first.
    if _is_proven(identity) and _alive_or_ours(identity.pid, pidfd):
        return Child(identity.pid, pidfd, identity)
    os.close(pidfd)
    return None


def take_over(identity: Identity, pidfd: int) -> Child | None:
    """Take on the trainer behind a pidfd that an earlier life in this process handed on.

    None where the descriptor is no pidfd of that process.
    """
    for line in _lines(Path(f"/proc/self/fdinfo/{pidfd}")):
        name, _, value = line.partition(":")
        if name == "Pid" and value.strip() == str(identity.pid):
            keep(pidfd)
            return Child(identity.pid, pidfd, identity)
    return None


def find_by_token(token: str) -> Identity | None:
    """The trainer that carries ``token``, whose pid was never recorded; None where none lives.

    Its workers carry the token too: the trainer is the one that leads its session.
    """
    for pid in proof.pids():
        try:
            if os.getsid(pid) != pid:
                continue
        except OSError:
            continue
        if proof.token_of(proof.settled_environment(pid)) == token:
            facts = proof.stat(pid)
            if facts is not None and not facts.dead:
                return proof.identify(pid, token)
    return None


def cgroup_oom_kills() -> int | None:
    """How often the kernel killed in our cgroup for lack of memory; None where it does not say."""
    for line in _lines(Path("/proc/self/cgroup")):
        _, controllers, path = line.split(":", 2)
        inside = path.lstrip("/")
        if controllers == "":
            files = [Path("/sys/fs/cgroup", inside, "memory.events")]
        elif "memory" in controllers.split(","):
            root = Path("/sys/fs/cgroup/memory")
            files = [root / inside / "memory.oom_control", root / "memory.oom_control"]
        else:
            continue
        for name, _, count in (line.partition(" ") for file in files for line in _lines(file)):
            if name == "oom_kill":
                return int(count)
    return None


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text("utf-8").splitlines()
    except OSError:
        return []


def _is_proven(identity: Identity) -> bool:
    facts = proof.stat(identity.pid)
    if facts is None or facts.start_ticks != identity.start_ticks:
        return False
    if facts.dead:  # a zombie has no environment any more
        return True
    token = proof.token_of(proof.settled_environment(identity.pid))
    # A trainer that sets its title writes over its environment; its lock still tells it.
    return token == identity.token or (not token and locks.holds(identity.pid, LOCK))


def _alive_or_ours(pid: int, pidfd: int) -> bool:
    """Whether it lives, or is a zombie whose status only we can ask for."""
    poller = select.poll()
    poller.register(pidfd, select.POLLIN)
    if not poller.poll(0):
        return True
    facts = proof.stat(pid)
    return facts is not None and facts.parent == os.getpid()


@contextlib.contextmanager
def _as_the_trainer_begins() -> Iterator[None]:
    """Hold the signal state that a process started now shall inherit: none blocked, no SIGUSR1.

    An ignored signal stays ignored across exec, a handled one does not; so ours is ignored for
    the millisecond of the start, when there is no trainer yet that could save anything. Set
    through libc, because Python's own call is refused outside the main thread.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    before = ctypes.create_string_buffer(512)  # larger than any struct sigaction
    ignore = ctypes.c_void_p(1)
    libc.signal.restype = ctypes.c_void_p
    mask = signal.pthread_sigmask(signal.SIG_SETMASK, ())
    libc.sigaction(int(signal.SIGUSR1), None, before)
    libc.signal(int(signal.SIGUSR1), ignore)
    try:
        yield
    finally:
        libc.sigaction(int(signal.SIGUSR1), before, None)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
