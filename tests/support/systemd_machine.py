"""A real systemd as PID 1 of namespaces of its own, on an overlay of this machine's files.

Its processes, mounts, sockets and control groups are its own; what it writes is gone with it, but
for the state directory, which is a folder of the test's. Needs root.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.support.runs import ROOT
from tests.support.waiting import wait_until

SYSTEMD = Path("/lib/systemd/systemd")
HERE = Path(__file__).parent
HOME = "/opt/stepkeeper"
STATE = "/var/lib/stepkeeper"
BOOT_SECONDS = 60.0
_ENVIRONMENT = {
    "PATH": f"{HOME}/venv/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LANG": "C.UTF-8",
    "STEPKEEPER_STATE": STATE,
}
_NEEDED = ("unshare", "nsenter", "systemctl", "mount", "pivot_root")


def missing() -> str:
    """Why no machine can be booted here; empty where one can."""
    if os.geteuid() != 0:
        return "not root, so no namespaces"
    if not SYSTEMD.exists():
        return f"no {SYSTEMD}"
    for program in _NEEDED:
        if shutil.which(program) is None:
            return f"no {program}"
    tried = subprocess.run(
        [
            *("unshare", "--pid", "--fork", "--kill-child", "--mount", "--ipc", "--uts"),
            *("--cgroup", "--net", "sh", HERE / "systemd_machine.sh", "try"),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    return " ".join(tried.stderr.split()) if tried.returncode else ""


class Machine:
    """Booted and ended as often as wanted; files outside the state directory live as long as it."""

    def __init__(self, folder: Path, *, memory: bool = False) -> None:
        self.folder, self.wants = folder, "memory" if memory else "plain"
        self.state = folder / "state"
        self.log = folder / "console.log"
        self._pid = 0
        self._keeper: subprocess.Popen[bytes] | None = None
        self._boot: subprocess.Popen[bytes] | None = None

    def prepare(self) -> None:
        """Make the folders; a process keeps the mounts that outlive a boot."""
        self.state.mkdir(parents=True)
        (self.folder / "layers").mkdir()
        (self.folder / "paths").write_text("".join(f"{path}\n" for path in _import_paths()))
        self._keeper = subprocess.Popen(
            ["unshare", "--mount", "--propagation=private", "sh", "-c", _KEEP, "sh", self.folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._keeper.stdout is not None
        assert self._keeper.stdout.readline() == b"kept\n"

    def boot(self, target: str = "basic.target") -> None:
        """Start PID 1 and wait until it runs ``target``."""
        assert self._keeper is not None
        script = ("sh", HERE / "systemd_machine.sh", "boot", self.folder, ROOT)
        with self.log.open("ab") as log:
            self._boot = subprocess.Popen(
                [
                    *("nsenter", "--mount", f"--target={self._keeper.pid}", "--"),
                    *(*script, _base(), target, self.wants),
                ],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self._pid = wait_until(self._find, "PID 1", BOOT_SECONDS, self._console)
        wait_until(self._runs, "a booted systemd", BOOT_SECONDS, self._console)

    @property
    def pid(self) -> int:
        """The number here of PID 1 in there."""
        return self._pid

    @property
    def group(self) -> str:
        """The name of its control group."""
        return f"stepkeeper-test-{self._boot.pid if self._boot else 0}"

    def call(
        self, *words: str, seconds: float = 60.0, check: bool = True, user: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in there; its output as text."""
        account = ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups"] if user else []
        done = subprocess.run(
            [*self._enter(), *account, *words],
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
            stdin=subprocess.DEVNULL,
            env=_ENVIRONMENT,
        )
        assert done.returncode == 0 or not check, f"{words}\n{done.stdout}{done.stderr}"
        return done

    def open(self, *words: str) -> subprocess.Popen[str]:
        """Start a command in there; the caller ends it."""
        command = [*self._enter(), *words]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=_ENVIRONMENT)

    def _enter(self) -> tuple[str, ...]:
        return ("nsenter", "--all", f"--target={self._pid}", "--")

    def install(self, path: str, text: str) -> None:
        """Write a file in there, with its folders."""
        inside = self.inside(path)
        inside.parent.mkdir(parents=True, exist_ok=True)
        inside.write_text(text)

    def inside(self, path: str) -> Path:
        """The path as it is reached from here."""
        return Path(f"/proc/{self._pid}/root{path}")

    def capabilities(self) -> str:
        """What PID 1 may do, as hexadecimal bits."""
        lines = self.inside("/proc/1/status").read_text().splitlines()
        return next(line.split()[1] for line in lines if line.startswith("CapEff:"))

    def limits_memory(self) -> bool:
        """Whether MemoryMax= of a unit has an effect."""
        groups = self.inside("/sys/fs/cgroup")
        here = groups / "cgroup.controllers"
        return (groups / "memory").is_dir() or (here.exists() and "memory" in here.read_text())

    def halt(self) -> None:
        """Stop the manager with all its units, in good order, and wait for its end."""
        self.call("systemctl", "halt", "--no-wall", check=False)
        self._ended(90.0)

    def cut(self) -> None:
        """End it as a machine ends that loses its power, but for its disk's cache."""
        os.kill(self._pid, signal.SIGKILL)
        self._ended(20.0)

    def end(self) -> None:
        """End everything at once: PID 1, with it all its processes, and the mounts."""
        if self._pid and self._boot is not None and self._boot.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
            self._ended(20.0)
        if self._keeper is not None:
            self._keeper.communicate(timeout=20)
            self._keeper = None

    def _ended(self, seconds: float) -> None:
        boot = self._boot
        assert boot is not None
        wait_until(lambda: boot.poll() is not None, "the end of PID 1", seconds, self._console)
        if boot.stdin is not None:
            boot.stdin.close()
        self._pid = 0

    def _find(self) -> int:
        """The pid here of the PID 1 in there: unshare's child, once it is systemd."""
        boot = self._boot
        assert boot is not None
        assert boot.poll() is None, self._console()
        for pid in _offspring(boot.pid):
            try:
                comm = Path(f"/proc/{pid}/comm").read_text()
            except OSError:
                continue
            if comm == "systemd\n":
                return pid
        return 0

    def _runs(self) -> bool:
        answer = self.call("systemctl", "is-system-running", check=False).stdout.strip()
        return answer in ("running", "degraded")

    def _console(self) -> str:
        return self.log.read_text(errors="replace")[-4000:] if self.log.exists() else ""


# The layers lie on a tmpfs of this namespace, so that nothing is left when its keeper ends.
_KEEP = """
mount -t tmpfs -o mode=755 stepkeeper "$1/layers" || exit 1
mkdir "$1/layers/upper" "$1/layers/work" "$1/layers/root" || exit 1
echo kept
exec cat
"""


def _import_paths() -> list[str]:
    """Folders that this interpreter imports from, but for its standard library and ROOT."""
    own = {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"), str(ROOT)}
    paths = [path for path in sys.path if path and Path(path).is_dir() and path not in own]
    return [path for path in paths if not path.endswith("lib-dynload")]


def _base() -> str:
    """The interpreter that the virtual environment was made from, links resolved."""
    return str(Path(sys.base_prefix, "bin", f"python3.{sys.version_info.minor}").resolve())


def _offspring(pid: int) -> Iterator[int]:
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return
    for child in map(int, children):
        yield child
        yield from _offspring(child)


@contextmanager
def booted(folder: Path, *, memory: bool = False) -> Iterator[Machine]:
    """A machine that runs; ended whatever happens. With ``memory`` its units can be limited."""
    machine = Machine(folder, memory=memory)
    try:
        machine.prepare()
        machine.boot()
        yield machine
    finally:
        machine.end()
